"""Parse fio's text output of fio 2.2 to 3.4x.

Source: show_ddir_status(), display_lat(), show_clat_percentiles(), show_group_stats() and print_disk_util() in fio's
stat.c and diskutil.c, and samples of real runs. Figures are rounded to three or four digits: "112k" means 111 500 to
112 499. Each line has its own unit. Up to 2.16 KB, MB and GB are powers of 1024; later KiB is, and kB means 1000."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from common.errors import FormatError
from readers.fio.report import DIRECTIONS, Direction, Job, Latency, Spread
from readers.text import INT, NUMBER, unreadable, whole_lines

WHERE = "fio text"


@dataclass(frozen=True)
class TextJob(Job):
    """A Job with what only the text output has. `jobs`: how many jobs it sums up. `depth`: the configured queue
    depth."""

    jobs: int
    pid: int
    error_text: str | None
    context_switches: int | None
    depth: int | None


@dataclass(frozen=True)
class GroupRate:
    """One direction of one group. The times are those of the shortest and the longest job."""

    bw_kib_s: int
    io_bytes: int
    run_min_ms: int
    run_max_ms: int


@dataclass(frozen=True)
class Group:
    number: int
    rates: dict[str, GroupRate]


@dataclass(frozen=True)
class Disk:
    """The kernel's counters of one block device during the run. `util_pct`: share of the time in which it was busy."""

    name: str
    read_ios: int
    write_ios: int
    read_merges: int
    write_merges: int
    read_ticks_ms: int
    write_ticks_ms: int
    in_queue_ms: int
    util_pct: float


@dataclass(frozen=True)
class TextReport:
    """A parsed text output. `missing`: what an incomplete output lacks. `other_lines`: warnings and errors."""

    version: str | None
    jobs: tuple[TextJob, ...]
    groups: tuple[Group, ...]
    disks: tuple[Disk, ...]
    other_lines: tuple[str, ...]
    missing: tuple[str, ...]


_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_COUNT = rf"{NUMBER}[kKMGTPE]?"
_BYTES = rf"{NUMBER}[kKMGTPE]?i?(?:B|bit)"
_NS = {"nsec": 1, "usec": 1_000, "msec": 1_000_000}
# Samples are in KiB/s, whatever label kb_base and unit_base produce.
_KIB = {"KiB": 1.0, "KB": 1.0, "kB": 1.0, "MiB": 1024.0, "MB": 1024.0}

_NEW = re.compile(
    rf"(?P<direction>read|write|trim|mixed): IOPS=(?P<iops>{_COUNT}), BW=(?P<bw>{_BYTES}/s|0) \([^)]*\)"
    rf"\((?P<io>{_BYTES})/(?P<ms>{INT})msec\)(?:; .*)?"
)
_OLD = re.compile(
    rf"(?P<direction>read|write|trim|mixed) ?: io=(?P<io>{_BYTES}), bw=(?P<bw>{_BYTES})/s, "
    rf"iops=(?P<iops>{_COUNT}) ?, runt= *(?P<ms>{INT})msec"
)
_GROUP_NEW = re.compile(
    rf"(?P<direction>READ|WRITE|TRIM|MIXED): bw=(?P<bw>{_BYTES})/s \([^)]*\), [^=]*, io=(?P<io>{_BYTES}) \([^)]*\), "
    rf"run=(?P<shortest>{INT})-(?P<longest>{INT})msec"
)
_GROUP_OLD = re.compile(
    rf"(?P<direction>READ|WRITE|TRIM|MIXED): io=(?P<io>{_BYTES}), aggrb=(?P<bw>{_BYTES})/s, minb=[^,]*, maxb=[^,]*, "
    rf"mint=(?P<shortest>{INT})msec, maxt=(?P<longest>{INT})msec"
)
_HEAD = re.compile(
    rf"(?P<groupid>{INT}), jobs=(?P<jobs>{INT})\): err= *(?P<error>{INT})(?: \((?P<why>.*)\))?: pid=(?P<pid>{INT}): .*"
)
_LATENCY = re.compile(r"(?P<name>slat|clat|lat|sync) \((?P<unit>[num]sec)\) ?: (?P<rest>min=.*)")
_DISTRIBUTION = re.compile(r"lat \([num]sec\) *: [>0-9].*%")
_PERCENTILES = re.compile(r"(?P<name>slat|clat|lat|sync) percentiles \((?P<unit>[num]sec)\) ?:")
_PERCENTILE = re.compile(rf"(?P<percentage>[0-9]{{1,3}}(?:\.[0-9]{{1,12}})?)th=\[ *(?P<value>{INT})\]")
_BANDWIDTH = re.compile(r"bw \( *(?P<unit>[KkM]i?B) *(?:/s)?\) ?: (?P<rest>.*)")
_ISSUED = re.compile(rf"issued (?:rwts?|   ): total=(?:r=)?({INT})[,/](?:w=)?({INT})[,/](?:d=)?({INT})[, ].*")
_NAMES = {"min_ns": "min", "max_ns": "max", "mean_ns": "avg", "stddev_ns": "stdev"}


