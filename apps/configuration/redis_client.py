"""Loads the client of Redis without OpenTelemetry, which it otherwise loads wherever that is installed.

It offers metrics that this server does not use. They would cost each process 0.2 s and 2 MB when it starts."""

from __future__ import annotations

import sys

OPTIONAL = "opentelemetry"

if "redis" not in sys.modules and OPTIONAL not in sys.modules:
    sys.modules[OPTIONAL] = None  # type: ignore[assignment]  # an import of it now fails, as if it were not installed
    try:
        import redis  # noqa: F401 - for its effect
    finally:
        del sys.modules[OPTIONAL]
