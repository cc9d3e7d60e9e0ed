"""gunicorn's configuration that is no option of its command line: --config=python:apps.serving"""

import os

# Nobody manages it through a socket, and a read-only container has no place for one.
control_socket_disable = True

# The workers share the memory of one import, and a worker that replaces another one starts at once.
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
