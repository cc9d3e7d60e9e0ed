"""Base class of data sets: pure `check` and `steps`. Other files here store data sets and lend them to runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from ..errors import HostFailure, WorkloadFailure
from ..host.system import System
from ..wire import protocol

if TYPE_CHECKING:
    from .making import Tools

Options = dict[str, Any]
Schema = dict[str, Any]

RESETS = ("auto", "copy", "reinit", "keep")
ENSURE = ("present", "absent")
PREPARING, PRISTINE, DIRTY, ABSENT = "preparing", "pristine", "dirty", "absent"
STEP = "dataset"  # its name among the steps of a run


@dataclass(frozen=True)
class Step:
    """A step of the creation that is done or not done as a whole: arguments of a tool, to which the name of the
    database is appended, or SQL.

    `share`: of the duration of the creation, roughly. `clean`: SQL that removes the rest of an interrupted step.
    `data`: it creates rows; before the first such step, nothing is worth keeping. `atomic`: it is one transaction.
    `watch`: the view of PostgreSQL with its progress, if pgbench does not report that. `stdin`: the input of the tool,
    such as the script of `-f -`. `done`: SQL that returns the completed share of the step, from 0 to 1. `reads`: a file
    or directory of which the tool reads each byte once, another measure of that share.
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
    tool: str = "pgbench"
    reads: str = ""


class Data(ABC):
    """Base of all kinds; see the registry in datasets/__init__.py."""

    kind: str
    title: str
    help: str
    schema: Schema
    without_effect: Sequence[str] = ()  # options that do not change the data

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

    def consistency(self) -> Mapping[str, str]:
        """Pure. Name of a consistency condition -> SQL that counts its violations."""
        return {}

    def bytes(self, options: Options) -> int:
        """Pure. Its size in bytes, roughly; 0 if the options do not determine it."""
        return 0

    def room(self, name: str, options: Options, tools: Tools) -> tuple[int, str]:
        """The bytes that its creation needs, 0 if unknown; and the sentence for the user up to that number."""
        return self.bytes(options), f"data set {name} needs about"

    def source(self, options: Options, tools: Tools) -> str:
        """Identify what the host itself brings to the data, such as a file; "" if nothing. HostFailure if it is not
        usable."""
        return ""

    def changed(self, options: Options) -> HostFailure:
        """The failure if `source` has changed during the creation."""
        return HostFailure("the source of the data changed while they were created", "start the run again")

    def explain(self, failure: WorkloadFailure, options: Options, tools: Tools) -> WorkloadFailure:
        """The failure of a step with the cause and the next step, if this kind knows them."""
        return failure

    def fingerprint(self, options: Options, major: int, source: str = "") -> str:
        """Pure. The same for options that make the same data; what stands for its default counts as left out."""
        properties = self.schema["properties"]
        chosen = {
            name: value
            for name, value in options.items()
            if name not in self.without_effect and properties[name].get("default") != value
        }
        identity = {"kind": self.kind, "options": chosen, "major": major}
        return protocol.digest({**identity, "source": source} if source else identity)


def size_of(system: System, path: str) -> int:
    """The bytes of a file, or of the files in a directory."""
    return sum(status.size for status in map(system.stat, files_of(system, path)) if status)


def files_of(system: System, path: str) -> list[str]:
    """The files in a directory, or the path itself."""
    return [f"{path}/{name}" for name in system.names(path)] or [path]
