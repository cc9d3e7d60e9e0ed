"""The server."""

# Every process that sends a task by name needs this application's broker instead of Celery's default.
from apps.celery import app as celery_app

__all__ = ["celery_app"]
