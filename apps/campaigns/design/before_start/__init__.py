"""Whether a planned campaign fits its hosts, before it starts. Nothing is written."""
