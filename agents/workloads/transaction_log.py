"""pgbench's per-transaction log (-l), reduced on the host to histograms: gigabytes become some hundred kilobytes.

A log is read in chunks while the step runs. Each chunk is punched out of the file after reading, while it is still in
the page cache, so it rarely reaches the disk and takes no space. Reading may use SHARE of one CPU during the load; the
rest is read when the load has ended. Rotation is impossible because pgbench opens its files once, and a pipe would
block pgbench while nobody reads.

A line is: client, number, latency in us or one of FAILURES, script, epoch, us[, lag in us: -R][, retries: --max-tries].
"""

from __future__ import annotations

import ctypes
import os
import time
from array import array
from bisect import bisect_right
from collections import Counter
from itertools import compress
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

from ..host import owned
from ..wire.histogram import Histogram, bucket_of, middle_of

VERSION = 1
CHUNK = 1 << 20
SHARE = 0.05
BLOCK = 4096
FAILURES = ("skipped", "failed", "serialization", "deadlock")
SLOTS = 3600
SLOT_BITS = 4  # a heat map needs no more than 16 steps from 1 ms to 2 ms
SLOT_BUCKETS = bucket_of(1 << 40, SLOT_BITS)  # 12 days in us
PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01  # linux/falloc.h


class Slots:
    """A coarse histogram per second, or per several seconds if there would be more than SLOTS."""

    def __init__(self) -> None:
        self.width_s = 1
        self._rows: dict[int, array[int]] = {}

    def add(self, second: int, counts: Mapping[int, int]) -> None:
        """How many transactions of each bucket of SLOT_BITS ended in that second."""
        row = self._row(second // self.width_s)
        for bucket, times in counts.items():
            row[bucket] += times

    def _row(self, place: int) -> array[int]:
        if place not in self._rows:
            self._rows[place] = array("Q", bytes(8 * (SLOT_BUCKETS + 1)))
            if len(self._rows) > SLOTS:
                self._widen()
                place //= 2
        return self._rows[place]

    def _widen(self) -> None:
        self.width_s *= 2
        rows, self._rows = self._rows, {}
        for place, row in rows.items():
            known = self._rows.get(place // 2)
            self._rows[place // 2] = row if known is None else array("Q", map(sum, zip(known, row)))

    def rows(self) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """(its first second since 1970, [(bucket, how often)]) in the order of time."""
        for place in sorted(self._rows):
            row = self._rows[place]
            yield place * self.width_s, [(bucket, times) for bucket, times in enumerate(row) if times]

    def percentiles(self) -> Iterator[tuple[int, dict[str, float]]]:
        """(first second since 1970, latencies in ms, to 3 %) of each slot in which a transaction ended."""
        for second, buckets in self.rows():
            yield second, {f"p{percent}_ms": _percentile(buckets, percent) / 1000 for percent in (50, 95, 99)}


def _percentile(buckets: Sequence[tuple[int, int]], percent: float) -> float:
    rank, counted = percent / 100 * sum(times for _, times in buckets), 0
    for bucket, times in buckets:
        counted += times
        if counted >= rank:
            return middle_of(bucket, SLOT_BITS)
    raise ValueError("a slot without transactions")


class Reduction:
    """The contents of a step's logs, by script."""

    def __init__(self, *, rate: bool, tries: bool) -> None:
        self._columns, self._rate, self._tries = 6 + rate + tries, rate, tries
        self.scripts: dict[int, Histogram] = {}
        self.word_counts: dict[int, Counter[str]] = {}
        self.lag, self.slots = Histogram(), Slots()
        self.lines = self.unread = self.retried = self.retries = 0

    def read(self, data: bytes) -> None:
        """Whole lines of one thread's log, in their order. Lines that are not whole are counted, and nothing else."""
        width, tokens, lines = self._columns, data.split(), data.count(b"\n")
        if len(tokens) != width * lines:
            tokens = [token for line in data.splitlines() for token in _sound(line, width)]
        self.unread += lines - len(tokens) // width
        self.lines += len(tokens) // width
        latencies, scripts = tokens[2::width], tokens[3::width]
        slot_of: dict[bytes, int] = {}
        for script in set(scripts):
            slot_of.update(self._tally(int(script), Counter(compress(latencies, map(script.__eq__, scripts)))))
        self._seconds(tokens[4::width], latencies, slot_of)
        if self._rate:
            self._lags(latencies, tokens[6::width])
        if self._tries:
            self._retries(tokens[width - 1 :: width])

    def _tally(self, script: int, counts: Counter[bytes]) -> dict[bytes, int]:
        """The bucket of SLOT_BITS of each latency among these."""
        if script not in self.scripts:
            self.scripts[script], self.word_counts[script] = Histogram(), Counter()
        for token in [token for token in counts if not token.isdigit()]:
            self._word(script, token.decode(errors="replace"), counts.pop(token))
        values = list(map(int, counts))
        self.scripts[script].add(values, list(counts.values()))
        return {token: min(bucket_of(value, SLOT_BITS), SLOT_BUCKETS) for token, value in zip(counts, values)}

    def _seconds(self, seconds: list[bytes], latencies: list[bytes], slot_of: dict[bytes, int]) -> None:
        start = 0
        while start < len(seconds):  # a thread writes its lines in the order of time
            end = bisect_right(seconds, seconds[start], start)
            counts = Counter(map(slot_of.get, latencies[start:end]))
            counts.pop(None, None)  # words
            self.slots.add(int(seconds[start]), counts)  # type: ignore[arg-type]
            start = end

    def _word(self, script: int, word: str, times: int) -> None:
        if word in FAILURES:
            self.word_counts[script][word] += times
        elif word.startswith("-") and word[1:].isdigit():
            self.scripts[script].add([0], [times])  # the clock was set back
        else:
            self.unread += times

    def _lags(self, latencies: list[bytes], lags: list[bytes]) -> None:
        """Add the lags of executed transactions; a skipped one has none."""
        counts = Counter(compress(lags, map(b"skipped".__ne__, latencies)))
        self.lag.add(list(map(int, counts)), list(counts.values()))

    def _retries(self, column: list[bytes]) -> None:
        for token, times in Counter(column).items():
            self.retried += times if int(token) else 0
            self.retries += times * int(token)

    @property
    def all(self) -> Histogram:
        total = Histogram()
        for script in self.scripts.values():
            total.merge(script)
        return total

    def as_json(self, names: Sequence[str], *, loop: str, sampling_rate: float) -> dict[str, Any]:
        """latency.json, see protocol.py; `names` are those of the scripts."""
        word_counts: Counter[str] = sum(self.word_counts.values(), Counter())
        return {
            "version": VERSION,
            "loop": loop,
            "sampling_rate": sampling_rate,
            "lines": self.lines,
            "unread": self.unread,
            "all": {**self.all.as_json(), "words": dict(word_counts)},
            "scripts": [
                {"name": names[script], **self.scripts[script].as_json(), "words": dict(self.word_counts[script])}
                for script in sorted(self.scripts)
            ],
            "lag": self.lag.as_json() if self._rate else None,
            "retried": self.retried if self._tries else None,
            "retries": self.retries if self._tries else None,
            "slots": {"width_s": self.slots.width_s, "rows": [list(row) for row in self.slots.rows()]},
        }


def _sound(line: bytes, width: int) -> list[bytes]:
    """The columns of a line that has all of them, and numbers where they must be."""
    tokens = line.split()
    numbers = tokens[3:] if len(tokens) == width else [b""]
    return tokens if all(number.isdigit() for number in numbers) else []


class LogFiles:
    """The files that one pgbench writes with this --log-prefix, one of each thread."""

    def __init__(self, prefix: Path, reduction: Reduction, warn: Callable[[str], None]) -> None:
        self.reduction, self._prefix, self._warn = reduction, prefix, warn
        self._offsets: dict[Path, int] = {}
        self._beside_s = self._after_s = 0.0
        self._punches = True

    @property
    def summary(self) -> str:
        """Describe the cost of reading, for the run's log."""
        cpu = f"{self._beside_s:.2f} s of CPU during the load, {self._after_s:.2f} s after it"
        return f"the log of transactions is reduced: {self.reduction.lines} lines, {cpu}"

    def poll(self, elapsed_s: float) -> None:
        """Read what has come, as long as that takes no more than SHARE of the time since the load began."""
        begun = time.thread_time()
        for path in self._files():
            while self._beside_s + time.thread_time() - begun < SHARE * elapsed_s:
                if path.stat().st_size - self._offsets.get(path, 0) < CHUNK or not self._read(path):
                    break
                self._punch(path)
        self._beside_s += time.thread_time() - begun

    def finish(self, report: Callable[[float], None]) -> None:
        """Read the rest and remove the files; `report` is called with the share that is done, and may raise."""
        files, begun = self._files(), time.thread_time()
        total = sum(path.stat().st_size - self._offsets.get(path, 0) for path in files)
        done = 0
        for path in files:
            report(done / max(1, total))
            while read := self._read(path):
                done += read
                report(done / max(1, total))
            self.reduction.unread += path.stat().st_size > self._offsets[path]
            owned.remove(path)
        self._after_s = time.thread_time() - begun

    def _files(self) -> list[Path]:
        return sorted(self._prefix.parent.glob(f"{self._prefix.name}.*"))

    def _read(self, path: Path) -> int:
        """The next whole lines, at most a chunk of them; how many bytes they were."""
        offset = self._offsets.get(path, 0)
        fd = owned.opened(path)
        try:
            data = os.pread(fd, CHUNK, offset)
        finally:
            os.close(fd)
        end = data.rfind(b"\n") + 1
        self.reduction.read(data[:end])
        self._offsets[path] = offset + end
        return end

    def _punch(self, path: Path) -> None:
        """Give the blocks back that were read. Not every file system can; then the file stays whole to the end."""
        if not self._punches:
            return
        fd = owned.opened(path, os.O_WRONLY)
        try:
            punch(fd, self._offsets[path] // BLOCK * BLOCK)
        except OSError as error:
            self._punches = False
            self._warn(f"the raw log stays on the disk until the step ends: {error.strerror} ({path})")
        finally:
            os.close(fd)


def punch(fd: int, length: int) -> None:
    """Free the first `length` bytes of a file, its size unchanged. OSError where its file system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    if length and libc.fallocate(fd, PUNCH_HOLE_KEEP_SIZE, 0, length):
        number = ctypes.get_errno()
        raise OSError(number, f"fallocate: {os.strerror(number)}")
