"""latency.json, as an agent makes it of logs of real runs, and what a step's percentiles say of their loop."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.workloads.transaction_log import Reduction
from apps.errors import FormatError
from apps.results.formats.latency import parse_latency, parse_load
from apps.results.measure import measure

from .test_measure import by_name, sample

LOG = b"".join(b"0 %d %d %d 1700000000 %06d 3\n" % (n, n * 100, n % 2, n) for n in range(1, 1001))


def latency_json(loop: str = "closed", sampling_rate: float = 1, **changes: Any) -> bytes:
    reduction = Reduction(rate=loop == "open", tries=False)
    reduction.read(LOG if loop == "open" else LOG.replace(b" 3\n", b"\n"))
    told = reduction.as_json(["a.sql", "b.sql"], loop=loop, sampling_rate=sampling_rate)
    return json.dumps({**told, **changes}).encode()


def outputs(stdout: str, latency: bytes) -> dict[str, bytes]:
    return {"stdout": sample(stdout), "latency.json": latency}


@pytest.mark.parametrize(("name", "ms"), [("p50", 50), ("p90", 90), ("p95", 95), ("p99", 99), ("p99.9", 99.9)])
def test_percentiles_are_exact_to_one_percent(name: str, ms: float) -> None:
    found = by_name(measure("pgbench", outputs("pgbench-15-tpcb_r.out", latency_json())))

    assert found[f"latency_{name}"].value == pytest.approx(ms, rel=0.01)
    assert (found[f"latency_{name}"].unit, found[f"latency_{name}"].better) == ("ms", "lower")


def test_a_closed_loop_says_so_wherever_it_tells_a_latency() -> None:
    found = by_name(measure("pgbench", outputs("pgbench-15-tpcb_r.out", latency_json())))

    told = [one.definition for one in found.values() if one.name.startswith("latency_")]
    assert len(told) == 7
    assert set(told) == {"closed loop: without the wait before a transaction (coordinated omission)"}


def test_an_open_loop_includes_its_lag() -> None:
    found = by_name(measure("pgbench", outputs("pgbench-16-rate_limit.out", latency_json("open"))))

    assert found["latency_p99"].definition == found["latency_avg"].definition == "open loop: includes schedule lag"
    assert found["lag_p99"].value == 0.003


def test_scripts_have_percentiles_of_their_own() -> None:
    found = by_name(measure("pgbench", outputs("pgbench-18-two_scripts.out", latency_json())))

    assert found["script:2 latency_max"].value == 99.9
    assert found["script:2 latency_p99"].definition == "b.sql"


def test_percentiles_of_a_sample_say_of_how_much() -> None:
    found = by_name(measure("pgbench", outputs("pgbench-15-tpcb_r.out", latency_json(sampling_rate=0.1))))

    assert found["latency_p99"].definition == "closed loop; of a sample, 10.00%"


def test_a_share_of_a_rate_tells_what_was_asked_for() -> None:
    load = json.dumps({"loop": "open", "random_seed": 7, "rate": 1234.5}).encode()
    options = {"rate_share": 0.25, "rate_of": "max"}

    found = by_name(measure("pgbench", {"stdout": sample("pgbench-16-rate_limit.out"), "load.json": load}, options))

    assert (found["rate"].value, found["rate"].definition) == (1234.5, "asked for: 0.25 of what step max reached")
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
def test_what_no_agent_wrote_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match=r"latency\.json"):
        parse_latency(latency_json(**changes))


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_damage_is_refused_and_nothing_else(data: st.DataObject) -> None:
    whole = latency_json("open")
    at = data.draw(st.integers(0, len(whole)))
    splice = data.draw(st.sampled_from([b"", b"null", b"-1", b"1e999", b'"x"', b"[]", b"{}", b"9" * 400, b"\xff"]))
    raw = whole[:at] + splice + whole[at + data.draw(st.integers(0, 20)) :]

    try:
        found = measure("pgbench", outputs("pgbench-16-rate_limit.out", raw))
    except FormatError as error:
        assert error.subject == "latency.json"
    else:
        assert all(math.isfinite(one.value) for one in found)
