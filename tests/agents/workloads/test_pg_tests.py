"""pg_test_fsync and pg_test_timing with the real agent, and the figures in their reports."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agents.workloads import WORKLOADS, Context
from common.errors import WorkloadError
from readers.measure import measure
from tests.agents.driver import Connection, of
from tests.agents.theirs import DEBIANS

SAMPLES = Path(__file__).parents[2] / "samples"
AT = Context(program="/bin/tool", out="/out", scratch="/scratch")
FSYNC, TIMING = WORKLOADS["pg_test_fsync"], WORKLOADS["pg_test_timing"]


def test_arguments_and_seconds() -> None:
    assert FSYNC.argv({"secs_per_test": 2}, AT) == ["/bin/tool", "-s", "2", "-f", "/scratch/pg_test_fsync.out"]
    assert FSYNC.duration({"secs_per_test": 2}) == 2 * 16
    assert TIMING.argv({}, AT) == ["/bin/tool", "-d", "3"] and TIMING.duration({}) == 3


@pytest.mark.fast
@pytest.mark.needs("postgresql-15")  # the account of the load may not be able to enter the directory of ours
def test_each_step_yields_the_figures_that_its_tool_prints(agent: Connection, open_dir: Path) -> None:
    fsync = {"directory": str(open_dir), "secs_per_test": 1, "bin_dir": DEBIANS}
    spec: dict[str, Any] = {
        "version": 1,
        "target": None,
        "settings": {},
        "steps": [
            {"name": "fsync", "kind": "pg_test_fsync", "options": fsync},
            {"name": "timing", "kind": "pg_test_timing", "options": {"duration_s": 1, "bin_dir": DEBIANS}},
        ],
        "collect": {"interval_s": 1, "sources": []},
        "allowed_paths": [{"kind": "directory", "path": str(open_dir)}],
    }

    run = agent.submit(spec)
    (ended,) = of(agent.events(run, limit_s=60), "outcome")

    assert ended["outcome"] == "ok", ended
    for kind, step in (("pg_test_fsync", "fsync"), ("pg_test_timing", "timing")):
        measurements = measure(kind, {"stdout": agent.file(run, f"out/{step}/stdout")})
        assert all(measurement.value > 0 and WORKLOADS[kind].metric(measurement.name) for measurement in measurements)
        assert set(WORKLOADS[kind].main) - {measurement.name for measurement in measurements} <= {
            "one_write fsync_writethrough us"
        }
    assert not [name for name in os.listdir(open_dir) if name.startswith("scratch")]


def test_declared_units_are_those_of_the_measurements() -> None:
    measurements = measure("pg_test_fsync", {"stdout": (SAMPLES / "pg_test_fsync-15.out").read_bytes()})

    for measurement in measurements:
        declared = FSYNC.metric(measurement.name)
        assert declared and (declared.unit, declared.better) == (measurement.unit, measurement.better)
    by_name = {measurement.name: measurement.value for measurement in measurements}
    assert by_name["one_write fdatasync us"] == pytest.approx(1e6 / by_name["one_write fdatasync ops"], rel=0.05)


def test_an_incomplete_report_yields_no_result() -> None:
    with pytest.raises(WorkloadError, match="incomplete"):
        measure("pg_test_fsync", {"stdout": (SAMPLES / "hostile-pg_test_fsync-cut.out").read_bytes()})


def test_timing_reports_the_share_below_a_microsecond() -> None:
    measurements = measure("pg_test_timing", {"stdout": (SAMPLES / "pg_test_timing-15-de_DE.out").read_bytes()})

    by_name = {measurement.name: measurement.value for measurement in measurements}
    assert (by_name["per_loop"], by_name["longest"]) == (25.33, 512_000)
    assert by_name["below_1us"] == pytest.approx(97.52455, abs=1e-4)
