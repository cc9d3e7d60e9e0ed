"""What a cut output says is true, or it says that it is cut: at every byte of forty outputs."""

from __future__ import annotations

from random import Random

import pytest

from readers.formats import FORMATS
from readers.pgbench.summary import parse_summary
from tests.contract.readers.kinds import KINDS
from tests.contract.robustness.cuts import figures, read, wrong_figures
from tests.contract.robustness.test_fuzz import SEEDS
from tests.contract.test_formats import EXPECTED, SAMPLES

FAST_CUTS, LONGEST = 60, 20_000
NOT_FIGURES = ("fio-stderr", "psql-error", "sysbench-failure")


def outputs() -> dict[str, tuple[str, bytes]]:
    """Name -> kind and bytes: the two shortest and two longest whole samples of each kind."""
    by_kind: dict[str, dict[str, bytes]] = {}
    for name, entry in EXPECTED.items():
        kind, raw = KINDS.get(entry["kind"], ""), (SAMPLES / name).read_bytes()
        if kind and kind not in NOT_FIGURES and entry["outcome"] == "values" and len(raw) < LONGEST and raw.strip():
            by_kind.setdefault(kind, {})[name] = raw
    for path in SEEDS.iterdir():
        kind = path.name.partition(".")[0]
        by_kind.setdefault(kind, {})[path.name] = path.read_bytes()
    chosen = {}
    for kind, named in by_kind.items():
        ordered = sorted(named, key=lambda name: len(named[name]))
        chosen |= {name: (kind, named[name]) for name in {*ordered[:1], *ordered[-2:]}}
    return chosen


OUTPUTS = outputs()


def wrong_at(name: str, cuts: list[int]) -> list[str]:
    kind, whole = OUTPUTS[name]
    expected = figures(read(kind, whole))
    return [f"byte {at}: {wrong}" for at in cuts for wrong in wrong_figures(kind, whole, at, expected)]


def test_forty_outputs_are_cut() -> None:
    assert len(OUTPUTS) >= 40
    assert {kind for kind, _ in OUTPUTS.values()} >= FORMATS.keys() - {*NOT_FIGURES}


@pytest.mark.parametrize("name", sorted(OUTPUTS))
def test_an_output_that_is_cut_has_no_wrong_figure(name: str) -> None:
    whole = OUTPUTS[name][1]
    chance = Random(name)
    anywhere = [chance.randrange(len(whole)) for _ in range(FAST_CUTS // 2)]
    near_the_end = [max(0, len(whole) - 1 - chance.randrange(400)) for _ in range(FAST_CUTS // 2)]

    assert wrong_at(name, [*anywhere, *near_the_end, len(whole) - 1, len(whole) - 2]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(OUTPUTS))
def test_an_output_cut_at_every_byte_has_no_wrong_figure(name: str) -> None:
    assert wrong_at(name, list(range(len(OUTPUTS[name][1])))) == []


TWICE = (
    "pgbench-log",
    "pgbench-stderr",
    "pgbench-init",
    "numa_maps",
    "pg_test_timing",
    "pgbench",
    "sysbench",
    "cpuinfo",
    "meminfo",
)


@pytest.mark.parametrize("kind", TWICE)
def test_the_same_report_twice_is_refused(kind: str) -> None:
    whole = [raw for each, raw in OUTPUTS.values() if each == kind]

    assert [read(kind, raw + raw) for raw in whole] == [None] * len(whole)


@pytest.mark.parametrize("name", ["pgbench-15-tpcb_r.out", "pgbench-9.5-tpcb_r.out"])
def test_a_report_that_ends_between_two_statements_of_a_built_in_script_says_so(name: str) -> None:
    raw = (SAMPLES / name).read_bytes()
    cut = raw[: raw.rstrip().rfind(b"\n") + 1]

    assert parse_summary(raw).missing == ()
    assert parse_summary(cut).missing == (f"statements of {parse_summary(raw).transaction_type}",)


def test_a_pasted_report_without_its_last_line_end_is_whole() -> None:
    raw = (SAMPLES / "pgbench-15-transactions.out").read_bytes().rstrip()

    assert parse_summary(raw).missing == ()


def test_truncated_retries_are_missing() -> None:
    raw = (SAMPLES / "pgbench-15-failures.out").read_bytes()
    scripts = b"SQL script 1: a.sql\n - weight: 1 (targets 100.0% of total)\n - total number of retries: 16"

    parsed = parse_summary(raw + scripts)

    assert parsed.scripts[-1].retries is None
    assert "the rest of the last line" in parsed.missing
