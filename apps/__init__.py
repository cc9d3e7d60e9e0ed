"""The server."""

from apps.configuration import redis_client  # noqa: F401, I001 - before anything loads the client

# Every process that sends a task by name needs this application's broker instead of Celery's default.
from apps.celery import app as celery_app

__all__ = ["celery_app"]
