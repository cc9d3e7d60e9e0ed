"""Parse per-transaction logs of pgbench 9.4 to 18 (-l): one line per transaction, one file per thread.

Source: logTransaction() in src/bin/pgbench/pgbench.c. Columns: client, transaction, latency in us or a word, script,
seconds since 1970, us, then the schedule lag in us with -R, then the retries with --max-tries (from 15 on)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO

from agents.wire.histogram import Histogram
from common.errors import FormatError
from readers.text import check_text, shown

WHERE = "pgbench log"
LAG, RETRIES = "schedule lag in us", "retries"
LAG_OR_RETRIES = f"{LAG} (-R) or {RETRIES} (--max-tries): the log does not distinguish them"

_LINE = re.compile(
    rb"([0-9]{1,9}) ([0-9]{1,18}) (?:([0-9]{1,18})|(skipped|failed|serialization|deadlock)) ([0-9]{1,9}) "
    rb"([0-9]{9,11}) ([0-9]{1,6})(?: ([0-9]{1,18}))?(?: ([0-9]{1,18}))?"
)
_ENDS = b"\r\n"
PERCENTAGES = (50.0, 90.0, 95.0, 99.0, 99.9)


@dataclass(frozen=True)
class Transaction:
    """One line. If no latency was measured, `latency_us` is None and `word` states why. `ended_s` is since 1970."""

    client: int
    number: int
    latency_us: int | None
    word: str
    script: int
    ended_s: int
    ended_us: int
    extra: tuple[int, ...] = ()

    @property
    def columns(self) -> int:
        return 6 + len(self.extra)


@dataclass(frozen=True)
class Log:
    """A summary of a log. `failures`: number of transactions without a latency, by word; `latency_us` has the others.
    `extra_sums`: sums of the columns after the sixth, named by `extra_names`. `cut`: the last line was incomplete
    and is left out."""

    transactions: int
    failures: tuple[tuple[str, int], ...]
    clients: tuple[int, ...]
    scripts: tuple[int, ...]
    columns: int
    first: Transaction
    last: Transaction
    latency_us: Histogram
    extra_names: tuple[str, ...] = ()
    extra_sums: tuple[int, ...] = ()
    cut: bool = False

    @property
    def timed(self) -> int:
        return self.latency_us.count

    @property
    def latency_avg_us(self) -> float | None:
        return self.latency_us.sum / self.timed if self.timed else None

    @property
    def percentiles_us(self) -> dict[str, float]:
        """Percentiles by name, within 1 %; empty without latencies."""
        return {f"p{percentage:g}": self.latency_us.percentile(percentage) for percentage in PERCENTAGES if self.timed}


@dataclass
class _Sums:
    """Running sums, whose size does not depend on the number of lines."""

    transactions: int = 0
    word_counts: Counter[str] = field(default_factory=Counter)
    histogram: Histogram = field(default_factory=Histogram)
    clients: dict[int, int] = field(default_factory=dict)  # number of the last transaction
    scripts: set[int] = field(default_factory=set)
    extra: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, one: Transaction) -> None:
        self.transactions += 1
        if one.number < self.clients.get(one.client, 0):
            where = f"{WHERE}, transaction {self.transactions}"
            raise FormatError(where, f"client {one.client} starts again", hint="give the log of one run at a time")
        self.clients[one.client] = one.number
        self.scripts.add(one.script)
        for place, value in enumerate(one.extra):
            self.extra[place] += value
        if one.latency_us is None:
            self.word_counts[one.word] += 1
        else:
            self.histogram.add((one.latency_us,), (1,))


def parse_log(raw: bytes) -> Log:
    """Summarise a log line by line, in constant memory. Raises FormatError with the first line that cannot be read."""
    first = last = None
    sums = _Sums()
    for last in transactions(raw):
        first = first or last
        if last.columns != first.columns:
            where = f"{WHERE}, transaction {sums.transactions + 1}"
            raise FormatError(where, f"{last.columns} columns after {first.columns}", hint="give one log at a time")
        sums.add(last)
    if first is None or last is None:
        raise FormatError(WHERE, "the log contains no transaction", hint="give the output of pgbench -l")
    return Log(
        transactions=sums.transactions,
        failures=tuple(sorted(sums.word_counts.items())),
        clients=tuple(sorted(sums.clients)),
        scripts=tuple(sorted(sums.scripts)),
        columns=first.columns,
        first=first,
        last=last,
        latency_us=sums.histogram,
        extra_names=_extra_names(first.columns, sums.word_counts),
        extra_sums=tuple(sums.extra[: first.columns - 6]),
        cut=_is_cut(raw),
    )


def transactions(raw: bytes) -> Iterator[Transaction]:
    """Yield the complete lines of a log. Raises FormatError with the line that cannot be read."""
    check_text(raw, WHERE)
    for number, line in enumerate(BytesIO(raw), 1):
        whole = line.endswith(b"\n")
        content = line.rstrip(_ENDS)
        if not content.strip() or not whole:
            continue
        match = _LINE.fullmatch(content.removeprefix(b"\xef\xbb\xbf") if number == 1 else content)
        if match is None:
            text = shown(content[:200].decode(errors="backslashreplace"))
            hint = "expected: client transaction latency script seconds us [lag] [retries]"
            raise FormatError(f"{WHERE}, line {number}", f"cannot read {text}", hint=hint)
        yield _transaction(match)


def _transaction(match: re.Match[bytes]) -> Transaction:
    client, number, latency, word, script, seconds, us, seventh, eighth = match.groups()
    return Transaction(
        int(client),
        int(number),
        None if latency is None else int(latency),
        word.decode() if word else "",
        int(script),
        int(seconds),
        int(us),
        tuple(int(one) for one in (seventh, eighth) if one is not None),
    )


def _is_cut(raw: bytes) -> bool:
    return bool(raw) and not raw.endswith(b"\n") and bool(raw[raw.rfind(b"\n") + 1 :].strip())


def _extra_names(columns: int, word_counts: Counter[str]) -> tuple[str, ...]:
    if columns == 8:
        return LAG, RETRIES
    if columns == 7:
        # Transactions are only skipped with a rate (-R) and a latency limit (-L).
        return (LAG if word_counts["skipped"] else LAG_OR_RETRIES,)
    return ()
