"""Real hosts, servers and stacks for tests, and the state of the machine that a run could change."""
