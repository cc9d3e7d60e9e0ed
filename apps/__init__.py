"""The server."""

# Whoever sends a task by name, from the web or from a shell, must know our broker and not Celery's default.
from apps.celery import app as celery_app

__all__ = ["celery_app"]