def _full_match(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return match


def _count(text: str) -> float:
    """Convert an abbreviated count or time: 112k -> 112000."""
    match = _full_match(_COUNTED, text)
    return round(float(match[1]) * math.pow(1000, _POWERS[match[2]]), 3)


def _bytes(text: str, old: bool) -> int:
    """Convert a size to bytes: 66.7MiB -> 69939999. With `old`, MB means MiB. unit_base=1 prints bits, and 0 has no
    unit."""
    match = _full_match(_COUNTED_BYTES, text)
    bits = 8 if match[4] == "bit" else 1
    return round(float(match[1]) * math.pow(1024 if match[3] or old else 1000, _POWERS[match[2]]) / bits)


_COUNTED = re.compile(rf"({NUMBER})([kKMGTPE]?)")
_COUNTED_BYTES = re.compile(rf"({NUMBER})([kKMGTPE]?)(i?)(B|bit|)")


def _fields(text: str) -> dict[str, str]:
    """Split assignments: min=  16, max=119403 -> {"min": "16", ...}. Raises ValueError for a part without "="."""
    pairs = [part.split("=") for part in text.split(",")]
    return {name.strip(): value.strip() for name, value in pairs}


@dataclass
class _Draft:
    """A job whose lines have not all been read. Its methods raise ValueError or KeyError for what they cannot read."""

    name: str
    head: re.Match[str]
    rates: dict[str, dict[str, Any]] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    issued: tuple[int, int, int] | None = None
    depth: int | None = None
    direction: str = ""  # direction of the next line; "sync" only has latencies
    block: tuple[str, int] | None = None  # latency whose percentiles the next line continues, and its unit

    def line(self, text: str) -> None:
        """Read one line without its indentation. Lines that repeat figures of others are ignored."""
        word = text.partition(" ")[0].rstrip(":")
        if word == "|":
            self._percentiles(text)
            return
        self.block = None
        if word in DIRECTIONS:
            self._rate(text)
        elif word in ("slat", "clat", "lat", "sync"):
            self._latency(text)
        elif word in ("bw", "iops"):
            self._spread(text)
        elif text.startswith("fsync/fdatasync"):
            self.direction = "sync"
            self.rates.setdefault("sync", {})
        else:
            self._rest(word, text)

    def _rest(self, word: str, text: str) -> None:
        if word == "cpu":
            fields = _fields(text.partition(":")[2])
            self.cpu = {name: _count(fields[name].removesuffix("%")) for name in ("usr", "sys", "ctx")}
        elif word == "issued":
            reads, writes, trims = map(int, _full_match(_ISSUED, text).groups())
            self.issued = (reads, writes, trims)
        elif word == "latency":
            self.depth = int(_count(_fields(text.partition(":")[2])["depth"]))

    def _rate(self, text: str) -> None:
        new = _NEW.fullmatch(text)
        match = new or _full_match(_OLD, text)
        if match["direction"] in self.rates:
            raise ValueError(text)
        self.direction = match["direction"]
        self.rates[self.direction] = {
            "iops": _count(match["iops"]),
            "bw_kib_s": round(_bytes(match["bw"].removesuffix("/s"), old=not new) / 1024),
            "io_bytes": _bytes(match["io"], old=not new),
            "runtime_ms": int(match["ms"]),
        }

    def _latency(self, text: str) -> None:
        header = _PERCENTILES.fullmatch(text)
        if header:
            self.block = header["name"], _NS[header["unit"]]
        elif " prio " not in text and not _DISTRIBUTION.fullmatch(text):
            match = _full_match(_LATENCY, text)
            if (match["name"] == "sync") != (self.direction == "sync"):
                raise ValueError(text)
            fields, factor = _fields(match["rest"]), _NS[match["unit"]]
            figures: dict[str, Any] = {key: round(_count(fields[name]) * factor, 3) for key, name in _NAMES.items()}
            latencies = self.rates[self.direction]
            if match["name"] in latencies:
                raise ValueError(text)
            latencies[match["name"]] = {**figures, "percentiles_ns": []}

    def _percentiles(self, text: str) -> None:
        if self.block is None:
            return
        name, factor = self.block
        for part in text.strip("|, ").split(","):
            match = _full_match(_PERCENTILE, part.strip())
            pair = (float(match["percentage"]), int(match["value"]) * factor)
            self.rates[self.direction][name]["percentiles_ns"].append(pair)

    def _spread(self, text: str) -> None:
        bandwidth = _BANDWIDTH.fullmatch(text)
        fields = _fields(bandwidth["rest"] if bandwidth else text.partition(":")[2])
        factor = _KIB[bandwidth["unit"]] if bandwidth else 1.0
        lowest, highest, mean, stddev = (round(_count(fields[name]) * factor, 3) for name in _NAMES.values())
        samples = int(_count(fields["samples"])) if "samples" in fields else None
        spread = Spread(lowest, highest, mean, stddev, samples)
        self.rates[self.direction]["bw_kib_s_spread" if bandwidth else "iops_spread"] = spread
        if bandwidth:
            self.rates[self.direction]["bw_share_pct"] = _count(fields["per"].removesuffix("%"))

    def job(self) -> TextJob:
        issued = self.issued or (0, 0, 0)
        totals = dict(zip(DIRECTIONS, (*issued, sum(issued)), strict=True))
        # With unified_rw_reporting=both, 3.x also prints a mixed line of zeros.
        moved = {name: rate for name, rate in self.rates.items() if rate.get("io_bytes")}
        directions = {name: _direction(moved[name], totals[name]) if name in moved else None for name in DIRECTIONS}
        return TextJob(
            name=self.name,
            groupid=int(self.head["groupid"]),
            error=int(self.head["error"]),
            read=directions["read"],
            write=directions["write"],
            trim=directions["trim"],
            mixed=directions["mixed"],
            sync=_latencies(self.rates.get("sync", {})).get("sync"),
            usr_cpu_pct=self.cpu.get("usr"),
            sys_cpu_pct=self.cpu.get("sys"),
            jobs=int(self.head["jobs"]),
            pid=int(self.head["pid"]),
            error_text=self.head["why"],
            context_switches=int(self.cpu["ctx"]) if self.cpu else None,
            depth=self.depth,
        )


def _latencies(rate: dict[str, Any]) -> dict[str, Latency]:
    latencies = {name: rate[name] for name in ("slat", "clat", "lat", "sync") if name in rate}
    return {name: Latency(**{**one, "percentiles_ns": tuple(one["percentiles_ns"])}) for name, one in latencies.items()}


def _direction(rate: dict[str, Any], total_ios: int) -> Direction:
    latencies = {name: _latencies(rate).get(name) for name in ("slat", "clat", "lat")}
    return Direction(**{**rate, **latencies}, total_ios=total_ios)


@dataclass
class _Reader:
    version: str | None = None
    declared: set[int] = field(default_factory=set)  # groups, from the lines above "Starting 8 threads"
    drafts: list[_Draft] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    disks: list[Disk] = field(default_factory=list)
    other_lines: list[str] = field(default_factory=list)
    section: Callable[[str], None] | None = None  # the reader of the indented lines that follow

    def line(self, line: str) -> None:
        if line.startswith(" ") and self.section:
            self.section(line.strip())
        elif line and not line.startswith(" "):
            self._heading(line)

    def _heading(self, line: str) -> None:
        name, is_job, rest = line.partition(": (groupid=")
        declared = re.match(rf"({INT})\): ", line.partition(": (g=")[2])
        if is_job:
            self.drafts.append(_Draft(name, _full_match(_HEAD, rest)))
            self.section = self.drafts[-1].line
        elif declared:
            self.declared.add(int(declared[1]))
        elif line.startswith("Run status group "):
            self._begin_group(int(_full_match(_STATUS, line)[1]))
        elif line.startswith("Disk stats"):
            self.section = self._disk
        elif re.fullmatch(r"fio-[0-9]\S*", line):
            self.version = line.removeprefix("fio-")
        elif not _OPENING.fullmatch(line):
            self.other_lines.append(line)

    def _begin_group(self, number: int) -> None:
        if any(group.number == number for group in self.groups):
            raise FormatError(WHERE, f"the output has two reports of group {number}", hint="give one run at a time")
        self.groups.append(Group(number, {}))
        self.section = self._group

    def _group(self, text: str) -> None:
        new = _GROUP_NEW.fullmatch(text)
        match = new or _full_match(_GROUP_OLD, text)
        self.groups[-1].rates[match["direction"].lower()] = GroupRate(
            bw_kib_s=round(_bytes(match["bw"], old=not new) / 1024),
            io_bytes=_bytes(match["io"], old=not new),
            run_min_ms=int(match["shortest"]),
            run_max_ms=int(match["longest"]),
        )

    def _disk(self, text: str) -> None:
        name, _, rest = text.partition(": ")
        fields = _fields(rest)
        ios, merges, ticks = (_full_match(_PAIR, fields[key]) for key in ("ios", "merge", "ticks"))
        disk = Disk(
            name=name,
            read_ios=int(ios[1]),
            write_ios=int(ios[2]),
            read_merges=int(merges[1]),
            write_merges=int(merges[2]),
            read_ticks_ms=int(ticks[1]),
            write_ticks_ms=int(ticks[2]),
            in_queue_ms=int(_count(fields["in_queue"])),
            util_pct=_count(fields["util"].removesuffix("%")),
        )
        self.disks.append(disk)

    def missing(self) -> Iterator[str]:
        for draft in self.drafts:
            if draft.issued is None:
                yield f"the rest of job {draft.name} (groupid={draft.head['groupid']})"
        reported = {int(draft.head["groupid"]) for draft in self.drafts}
        yield from (f"the jobs of group {number}" for number in sorted(self.declared - reported))
        rates_of = {group.number: group.rates for group in self.groups}
        yield from (
            f"the run status of group {number}" for number in sorted((self.declared | reported) - rates_of.keys())
        )
        lines = {(int(draft.head["groupid"]), name) for draft in self.drafts for name in draft.rates}
        for number, name in sorted(lines):
            if number in rates_of and name in ("read", "write", "trim") and name not in rates_of[number]:
                yield f"the {name.upper()} line of group {number}"


_STATUS = re.compile(rf"Run status group ({INT}) \(all jobs\):")
_PAIR = re.compile(rf"({INT})/({INT})")
_OPENING = re.compile(r"\.\.\.|[{}]|Starting [0-9]{1,9} (?:thread|process)(?:e?s)?|Jobs: .*")


def parse_fio_text(raw: bytes) -> TextReport:
    """Parse fio's text output; JSON inside it is skipped. An incomplete job is left out and named in `missing`.

    Raises FormatError if there is no complete job, and for a complete line that fio does not print."""
    reader, (lines, cut) = _Reader(), whole_lines(raw, WHERE)
    for place, line in lines:
        try:
            reader.line(line)
        except (ValueError, KeyError):
            raise unreadable(place, line) from None
    whole = [draft.job() for draft in reader.drafts if draft.issued]
    if not whole:
        raise FormatError(
            WHERE, "the output contains no report of a job", hint="fio ended before its report; see its stderr"
        )
    return TextReport(
        version=reader.version,
        jobs=tuple(whole),
        groups=tuple(reader.groups),
        disks=tuple(reader.disks),
        other_lines=tuple(reader.other_lines),
        missing=(*reader.missing(), *(["the rest of the last line"] if cut else [])),
    )
