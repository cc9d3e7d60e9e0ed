"""Readers and statistics, which a wheel carries in a folder of its own and a checkout has beside `cli/`.

They are no packages of site-packages: names such as `stats` belong to nobody there.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from proving.errors import UsageError

CARRIED = Path(__file__).parent / "bundled"
EXTRA = ("numpy", "scipy")


def enable() -> None:
    """Make readers, stats and common importable. Call it before the first import of them."""
    folder = str(CARRIED if CARRIED.is_dir() else Path(__file__).parents[2])
    if folder not in sys.path:
        sys.path.insert(0, folder)


def need_statistics() -> None:
    """Raise UsageError where the extra `stat` is not installed."""
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"proving stat needs {' and '.join(missing)}", accepted="install it with: pip install 'proving[stat]'"
        )
