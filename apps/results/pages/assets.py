"""Serves plotly.min.js from the installed plotly package, so that no copy lives in the repository."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import plotly
from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage

NAME = "plotly.min.js"


class PlotlyFinder(BaseFinder):
    """One file only: the whole of the package's data would make collectstatic take a minute."""

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
