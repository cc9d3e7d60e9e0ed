"""What is on disk before it happens: runs in the spool, the journal of originals, the processes, kept data sets."""
