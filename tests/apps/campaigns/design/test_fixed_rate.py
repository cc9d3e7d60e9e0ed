"""At a fixed rate a latency is compared instead of a throughput."""

from __future__ import annotations

from typing import Any

import pytest

from apps.campaigns.design import steps
from apps.campaigns.design.fixed_rate import compared

CLOSED, OPEN = steps.single("pgbench", {"time_s": 1}), steps.single("pgbench", {"time_s": 1, "rate": 100})
TWO = [{**OPEN[0], "name": "a"}, {**CLOSED[0], "name": "b"}]


def levels(*changes: dict[str, Any]) -> dict[str, Any]:
    return {"name": "f", "levels": [{"label": str(place), "set": each} for place, each in enumerate(changes)]}


@pytest.mark.parametrize(
    ("own", "factors", "figure", "expected"),
    [
        (CLOSED, [], "tps", "tps"),
        (OPEN, [], "tps", "latency_avg"),
        (OPEN, [], "script:1 tps", "script:1 latency_avg"),
        (OPEN, [], "measure.tps", "measure.latency_avg"),
        (OPEN, [], "latency_p99", "latency_p99"),
        (OPEN, [], "cpu_per_transaction", "cpu_per_transaction"),
        (OPEN, [], "not measured", "not measured"),
        (OPEN, [], "", ""),
        (TWO, [], "a.tps", "a.latency_avg"),
        (TWO, [], "b.tps", "b.tps"),
        (CLOSED, [levels({"workload.rate": 50}, {"workload.rate": 100})], "tps", "latency_avg"),
        (CLOSED, [levels({}, {"workload.rate": 100})], "tps", "tps"),
        (OPEN, [levels({"settings.work_mem": 1}, {"settings.work_mem": 2})], "tps", "latency_avg"),
        (OPEN, [levels({"workload.clients": 1}), levels({}, {"steps.measure.rate": 9})], "tps", "latency_avg"),
    ],
)
def test_the_figure_that_is_compared(own: Any, factors: Any, figure: str, expected: str) -> None:
    assert compared(own, factors, figure) == expected


def test_an_imported_throughput_is_compared_because_its_load_is_unknown() -> None:
    own = [{**OPEN[0], "metrics": {"tps": {"unit": "tps", "better": "higher"}}}]

    assert compared(own, [], "tps") == "tps"
