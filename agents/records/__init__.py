"""Records that are on disk before each action: runs in the spool, the journal of originals, processes, data sets."""
