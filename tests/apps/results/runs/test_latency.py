"""latency.json from logs of real runs, and percentiles of open and closed loops."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.wire.histogram import Histogram
from agents.workloads.transaction_log import Reduction
from common.errors import FormatError
from readers import histogram as fio
from readers.latency import parse_latency, parse_load
from readers.measure import measure
from readers.percentiles import fewest
from readers.pgbench.aggregate import parse_aggregate
from tests.contract.test_measure import by_name, sample

LOG = b"".join(b"0 %d %d %d 1700000000 %06d 3\n" % (n, n * 25, n % 2, n) for n in range(1, 4001))


def latency_json(loop: str = "closed", sampling_rate: float = 1, log: bytes = LOG, **changes: Any) -> bytes:
    reduction = Reduction(rate=loop == "open", tries=False)
    reduction.read(log if loop == "open" else log.replace(b" 3\n", b"\n"))
    report = reduction.as_json(["a.sql", "b.sql"], loop=loop, sampling_rate=sampling_rate)
    return json.dumps({**report, **changes}).encode()


def outputs(stdout: str, latency: bytes) -> dict[str, bytes]:
    return {"stdout": sample(stdout), "latency.json": latency}


@pytest.mark.parametrize(("name", "ms"), [("p50", 50), ("p90", 90), ("p95", 95), ("p99", 99), ("p99.9", 99.9)])
def test_percentiles_are_exact_to_one_percent(name: str, ms: float) -> None:
    figures = by_name(measure("pgbench", outputs("pgbench-15-tpcb_r.out", latency_json())))

    assert figures[f"latency_{name}"].value == pytest.approx(ms, rel=0.01)
    assert (figures[f"latency_{name}"].unit, figures[f"latency_{name}"].better) == ("ms", "lower")


def test_every_latency_of_a_closed_loop_says_so() -> None:
    figures = by_name(measure("pgbench", outputs("pgbench-15-tpcb_r.out", latency_json())))

    definitions = [one.definition for one in figures.values() if one.name.startswith("latency_")]
    assert len(definitions) == 7
    assert set(definitions) == {"closed loop: without the wait before a transaction (coordinated omission)"}


def test_an_open_loop_includes_its_lag() -> None:
    figures = by_name(measure("pgbench", outputs("pgbench-16-rate_limit.out", latency_json("open"))))

    assert figures["latency_p99"].definition == figures["latency_avg"].definition == "open loop: includes schedule lag"
    assert figures["lag_p99"].value == 0.003


def test_scripts_have_percentiles_of_their_own() -> None:
    figures = by_name(measure("pgbench", outputs("pgbench-18-two_scripts.out", latency_json())))

    assert figures["script:2 latency_max"].value == 99.975
    assert figures["script:2 latency_p99"].definition == "b.sql"


def log_of(values_us: list[int], skipped: int = 0) -> bytes:
    """Lines of one script with a rate, and of transactions that were skipped."""
    latencies = [str(each) for each in values_us] + ["skipped"] * skipped
    return "".join(f"0 {n} {each} 0 1700000000 {n:06d} 3\n" for n, each in enumerate(latencies)).encode()


def values_of(log: bytes) -> dict[str, Any]:
    measurements = measure("pgbench", outputs("pgbench-16-rate_limit.out", latency_json("open", log=log)))
    return {name: one.value for name, one in by_name(measurements).items()}


def test_a_percentile_needs_enough_transactions_to_bound_it() -> None:
    few, enough = (values_of(log_of([1000] * count)) for count in (367, 368))

    assert "latency_p99" not in few and few["latency_p95"] == 1
    assert enough["latency_p99"] == 1 and "latency_p99.9" not in enough
    assert "latency_p99.9" in values_of(log_of([1000] * 3688))
    assert [fewest(percentage) for percentage in (99, 99.9)] == [368, 3688]


def test_skipped_transactions_are_slower_than_any_limit() -> None:
    latencies = [round(1000 * value) for value in np.linspace(1, 9.9, 990)]

    assert values_of(log_of(latencies, skipped=10))["latency_p99"] == 9.9
    beyond = values_of(log_of(latencies, skipped=20))
    assert "latency_p99" not in beyond and beyond["latency_p95"] < 9.9


def test_percentiles_are_of_the_nearest_rank() -> None:
    values = [round(100 * n) for n in range(1, 1001)]  # 0.1 to 100 ms

    assert np.quantile(values, 0.99, method="inverted_cdf") == 99_000
    assert values_of(log_of(values))["latency_p99"] == pytest.approx(99.0, rel=0.004)
    small = Histogram()
    small.add(range(1, 201), [5] * 200)  # exact below 256
    for percent in (50, 95, 99):
        assert small.percentile(percent) == np.quantile(
            np.repeat(range(1, 201), 5), percent / 100, method="inverted_cdf"
        )


@pytest.mark.parametrize("kind", ["of the agent", "of fio"])
def test_counts_are_merged_and_percentiles_are_not(kind: str) -> None:
    runs = [{1: 990, 5: 10}, {1: 900, 50: 100}]

    if kind == "of fio":
        merged: Any = fio.Histogram.merged(fio.Histogram(tuple(run.items())) for run in runs)
    else:
        merged = Histogram()
        for run in runs:
            own = Histogram()
            own.add(list(run), list(run.values()))
            merged.merge(own)

    assert merged.percentile(99) == 50


def test_fio_s_bins_give_its_percentiles() -> None:
    bins = fio.Histogram(((100_000, 900), (200_000, 80), (1_000_000, 15), (5_000_000, 5)))

    assert [bins.percentile(at) for at in (50, 95, 99, 99.9)] == [100_000, 200_000, 1_000_000, 5_000_000]


def test_aggregate_logs_have_mean_and_deviation_and_no_percentile() -> None:
    log = parse_aggregate(b"1700000000 1000 5000000 30000000000 1 9\n1700000001 500 5000000 60000000000 1 9\n")

    assert (log.latency_avg_us, log.latency_stddev_us) == (
        pytest.approx(6666.7, abs=0.05),
        pytest.approx(3944.1, abs=0.05),
    )


def test_percentiles_of_a_sample_say_of_how_much() -> None:
    figures = by_name(measure("pgbench", outputs("pgbench-15-tpcb_r.out", latency_json(sampling_rate=0.1))))

    assert figures["latency_p99"].definition == "closed loop; of a sample, 10.00%"


def test_a_share_of_a_rate_names_the_requested_share() -> None:
    load = json.dumps({"loop": "open", "random_seed": 7, "rate": 1234.5}).encode()
    options = {"rate_share": 0.25, "rate_of": "max"}

    figures = by_name(measure("pgbench", {"stdout": sample("pgbench-16-rate_limit.out"), "load.json": load}, options))

    assert (figures["rate"].value, figures["rate"].definition) == (1234.5, "requested: 0.25 of the rate of step max")
    assert parse_load(load).random_seed == 7


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"loop": "spiral"},
        {"all": None},
        {"lag": {"count": 1, "sum": 1, "min": 1, "max": 1, "buckets": []}},
        {"lag": {"count": 1, "sum": 1, "min": 1, "max": 1 << 70, "buckets": [[1, 1]]}},
        {"lag": {"count": 1, "sum": 1, "min": 1, "max": 1, "buckets": [[-1, 1]]}},
        {"sampling_rate": float("nan")},
        {"slots": {"width_s": 1, "rows": [[1]]}},
    ],
)
def test_a_report_that_no_agent_writes_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match=r"latency\.json"):
        parse_latency(latency_json(**changes))


@pytest.mark.thorough
@settings(max_examples=300)
@given(st.data())
def test_damage_is_refused_and_nothing_else(data: st.DataObject) -> None:
    whole = latency_json("open")
    at = data.draw(st.integers(0, len(whole)))
    splice = data.draw(st.sampled_from([b"", b"null", b"-1", b"1e999", b'"x"', b"[]", b"{}", b"9" * 400, b"\xff"]))
    raw = whole[:at] + splice + whole[at + data.draw(st.integers(0, 20)) :]

    try:
        measurements = measure("pgbench", outputs("pgbench-16-rate_limit.out", raw))
    except FormatError as error:
        assert error.subject == "latency.json"
    else:
        assert all(math.isfinite(one.value) for one in measurements)
