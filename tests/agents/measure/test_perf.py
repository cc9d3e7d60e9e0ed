"""The collector perf: parsing its output, missing counters, and its end with the run."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.collectors import NotAvailable, Subject
from agents.collectors.perf import HARDWARE, KERNEL, Perf, parse, rates
from agents.records.processes import Child
from tests.agents.driver import OK, Connection, of
from tests.agents.fakes import FakeSystem

Spec = Callable[..., dict[str, Any]]
COUNTED = """
     1.003991733;1517342;;cycles:u;15167034;100.00;;
     1.003991733;10;;context-switches;15167034;100.00;659.325;/sec
     1.003991733;<not counted>;;page-faults;0;100.00;;
     1.003991733;<not supported>;;dTLB-load-misses:u;0;100.00;;
"""


def test_lines_of_an_interval_are_counts_by_event() -> None:
    at = 1.003991733

    assert parse(COUNTED) == [
        (at, "cycles", 1517342),
        (at, "context-switches", 10),
        (at, "page-faults", None),
        (at, "dTLB-load-misses", None),
    ]


def test_lines_without_intervals_have_no_moment() -> None:
    assert parse("0.55;msec;task-clock;545231;100.00;0.6;CPUs utilized\n8;;page-faults;1;100.00;;\n") == [
        (0.0, "task-clock", 0.55),
        (0.0, "page-faults", 8),
    ]


@pytest.mark.parametrize("text", ["", "Error:\n", "1.0;", "1.0;7;", "perf: 3;4"])
def test_events_without_a_count_are_left_out(text: str) -> None:
    assert parse(text) == []


def test_rates_are_per_second_and_instructions_per_cycle() -> None:
    assert rates({"cycles": 4e9, "instructions": 6e9, "page-faults": 10}, 2.0) == {
        "cycles": 2e9,
        "instructions": 3e9,
        "page-faults": 5.0,
        "ipc": 1.5,
    }


class Bare(FakeSystem):
    """A machine without any tool."""

    def which(self, tool: str) -> str:
        return ""


def test_without_perf_it_is_not_available() -> None:
    subject = Subject(Path("/"), postmaster=77, attach=lambda argv, purpose: pytest.fail("it was started"))

    with pytest.raises(NotAvailable, match="perf is not installed"):
        Perf(Bare(), subject).start()


def begun(monkeypatch: pytest.MonkeyPatch, script: str) -> tuple[Perf, Child]:
    """A collector that counts context switches, and the shell script in place of its perf."""
    child = Child(subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE), {})
    subject = Subject(Path("/"), postmaster=77, attach=lambda argv, purpose: child)
    system = FakeSystem()
    monkeypatch.setattr(system, "which", lambda tool: tool)
    monkeypatch.setattr(system, "children", lambda pid: [])
    monkeypatch.setattr(system, "cpu_s", lambda pid: 0.0)
    monkeypatch.setattr(Perf, "_supported", lambda self, program: (["context-switches"], []))
    return Perf(system, subject), child


def test_it_has_started_only_when_perf_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    perf, _ = begun(monkeypatch, "sleep 0.5; echo '1.0;7;;context-switches;1;100.00;;'; exec sleep 60")

    perf.start()

    assert perf.sample() == {"context-switches": 7.0}
    perf.finish()


def test_a_perf_that_does_not_count_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    perf, child = begun(monkeypatch, "exec sleep 60")
    monkeypatch.setattr("agents.collectors.perf.START_S", 0.1)

    with pytest.raises(NotAvailable, match="perf did not start counting within"):
        perf.start()

    assert child.popen.poll() is not None


def with_perf(spec: Spec, **options: Any) -> dict[str, Any]:
    order = spec({}, builtin="select-only", **options)
    order["collect"] = {"interval_s": 1, "sources": ["perf"]}
    return order


@pytest.mark.fast
@pytest.mark.needs("perf")
def test_backends_that_connect_later_are_counted_and_missing_counters_named_once(agent: Connection, spec: Spec) -> None:
    run = agent.submit(with_perf(spec, time_s=4, clients=2))
    events = agent.events(run)

    assert of(events, "outcome") == [OK]
    samples = [sample["values"] for sample in of(events, "sample", source="perf")]
    assert max(values["context-switches"] for values in samples) > 100  # the load's, not those of an idle postmaster
    assert all(name in samples[-1] for name in KERNEL)
    named = [log["message"] for log in of(events, "log") if log["message"].startswith("collector perf: ")]
    assert len(named) == (0 if all(name in samples[-1] for name in HARDWARE) else 1)
    (measured,) = of(events, "measured")
    assert measured["costs"]["perf"]["apart_s"] > 0
    assert not perf_of(run)


@pytest.mark.needs("perf")
def test_a_cancelled_run_ends_perf(agent: Connection, spec: Spec) -> None:
    run = agent.submit(with_perf(spec, time_s=60))
    deadline = time.monotonic() + 60
    while not perf_of(run) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert perf_of(run)

    agent.call("cancel", run=run)

    assert of(agent.events(run), "outcome")[0]["outcome"] == "cancelled"
    assert not perf_of(run)


def perf_of(run: str) -> list[str]:
    """Living processes of perf that carry the mark of the run."""
    pids = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            marked = f"PROVING_GROUND_RUN={run}".encode() in (path / "environ").read_bytes().split(b"\0")
            if marked and (path / "comm").read_text().strip() == "perf":
                pids.append(path.name)
        except OSError:
            continue  # it has just ended
    return pids
