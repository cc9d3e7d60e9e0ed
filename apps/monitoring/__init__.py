"""Health checks, metrics, and how long requests take."""
