"""Serve plotly.min.js from the installed plotly package, so that the repository needs no copy."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import plotly
from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage

NAME = "plotly.min.js"


class PlotlyFinder(BaseFinder):
    """Finds one file only: collectstatic would take a minute for all of the package's data."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.storage = FileSystemStorage(location=str(Path(plotly.__file__).parent / "package_data"))

    def check(self, **kwargs: Any) -> list[Any]:
        return []

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        if path != NAME:
            return []
        location = self.storage.path(NAME)
        return [location] if find_all else location

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterable[tuple[str, FileSystemStorage]]:
        yield NAME, self.storage
