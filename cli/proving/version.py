"""The version of this program, and the commit that it was built from."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent


@cache
def number() -> str:
    """Return MAJOR.MINOR.PATCH of the installed distribution or of the checkout."""
    declared = HERE.parent / "pyproject.toml"
    if declared.is_file():
        return str(tomllib.loads(declared.read_text())["project"]["version"])
    return metadata.version("proving")


def commit() -> str:
    """Return the commit that `make release` writes into the wheel; "" elsewhere."""
    file = HERE / "commit.txt"
    return file.read_text().strip() if file.is_file() else ""


def line() -> str:
    return f"proving {number()}" + (f" ({commit()})" if commit() else "")
