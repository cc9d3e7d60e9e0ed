"""Find readers and statistics: in a folder of the wheel, or next to `cli/` in a checkout.

They are not installed in site-packages, because names such as `stats` are too general there."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from proving.errors import UsageError

CARRIED = Path(__file__).parent / "bundled"
EXTRA = ("numpy", "scipy")


def enable() -> None:
    """Make readers, stats and common importable."""
    folder = str(CARRIED if CARRIED.is_dir() else Path(__file__).parents[2])
    if folder not in sys.path:
        sys.path.insert(0, folder)


def need_statistics() -> None:
    """Raise UsageError if the extra `stat` is not installed."""
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"proving stat needs {' and '.join(missing)}", accepted="install it with: pip install 'proving[stat]'"
        )
