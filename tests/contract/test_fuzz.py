"""Whatever the bytes, a reader gives a value or FormatError: damaged output must never crash the server.

PROVING_EXAMPLES sets the examples for each reader; a full run takes 20000.
"""

from __future__ import annotations

import json
import os
import re
import time
import tracemalloc
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.errors import FormatError
from apps.results.formats import FORMATS
from apps.results.formats.guess import as_json, guess
from tests.contract.readers.kinds import KINDS
from tests.contract.test_formats import EXPECTED, SAMPLES

EXAMPLES = int(os.environ.get("PROVING_EXAMPLES", "200"))
SEEDS_A_KIND, LARGEST_SEED = 12, 6000
LONG = 50_000_000

# What breaks naive readers: other numerals, huge ones, nesting, control characters, and bytes of no encoding.
PIECES = [
    b"nan",
    b"-1",
    b"-",
    b"1e999",
    b"9" * 25,
    b"9" * 5000,
    b"0",
    b"0.5",
    b"1,5",
    b"\xd9\xa3",
    b"true",
    b"null",
    b'""',
]
PIECES += [
    b"[]",
    b"{" * 2000,
    b'{"a":' * 2000,
    b"\n}\n",
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\t",
]
PIECES += [
    b"\x1b[31m",
    b"\x07",
    b"\x85",
    b"\xe2\x80\xa8",
    b" ",
    b"  ",
    b"%",
    b"'",
    b'"',
    b"(",
    b")",
    b"<",
    b"&x;",
    b"%s",
    b":",
]
NUMERAL = re.compile(rb"[0-9]+(?:\.[0-9]+)?")


@cache
def seeds(kind: str) -> tuple[bytes, ...]:
    """Samples of a kind of FORMATS, the smaller ones, cut: damage is the same in long outputs and takes longer."""
    names = [name for name, entry in EXPECTED.items() if KINDS.get(entry["kind"]) == kind]
    found = sorted({(SAMPLES / name).read_bytes() for name in names}, key=len)
    return tuple(one for one in found if one.strip())[:SEEDS_A_KIND] or MORE_SEEDS[kind]


MORE_SEEDS = {
    "fio-log": (
        b"500, 41348, 0, 8192, 0\n1000, 22308, 1, 8192, 16384\n",
        b"1, 5, 0, 4096, 0, 0x0004\n2, 6, 2, 4096, 0, 0x0004\n",
    ),
    "postgresql-log": (
        b"2026-11-21 00:00:01.5 UTC [9] LOG:  checkpoint starting: time\n"
        b"1795221741.123 LOG:  checkpoint complete: wrote 3 "
        b"buffers (0.0%); 0 WAL file(s) added, write=0.1 s, sync=0.2 s, total=0.4 s; distance=5 kB, estimate=7 kB\n",
    ),
}


@st.composite
def damaged(draw: st.DrawFn, kind: str) -> bytes:
    """A sample, damaged in one to four ways, or bytes without any sense."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=400))
    raw = draw(st.sampled_from(seeds(kind)))
    start = draw(st.integers(0, max(0, len(raw) - LARGEST_SEED)))
    raw = raw[start : start + LARGEST_SEED] if start and len(raw) > 4 * LARGEST_SEED else raw
    for _ in range(draw(st.integers(1, 4))):
        raw = damage(draw, raw)
    return raw


def damage(draw: st.DrawFn, raw: bytes) -> bytes:
    way = draw(st.integers(0, 8))
    at = draw(st.integers(0, len(raw)))
    if way == 0:
        return raw[:at]
    if way == 1:
        return raw.replace(b"\n", draw(st.sampled_from((b"\r\n", b"\r", b"\n\n", b" \n", b" "))))
    if way == 2:
        return NUMERAL.sub(lambda found: found[0].replace(b".", b","), raw)
    piece = draw(st.sampled_from(PIECES) | st.binary(max_size=20))
    if way == 3:
        return raw[:at] + piece + raw[at + draw(st.integers(0, 40)) :]
    if way == 4:
        found = NUMERAL.search(raw, at)
        return raw[: found.start()] + piece + raw[found.end() :] if found else raw
    if way == 5:
        other = draw(st.integers(0, len(raw)))
        low, high = sorted((at, other))
        return raw[:low] + raw[high : high + 8] + raw[low + 8 : high] + raw[low : low + 8] + raw[high + 8 :]
    lines = raw.splitlines(keepends=True)
    if way == 6 and lines:
        line = lines[at % len(lines)]
        return raw.replace(line, line * draw(st.integers(0, 3)), 1)
    if way == 7 and lines:
        lines.insert(draw(st.integers(0, len(lines))), lines.pop(at % len(lines)))
        return b"".join(lines)
    return raw[at:] + raw[:at]


def gives_a_value_or_a_format_error(kind: str, raw: bytes) -> None:
    try:
        found = FORMATS[kind].parse(raw)
    except FormatError as error:
        assert error.subject and error.message
    else:
        assert json.dumps(as_json(found), allow_nan=False)
    try:
        assert guess(raw) in FORMATS
    except FormatError as error:
        assert error.hint


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_damaged_output_gives_a_value_or_a_format_error(kind: str, data: st.DataObject) -> None:
    gives_a_value_or_a_format_error(kind, data.draw(damaged(kind)))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_line_of_50_mb_is_passed_over_or_refused_at_once(kind: str) -> None:
    head = seeds(kind)[0]
    endless = head + head.splitlines()[0] * (LONG // len(head.splitlines()[0]))
    tracemalloc.start()
    began = time.process_time()

    gives_a_value_or_a_format_error(kind, endless)

    took, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert took < 2
    assert peak < 2 * LONG


@pytest.mark.parametrize("kind", FORMATS)
def test_a_long_line_takes_no_longer_than_its_length(kind: str) -> None:
    # Expressions that try every way to split a line would take hours here.
    lines = sorted({line for seed in seeds(kind) for line in seed.splitlines() if line.strip()}, key=len)[-4:]
    began = time.process_time()

    for line in lines:
        for long in (
            line * (200_000 // len(line)),
            line + b" " * 200_000,
            b" " * 200_000 + line,
            line + b"9" * 200_000,
        ):
            gives_a_value_or_a_format_error(kind, long)
            gives_a_value_or_a_format_error(kind, seeds(kind)[0] + long + b"\n")

    assert time.process_time() - began < 10
