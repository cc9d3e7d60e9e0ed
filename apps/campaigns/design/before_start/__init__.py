"""Whether a planned campaign fits its hosts, before anybody starts it. It writes nothing."""
