"""How much memory this process needed for a piece of work, however much it has needed before."""

from __future__ import annotations

from pathlib import Path
from typing import Self

PROC = Path("/proc/self")
RESET_PEAK = "5"  # of clear_refs: the peak becomes the present size, see proc(5)


class Peak:
    """The growth of resident memory during the `with` block, at its largest."""

    grown_mib = 0

    def __enter__(self) -> Self:
        (PROC / "clear_refs").write_text(RESET_PEAK)
        self._before = _mib("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.grown_mib = _mib("VmHWM") - self._before


def _mib(name: str) -> int:
    lines = (PROC / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) // 1024
