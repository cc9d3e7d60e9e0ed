"""Parse the output of benchmark tools into typed figures, with units in field names. No Django, no database, no
host."""
