"""One measured step: its processes, its raw output, its collectors, and when its rate is steady."""
