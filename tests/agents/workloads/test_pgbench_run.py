"""Options of pgbench with the real agent, each on the PostgreSQL of the wheel and of Debian."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agents.driver import OK, Connection, of
from tests.agents.theirs import DEBIANS

Spec = Callable[..., dict[str, Any]]
LOOK_UP = "\\set aid random(1, 100000)\nselect abalance from pgbench_accounts where aid = :aid;\n"
CLASH = (
    "\\set a random(1, 2)\nbegin isolation level serializable;\n"
    "select bbalance from pgbench_branches;\nupdate pgbench_branches set bbalance = bbalance + :a;\ncommit;\n"
)


@pytest.fixture(params=[pytest.param(15, marks=pytest.mark.needs("postgresql-15")), 18])
def of_version(request: pytest.FixtureRequest, spec: Spec) -> Spec:
    """A spec on the PostgreSQL of one version."""

    def make(**options: Any) -> dict[str, Any]:
        made = spec(**{"rate": None} | options)
        made["target"]["bin_dir"] = DEBIANS if request.param == 15 else made["target"]["bin_dir"]
        return made

    return make


def several(spec: dict[str, Any], **steps: dict[str, Any]) -> dict[str, Any]:
    """The same spec with these pgbench steps, each with the options of its own over the common ones."""
    common = spec["steps"][0]["options"]
    rows = [{"name": name, "kind": "pgbench", "options": {**common, **options}} for name, options in steps.items()]
    return {**spec, "steps": rows}


def ended_well(agent: Connection, spec: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    run = agent.submit(spec)
    events = agent.events(run)
    assert of(events, "outcome") == [OK]
    return run, events


def command(events: list[dict[str, Any]], purpose: str = "measure") -> str:
    return " ".join(of(events, "command", purpose=purpose)[-1]["argv"])


def report(agent: Connection, run: str, step: str = "measure") -> str:
    return agent.file(run, f"out/{step}/stdout").decode()


def latency(agent: Connection, run: str, step: str = "measure") -> dict[str, Any]:
    summary: dict[str, Any] = json.loads(agent.file(run, f"out/{step}/latency.json"))
    return summary


def count(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    assert match, text
    return int(match.group(1))


@pytest.mark.fast
def test_builtins_and_scripts_run_by_their_weights(agent: Connection, of_version: Spec) -> None:
    scripts = [{"name": "look-up", "text": LOOK_UP, "weight": 2}, {"name": "one", "text": "select 1;"}]
    run_spec = of_version(builtins={"select-only": 3, "simple-update": 1}, scripts=scripts, log="reduced", time_s=1)
    del run_spec["steps"][0]["options"]["builtin"]

    run, events = ended_well(agent, run_spec)

    assert "-b select-only@3 -b simple-update" in command(events)
    assert [count(rf"SQL script {number}: .*\n - weight: (\d+)", report(agent, run)) for number in range(1, 5)] == [
        *(3, 1, 2, 1)
    ]
    summary = latency(agent, run)
    assert [script["name"] for script in summary["scripts"]] == ["select-only", "simple-update", "look-up", "one"]
    assert summary["all"]["count"] == count(r"transactions actually processed: (\d+)", report(agent, run))


def test_a_drawn_seed_is_reported_and_repeats_a_run(agent: Connection, of_version: Spec) -> None:
    _, events = ended_well(agent, of_version(time_s=1))
    _, others = ended_well(agent, of_version(time_s=1))

    drawn = [count(r"--random-seed=(\d+)", command(each)) for each in (events, others)]
    assert drawn[0] != drawn[1]
    run, again = ended_well(agent, of_version(time_s=1, random_seed=drawn[0]))
    assert f"--random-seed={drawn[0]} " in command(again)
    assert json.loads(agent.file(run, "out/measure/load.json")) == {"loop": "closed", "random_seed": drawn[0]}


def test_failures_and_retries_of_the_log_are_those_of_the_report(agent: Connection, of_version: Spec) -> None:
    run_spec = of_version(script=CLASH, clients=8, max_tries=2, failures_detailed=True, log="reduced", time_s=2)
    del run_spec["steps"][0]["options"]["builtin"]

    run, _ = ended_well(agent, run_spec)

    text, summary = report(agent, run), latency(agent, run)
    assert summary["all"]["words"].get("serialization", 0) == count(r"serialization failures: (\d+)", text) > 0
    assert summary["retried"] == count(r"transactions retried: (\d+)", text) > 0
    assert summary["retries"] == count(r"number of retries: (\d+)", text)
    assert summary["all"]["count"] == count(r"transactions actually processed: (\d+)", text)


def test_a_rate_can_be_a_share_of_the_rate_of_an_earlier_step(
    agent: Connection, of_version: Spec, data_dir: Path
) -> None:
    share = {"rate_share": 0.1, "rate_of": "max", "latency_limit_ms": 50, "log": "reduced"}
    run_spec = several(of_version(time_s=2), max={}, share=share)

    run, events = ended_well(agent, run_spec)

    reached = float(re.findall(r"tps = ([\d.]+)", report(agent, run, "max"))[0])
    load = json.loads(agent.file(run, "out/share/load.json"))
    assert load["loop"] == "open" and load["rate"] == pytest.approx(reached / 10, abs=0.01)
    assert any("0.1 of the" in each["message"] for each in of(events, "log"))
    ran = float(re.findall(r"tps = ([\d.]+)", report(agent, run, "share"))[0])
    assert ran == pytest.approx(reached / 10, rel=0.2)
    summary = latency(agent, run, "share")
    assert summary["lag"]["count"] == summary["all"]["count"] > 0 and summary["unread"] == 0
    assert not list(data_dir.glob("scratch-*"))


def test_a_sample_of_the_log_says_so(agent: Connection, of_version: Spec) -> None:
    run, events = ended_well(agent, of_version(log="reduced", sampling_rate=0.1, time_s=2))

    summary = latency(agent, run)
    assert summary["sampling_rate"] == 0.1
    assert summary["lines"] == pytest.approx(count(r"actually processed: (\d+)", report(agent, run)) / 10, rel=0.2)
    assert any(f"reduced: {summary['lines']} lines, " in each["message"] for each in of(events, "log"))
    samples = of(events, "sample", source="latency")
    assert 2 <= len(samples) <= 4 and all(0 < sample["t"] < 5 for sample in samples)
    assert all(0 < sample["values"]["p50_ms"] <= sample["values"]["p99_ms"] for sample in samples)


def test_a_cancelled_run_leaves_no_log_behind(agent: Connection, of_version: Spec, data_dir: Path) -> None:
    run = agent.submit(of_version(log="reduced", time_s=30))
    agent.events(run, until="sample")

    agent.call("cancel", run=run)

    assert of(agent.events(run), "outcome")[0]["outcome"] == "cancelled"
    assert not list(data_dir.glob("scratch-*"))


def test_aggregate_logs_are_stored_as_pgbench_writes_them(agent: Connection, of_version: Spec) -> None:
    run, _ = ended_well(agent, of_version(aggregate_interval_s=1, jobs=2, time_s=3, connect=True, clients=2))

    manifest, _ = agent.manifest(run)
    logs = [file["path"] for file in manifest["files"] if "transactions" in file["path"]]
    assert len(logs) == 2
    assert all(len(line.split()) >= 15 for line in agent.file(run, logs[0]).splitlines())
