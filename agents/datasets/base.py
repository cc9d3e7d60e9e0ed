"""Base class of data sets: pure `check` and `steps`. Other files here store data sets and lend them to runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Mapping

from ..wire import protocol

Options = dict[str, Any]
Schema = dict[str, Any]

RESETS = ("auto", "copy", "reinit", "keep")
ENSURE = ("present", "absent")
PREPARING, PRISTINE, DIRTY, ABSENT = "preparing", "pristine", "dirty", "absent"
STEP = "dataset"  # its name among the steps of a run


@dataclass(frozen=True)
class Step:
    """A step of the creation that is done or not done as a whole: arguments of pgbench, or SQL.

    `share`: of the duration of the creation, roughly. `clean`: SQL that removes the rest of an interrupted step.
    `data`: it creates rows; before the first such step, nothing is worth keeping. `atomic`: it is one transaction.
    `watch`: the view of PostgreSQL with its progress, if pgbench does not report that. `stdin`: the input of pgbench,
    such as the script of `-f -`. `done`: SQL that returns the completed share of the step, from 0 to 1.
    """

    name: str
    title: str
    share: float
    argv: tuple[str, ...] = ()
    sql: str = ""
    clean: str = ""
    data: bool = False
    atomic: bool = True
    watch: str = ""
    stdin: str = ""
    done: str = ""


class Data(ABC):
    """Base of all kinds; see the registry in datasets/__init__.py."""

    kind: str
    title: str
    help: str
    schema: Schema

    def check(self, options: Options) -> None:
        """Pure. Unplannable for what the schema cannot say."""

    @abstractmethod
    def steps(self, options: Options, major: int) -> list[Step]:
        """Pure. Return the steps in order. Unplannable if this version of PostgreSQL cannot execute one."""

    def tablespaces(self, options: Options) -> Mapping[str, str]:
        """Pure. name -> directory of those that have to be there."""
        return {}

    def code(self, options: Options) -> Mapping[str, str]:
        """Pure. Field -> text of SQL that its author brings, which needs a permission."""
        return {}

    def conditions(self) -> Mapping[str, str]:
        """Pure. Name of a consistency condition -> SQL that counts its violations."""
        return {}

    def bytes(self, options: Options) -> int:
        """Pure. Its size in bytes, roughly; 0 if the options do not determine it."""
        return 0

    def fingerprint(self, options: Options, major: int) -> str:
        """Pure. The same for options that make the same data; what stands for its default counts as left out."""
        properties = self.schema["properties"]
        chosen = {name: value for name, value in options.items() if properties[name].get("default") != value}
        return protocol.digest({"kind": self.kind, "options": chosen, "major": major})
