"""Parse the tracer of the published `cpu-placement` experiment: for each query the pages that its backend read, and
their mean time.

Source: the script of the experiment, and samples of its runs. A query starts with `query__start TEXT;pid:N`, prints
PID**READS**AVERAGE for each backend that read, and ends with `query__done TEXT;pid:N`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from common.errors import FormatError
from readers.text import INT, shown, unreadable, whole_lines

WHERE = "stap"


@dataclass(frozen=True)
class Query:
    """`avg_ns` is the mean over `reads` reads."""

    sql: str
    pid: int
    reads: int
    avg_ns: int


@dataclass(frozen=True)
class Trace:
    """`unfinished`: queries that started but have no figures or no end. `cut`: the last line was incomplete and is
    left out."""

    queries: tuple[Query, ...]
    unfinished: tuple[str, ...]
    cut: bool


_EDGE = re.compile(rf"query__(?P<edge>start|done) (?P<sql>.*);pid:(?P<pid>{INT})")
_FIGURES = re.compile(rf"({INT})\*\*({INT})\*\*({INT})")


@dataclass
class _Reader:
    running: dict[int, str] = field(default_factory=dict)
    figures: dict[int, tuple[int, int]] = field(default_factory=dict)
    queries: list[Query] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)

    def edge(self, is_start: bool, sql: str, pid: int) -> None:
        """Read the first or last line of a query. Raises ValueError for a last line without a first one."""
        if is_start:
            self.unfinished += [self.running[pid]] if pid in self.running else []
            self.running[pid] = sql
            self.figures.pop(pid, None)
        elif pid in self.running and pid in self.figures:
            self.queries.append(Query(self.running.pop(pid), pid, *self.figures.pop(pid)))
        else:
            raise ValueError(pid)


def parse_stap(raw: bytes) -> Trace:
    """Parse a trace. Raises FormatError without a complete query, and for a line that the script does not print."""
    lines, cut = whole_lines(raw, WHERE)
    reader = _Reader()
    for place, line in lines:
        edge, figures = _EDGE.fullmatch(line), _FIGURES.fullmatch(line)
        if figures:
            reader.figures[int(figures[1])] = int(figures[2]), int(figures[3])
        elif edge is None:
            raise unreadable(place, line)
        else:
            try:
                reader.edge(edge["edge"] == "start", edge["sql"], int(edge["pid"]))
            except ValueError:
                why = f"{shown(line)} has no beginning or no figures"
                raise FormatError(place, why, hint="lines before it are missing") from None
    if not reader.queries:
        raise FormatError(WHERE, "the output contains no complete query", hint="the tracer ended before the query did")
    return Trace(tuple(reader.queries), (*reader.unfinished, *reader.running.values()), cut)
