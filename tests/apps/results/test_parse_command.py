"""`manage.py parse` on the command line, as somebody uses it who has no server: no settings, no database."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "tests" / "samples"


def parse(*args: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run the command in an empty environment."""
    argv = [sys.executable, str(ROOT / "manage.py"), "parse", *args]
    return subprocess.run(argv, input=given, capture_output=True, env={}, cwd=SAMPLES, timeout=60, check=False)


def said(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_what_was_understood_is_printed_with_the_kind_that_was_guessed() -> None:
    done = parse("pgbench-14-select.out", "sysbench-oltp_read_only.out")

    first, second = said(done)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (first["file"], first["kind"], second["kind"]) == ("pgbench-14-select.out", "pgbench", "sysbench")
    assert first["result"]["tps_definition"] == "without initial connection time"
    assert second["result"]["latency_avg_ms"] == 0.95


def test_standard_input_is_read_as_a_dash() -> None:
    done = parse("-", given=(SAMPLES / "explain-15-plain.txt").read_bytes())

    assert [one["result"]["shape"] for one in said(done)] == ["Seq Scan on pgbench_accounts"]


def test_a_file_that_cannot_be_read_is_named_with_the_place_and_the_others_are_printed() -> None:
    done = parse("hostile-csv-formula.csv", "pgbench-14-select.out", "nosuch.out")

    assert done.returncode == 1
    assert [one["file"] for one in said(done)] == ["pgbench-14-select.out"]
    first, second = done.stderr.decode().splitlines()
    assert first.startswith("hostile-csv-formula.csv: the CSV, line 2, idx1(ms): ")
    assert first.endswith("(expected a number with a decimal point)")
    assert second == "nosuch.out: No such file or directory"


def test_a_kind_can_be_given() -> None:
    done = parse("--as", "explain", "hostile-explain-syntax_error.txt")

    assert done.returncode == 1
    assert b'EXPLAIN: it failed: syntax error at or near "explan"' in done.stderr


@pytest.mark.parametrize("name", ["hostile-zeros.bin", "hostile-whitespace.txt", "hostile-csv-no_header.csv"])
def test_what_is_not_recognised_says_so_on_stderr_only(name: str) -> None:
    done = parse(name)

    assert (done.returncode, said(done)) == (1, [])
    assert done.stderr.decode().startswith(f"{name}: this output: ")
