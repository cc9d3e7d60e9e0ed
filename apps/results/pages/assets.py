"""Serve plotly.min.js from the installed plotly package, so that the repository needs no copy: only the part that the
charts need."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import plotly
from django.conf import settings
from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage

from apps.results.pages import plotly_bundle

NAME = "plotly.min.js"
SOURCE = Path(plotly.__file__).parent / "package_data" / NAME
# All types of traces that a chart of any page has. Plotly would draw any other type as `scatter`.
TRACES = ("scatter", "bar", "box", "heatmap")


@functools.cache
def plotly_script() -> str:
    """Return the script that defines `Plotly`, reduced to TRACES. The first call takes half a second."""
    return plotly_bundle.reduce_bundle(SOURCE.read_text(encoding="utf-8"), TRACES)


class PlotlyFinder(BaseFinder):
    """Finds that one file: collectstatic would take a minute for all of the package's data."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def check(self, **kwargs: Any) -> list[Any]:
        return []

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        if path != NAME:
            return []
        location = _storage().path(NAME)
        return [location] if find_all else location

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterable[tuple[str, FileSystemStorage]]:
        yield NAME, _storage()


def _storage() -> FileSystemStorage:
    """A folder of the state directory that has the script. Its name changes with all that the script is made of."""
    folder = Path(settings.STATE_DIR) / "plotly" / _digest()
    if not (folder / NAME).exists():
        folder.mkdir(parents=True, exist_ok=True)
        written = folder / f"{os.getpid()}.js"
        written.write_text(plotly_script(), encoding="utf-8")
        written.replace(folder / NAME)
    return FileSystemStorage(location=str(folder))


@functools.cache
def _digest() -> str:
    parts = (SOURCE.read_bytes(), Path(plotly_bundle.__file__).read_bytes(), repr(TRACES).encode())
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]
