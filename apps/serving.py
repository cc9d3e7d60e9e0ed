"""gunicorn's settings that have no command line option. Use with --config=python:apps.serving."""

import os

# Unused, and a read-only container has no place for the socket.
control_socket_disable = True

# Workers share the memory of one import, and a replacement worker starts immediately.
preload_app = True

if os.environ.get("PROVING_LOG_FORMAT") == "json":
    _TO_STDERR = {"level": "INFO", "handlers": ["console"], "propagate": False}
    logconfig_dict = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "apps.logs.JsonFormatter"}},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "json"}},
        "loggers": {"gunicorn.error": _TO_STDERR, "gunicorn.access": _TO_STDERR},
        "root": {"level": "INFO", "handlers": ["console"]},
    }
