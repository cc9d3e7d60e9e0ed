"""Whatever the bytes, a reader gives a value or FormatError: damaged output must never crash the server.

PROVING_EXAMPLES sets the examples for each reader; a full run takes 20000.
"""

from __future__ import annotations

import json
import os
import re
import tracemalloc
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import FormatError
from readers.formats import FORMATS
from readers.guess import as_json, guess
from tests.contract.readers.kinds import KINDS
from tests.contract.test_formats import EXPECTED, SAMPLES

EXAMPLES = int(os.environ.get("PROVING_EXAMPLES", "200"))
SEEDS_A_KIND, LARGEST_SEED = 12, 6000
LONG = 50_000_000
SEEDS = Path(__file__).parent / "seeds"

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
    """Samples of a kind of FORMATS, the smaller ones: damage is the same in long outputs and takes longer. Kinds that
    the corpus does not have are in tests/contract/robustness/seeds."""
    names = [name for name, entry in EXPECTED.items() if KINDS.get(entry["kind"]) == kind]
    samples = sorted({(SAMPLES / name).read_bytes() for name in names}, key=len)
    samples += [path.read_bytes() for path in SEEDS.glob(f"{kind}.*")]
    return tuple(one for one in samples if one.strip())[:SEEDS_A_KIND]


def damaged(kind: str, chance: Random) -> bytes:
    """A sample, damaged in one to four ways, or bytes without any sense."""
    if chance.random() < 0.1:
        return chance.randbytes(chance.randrange(400))
    raw = chance.choice(seeds(kind))
    if len(raw) > 4 * LARGEST_SEED:
        start = chance.choice((0, chance.randrange(len(raw))))
        raw = raw[start : start + LARGEST_SEED]
    for _ in range(chance.randint(1, 4)):
        raw = chance.choice(WAYS)(raw, chance.randint(0, len(raw)), chance)
    return raw


def piece(chance: Random) -> bytes:
    return chance.choice((*PIECES, chance.randbytes(chance.randrange(20))))


def cut(raw: bytes, at: int, chance: Random) -> bytes:
    return chance.choice((raw[:at], raw[at:], raw[at:] + raw[:at]))


def with_other_line_ends(raw: bytes, at: int, chance: Random) -> bytes:
    return raw.replace(b"\n", chance.choice((b"\r\n", b"\r", b"\n\n", b" \n", b" ")))


def with_decimal_commas(raw: bytes, at: int, chance: Random) -> bytes:
    return NUMERAL.sub(lambda match: match[0].replace(b".", b","), raw)


def with_a_piece(raw: bytes, at: int, chance: Random) -> bytes:
    return raw[:at] + piece(chance) + raw[at + chance.randrange(40) :]


def with_another_figure(raw: bytes, at: int, chance: Random) -> bytes:
    match = NUMERAL.search(raw, at)
    return raw[: match.start()] + piece(chance) + raw[match.end() :] if match else raw


def with_bytes_swapped(raw: bytes, at: int, chance: Random) -> bytes:
    low, high = sorted((at, chance.randint(0, len(raw))))
    return raw[:low] + raw[high : high + 8] + raw[low + 8 : high] + raw[low : low + 8] + raw[high + 8 :]


def with_a_line_repeated_or_lost(raw: bytes, at: int, chance: Random) -> bytes:
    start, end = raw.rfind(b"\n", 0, at) + 1, raw.find(b"\n", at) + 1
    return raw[:start] + raw[start:end] * chance.choice((0, 2, 3)) + raw[end:] if end else raw


def with_a_line_moved(raw: bytes, at: int, chance: Random) -> bytes:
    lines = raw.splitlines(keepends=True)
    if lines:
        lines.insert(chance.randint(0, len(lines)), lines.pop(chance.randrange(len(lines))))
    return b"".join(lines)


WAYS: tuple[Callable[[bytes, int, Random], bytes], ...] = (
    cut,
    with_other_line_ends,
    with_decimal_commas,
    with_a_piece,
    with_another_figure,
    with_bytes_swapped,
    with_a_line_repeated_or_lost,
    with_a_line_moved,
)


def gives_a_value_or_a_format_error(kind: str, raw: bytes) -> None:
    try:
        parsed = FORMATS[kind].parse(raw)
    except FormatError as error:
        assert error.subject and error.message
    else:
        assert json.dumps(as_json(parsed), allow_nan=False)
    try:
        assert guess(raw) in FORMATS
    except FormatError as error:
        assert error.hint


@pytest.mark.thorough
@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=EXAMPLES, database=None)
@given(chance=st.randoms(use_true_random=True))
def test_a_damaged_output_gives_a_value_or_a_format_error(kind: str, chance: Random) -> None:
    # One draw an example: drawing each choice would take ten times as long as what is tested.
    gives_a_value_or_a_format_error(kind, damaged(kind, chance))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_line_of_50_mb_is_passed_over_or_refused_in_little_memory(kind: str) -> None:
    head = seeds(kind)[0]
    line = next(line for line in head.splitlines() if line.strip())
    endless = head + line * (LONG // len(line))
    tracemalloc.start()

    gives_a_value_or_a_format_error(kind, endless)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * LONG


@pytest.mark.thorough
@pytest.mark.parametrize("kind", FORMATS)
def test_a_long_line_takes_no_longer_than_its_length(kind: str) -> None:
    # With expressions that try every way to split a line, this would not end for hours.
    lines = sorted({line for seed in seeds(kind) for line in seed.splitlines() if line.strip()}, key=len)[-4:]

    for line in lines:
        for long in (
            line * (200_000 // len(line)),
            line + b" " * 200_000,
            b" " * 200_000 + line,
            line + b"9" * 200_000,
        ):
            gives_a_value_or_a_format_error(kind, long)
            gives_a_value_or_a_format_error(kind, seeds(kind)[0] + long + b"\n")
