"""How a session of pytest runs here: what a test needs, which tests take turns, its databases and reports."""
