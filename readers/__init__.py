"""What a tool printed, as typed figures with their units in the names. Knows no Django, no database and no host."""
