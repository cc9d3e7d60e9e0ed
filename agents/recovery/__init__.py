"""The way back: settings, processes and clusters restored after a run, a crash or a restart of the host."""
