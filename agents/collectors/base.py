"""What a collector is: a few file reads a second, numbers by column."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from ..system import System


class Collector(ABC):
    """Base of all collectors. `columns` describes each column: what it is, with its unit; N stands for a number."""

    name: str
    help: str
    columns: dict[str, str]

    def __init__(self, system: System, data_dir: Path) -> None:
        self.system, self.data_dir = system, data_dir

    def start(self) -> None:
        """Take the first look, from which rates are counted."""

    @abstractmethod
    def sample(self) -> dict[str, float]:
        """Numbers since the look before."""
