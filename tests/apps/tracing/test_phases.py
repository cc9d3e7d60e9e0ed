"""The phases of a run: complete and in order, whatever happened to the run and to the clock of its host."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

from apps.results.phases import PHASES, AgentEvent, Phase, phases_of, shift_of

STARTED, ENDED = 1000.0, 1020.0


def state(name: str, at: float) -> AgentEvent:
    return AgentEvent("state", at, {"state": name, "step": ""})


def load(step: str, began: float, ended: float) -> list[AgentEvent]:
    return [
        AgentEvent("state", began - 1, {"state": "RUNNING", "step": step}),
        AgentEvent("measuring", began, {"step": step, "began": began}),
        AgentEvent("measured", ended, {"step": step, "began": began, "ended": ended}),
    ]


SERVER = AgentEvent("command", 1003, {"purpose": "postgres", "argv": []})
BEFORE = [state("APPLYING", 1001), SERVER, state("VERIFIED", 1004)]
AFTER = [state("ROLLING_BACK", 1015), state("CLEAN", 1018)]


DATA = AgentEvent("state", 1004.5, {"state": "RUNNING", "step": "dataset"})


def found(events: list[AgentEvent], turn: float | None = 990) -> list[Phase]:
    """The phases, which have no gap between them."""
    phases = phases_of(events, turn, STARTED, ENDED)
    assert all(one.ended == other.began for one, other in pairwise(phases))
    return phases


def test_a_run_that_ends_well_has_each_phase_once() -> None:
    phases = found([*BEFORE, DATA, *load("main", 1006, 1014), *AFTER])

    assert [phase.name for phase in phases] == list(PHASES)
    assert [phase.ended for phase in phases] == [1000, 1001, 1003, 1004, 1005, 1006, 1014, 1015, 1018, 1020]
    assert {phase.name: phase.step for phase in phases if phase.step} == dict.fromkeys(
        ("data", "prepare", "measure"), "main"
    )


def test_each_step_has_its_load() -> None:
    phases = found([*BEFORE, *load("one", 1006, 1008), *load("two", 1010, 1014), *AFTER])

    assert [(phase.step, phase.ended - phase.began) for phase in phases if phase.name == "measure"] == [
        ("one", 2),
        ("two", 4),
    ]


def test_the_phase_in_which_a_run_fails_ends_with_the_rollback() -> None:
    names = [phase.name for phase in found([BEFORE[0], *AFTER])]
    assert names == ["queue", "submit", "apply", "roll back", "collect"]

    during_load = [*BEFORE, *load("main", 1006, 1014)[:2], *AFTER]
    assert [phase.name for phase in found(during_load)][-3:] == ["measure", "roll back", "collect"]

    without_end = [*BEFORE, *load("main", 1006, 1014), AFTER[0]]
    assert [phase.name for phase in found(without_end)][-2:] == ["verify", "roll back"]


def test_a_run_without_events_was_being_submitted() -> None:
    assert [phase.name for phase in found([])] == ["queue", "submit"]
    assert [phase.name for phase in found([], turn=None)] == ["submit"]


def test_a_restart_and_a_wait_are_phases_of_their_own() -> None:
    restarted = [BEFORE[0], state("REBOOTING", 1002), state("APPLYING", 1003), state("VERIFIED", 1004), *AFTER]
    assert [phase.name for phase in found(restarted)][1:5] == ["submit", "apply", "restart", "start"]

    waiting = [BEFORE[0], state("WAITING", 1002), state("APPLYING", 1003), state("VERIFIED", 1004), *AFTER]
    assert [phase.name for phase in found(waiting)][3] == "wait for a change by hand"


def test_a_second_start_of_the_server_is_no_phase() -> None:
    again = AgentEvent("command", 1007, {"purpose": "postgres", "argv": []})

    assert [phase.name for phase in found([*BEFORE, again, *load("main", 1009, 1014), *AFTER])] == list(PHASES)


def test_times_of_a_host_whose_clock_differs_are_between_start_and_end_of_the_run() -> None:
    for difference in (-86_400.0, 86_400.0):
        moved = [AgentEvent(event.kind, event.at + difference, event.data) for event in [*BEFORE, *AFTER]]
        phases = found(moved)

        assert phases[0].ended == STARTED and phases[-1].ended == ENDED
        (back,) = [phase for phase in phases if phase.name == "roll back"]
        assert back.ended - back.began == 3
        assert abs(shift_of(moved, STARTED, ENDED) + difference) <= 2


def test_a_clock_that_is_set_during_the_run_makes_no_phase_negative() -> None:
    set_back = [BEFORE[0], SERVER, state("VERIFIED", -5e9), *load("main", 1006, float("inf")), *AFTER]

    assert all(STARTED <= phase.began <= phase.ended <= ENDED for phase in found(set_back)[1:])


def test_the_dashboard_lists_each_phase_but_the_load() -> None:
    dashboard = Path(__file__).resolve().parents[3] / "deploy" / "grafana.json"
    (row,) = [panel for panel in json.loads(dashboard.read_text())["panels"] if panel["type"] == "row"]
    queries = " ".join(target["query"] for panel in row["panels"] for target in panel["targets"])

    (names,) = re.findall(r'name =~ "([^"]+)"', queries)
    assert names.split("|") == [name for name in PHASES if name != "measure"]
