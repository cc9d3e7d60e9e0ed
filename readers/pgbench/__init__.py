"""pgbench's summary, log, aggregate log and standard error."""
