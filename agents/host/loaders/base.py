"""Base class of boot loaders that can start an entry of the agent once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

Boot = dict[str, Any]  # that of a plan, see settings/base.py


class Loader(ABC):
    """The entry is a file. The loader starts it only while a variable of its own is set, which it removes first. So the
    file is written before the variable, and without the variable it does not count."""

    way: str  # the value of boot_with
    title: str
    fields: tuple[str, ...]  # of its facts, for a plan
    in_place = False  # whether the file system of the entry cannot replace a file atomically

    @property
    def section(self) -> str:
        """Where the facts have it."""
        return self.way.replace("-", "_")

    @abstractmethod
    def file(self, boot: Boot) -> str:
        """The path of the entry."""

    @abstractmethod
    def entry(self, boot: Boot, run: str) -> str:
        """The text of the entry."""

    @abstractmethod
    def variable(self, boot: Boot) -> str:
        """The path of the file that has the variable."""

    @abstractmethod
    def setting(self, boot: Boot) -> list[str]:
        """The command that a DBA would set the variable with."""

    @abstractmethod
    def kernels(self, boot: Boot) -> str:
        """The installed kernels that it can start, as an error names them."""

    @abstractmethod
    def check_free(self, variable: str) -> None:
        """HostFailure if another entry is to start next, which the run would prevent."""

    @abstractmethod
    def arm(self, variable: str, run: str) -> None:
        """Let the loader start the entry of the run in the next boot. OSError if the variable cannot be set."""

    @abstractmethod
    def disarm(self, variable: str) -> None:
        """Remove the variable, if it is the agent's."""
