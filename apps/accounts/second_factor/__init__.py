"""Two factors for users with a password: an authenticator app, and recovery codes."""
