"""Base class of collectors: a few file reads per second give numbers by column."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional

from ..host.reader import Reader
from ..host.system import System
from ..wire.columns import Column, Columns

if TYPE_CHECKING:
    from ..postgres.instance import Target
    from ..records.processes import Child


class NotAvailable(Exception):
    """This host, or this run, has nothing for the collector; the message says why."""


@dataclass(frozen=True)
class Subject:
    """The objects that collectors observe: the directory with the data, by which the device is known; PostgreSQL, and
    the directory of the control group, if the run has them.

    `start_client` starts a program as the cluster's clients are started, with pipes to its stdin and stdout: (argument
    list, purpose) -> its process, whose stderr is kept with the run. `attach` starts one without stdin, as the user of
    the agent: the account of PostgreSQL may not be allowed to observe its processes."""

    data_dir: Path
    cluster: Optional[Target] = None
    postmaster: Optional[int] = None
    start_client: Optional[Callable[[list[str], str], Child]] = None
    attach: Optional[Callable[[list[str], str], Child]] = None
    group: str = ""


class Collector(ABC):
    """Base of all collectors. `columns` declares what `sample` gives; <word> stands for any text, such as a cpu."""

    name: str
    help: str
    columns: Columns
    needs_postgres = False
    needs_group = False  # whether it is only for runs with a control group
    needs_tcp = False  # whether it is only for runs whose load reaches PostgreSQL over TCP
    usual = True  # whether it is on in runs that name no collectors
    notes: tuple[str, ...] = ()  # messages for the run's log, complete after start()
    slow_start = False  # whether it starts before the others, whose first rates would include the wait for it
    late = False  # its counts arrive up to a second late, so the last ones do not belong to the last moments

    def __init__(self, system: System, subject: Subject) -> None:
        self.system, self.subject = system, subject

    def start(self) -> None:
        """Take the first sample, from which rates are counted. NotAvailable if there is nothing to sample."""

    @abstractmethod
    def sample(self) -> dict[str, float]:
        """Numbers of now, and since the previous sample."""

    def finish(self) -> dict[str, Any]:
        """Release all resources. Returns totals of the step that are not in the samples."""
        return {}

    def apart_cpu_s(self) -> float:
        """CPU time of the collector in other processes so far."""
        return 0.0

    def gauges(self) -> dict[str, float]:
        """How things stand before anything can be counted."""
        values = self.sample()
        declared = {name: self.column(name) for name in values}
        return {name: values[name] for name, column in declared.items() if column and column.gauge}

    @classmethod
    def column(cls, name: str) -> Optional[Column]:
        """Return the column that a name such as cpu3.busy means; None if this collector has no such number."""
        return cls.columns.get(cls.declared(name))

    @classmethod
    def declared(cls, name: str) -> str:
        """The declared name of a column: <cpu>.busy for cpu3.busy. "" if there is no such column."""
        if name in cls.columns:
            return name
        for start, end, text in _patterns(cls):
            if name.startswith(start) and name.endswith(end) and len(name) > len(start) + len(end):
                return text
        return ""


@lru_cache(maxsize=None)
def _patterns(collector: type[Collector]) -> list[tuple[str, str, str]]:
    """(start, end, declared name) of the columns with a <word>, whose names begin and end so. Samples have hundreds of
    names, so they are not taken apart for each."""
    parts = [(*text.partition("<"), text) for text in collector.columns if "<" in text]
    return [(start, rest.partition(">")[2], text) for start, _, rest, text in parts]


class Rates:
    """Growth per second of counters between two samples."""

    def __init__(self) -> None:
        self._last: Mapping[str, float] = {}
        self._at = 0.0

    def of(self, counts: Mapping[str, float], at: float) -> dict[str, float]:
        """Of each counter that was there in the previous sample; one that was reset has grown by nothing. `at` in s."""
        seconds, last = max(at - self._at, 1e-3), self._last
        self._last, self._at = counts, at
        return {
            name: rounded((count - last[name]) / seconds) if count > last[name] else 0.0
            for name, count in counts.items()
            if name in last
        }


def rounded(value: float) -> float:
    """To five digits, at most four of them decimals: the time of a sample is known to some 10 us of a second, so that
    more would be noise, and bytes."""
    return round(value, 4) if value < 10 else float("%.5g" % value)


class Fields:
    """Some of the fields of a file whose lines keep their places while the kernel runs."""

    def __init__(self, reader: Reader, select: Callable[[str], bool]) -> None:
        self._reader, self._select = reader, select
        self._places: list[tuple[int, str]] = []
        self._lines = -1

    def read(self) -> dict[str, int]:
        """Name -> number."""
        lines = self._reader.text().splitlines()
        if len(lines) != self._lines:
            named = [(place, line.partition(" ")[0].rstrip(":")) for place, line in enumerate(lines)]
            self._places = [(place, name) for place, name in named if self._select(name)]
            self._lines = len(lines)
        return {name: int(lines[place].split()[1]) for place, name in self._places}
