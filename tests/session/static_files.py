"""WhiteNoise scans all static files for each new test client; here it scans them once per process."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from whitenoise.middleware import WhiteNoiseMiddleware

_find = WhiteNoiseMiddleware.add_files_from_finders
_files_by_settings: dict[tuple[Any, ...], dict[str, Any]] = {}


def find_once(middleware: WhiteNoiseMiddleware) -> None:
    """The files of earlier clients that had the same settings."""
    key = (tuple(settings.STATICFILES_FINDERS), middleware.static_prefix, middleware.static_root, middleware.max_age)
    if key not in _files_by_settings:
        before = set(middleware.files)
        _find(middleware)
        _files_by_settings[key] = {url: file for url, file in middleware.files.items() if url not in before}
    for url, file in _files_by_settings[key].items():
        middleware.files.setdefault(url, file)


def pytest_configure() -> None:
    WhiteNoiseMiddleware.add_files_from_finders = find_once
