"""Scripts are checked by the tool that runs them, of the wheel's version and of Debian's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.agents.driver import Connection, of
from tests.agents.theirs import DEBIANS

pytestmark = pytest.mark.fast
GOOD = "\\set aid random(1, 100000)\nselect abalance from pgbench_accounts where aid = :aid;\n"


@pytest.fixture(params=[pytest.param(15, marks=pytest.mark.needs("postgresql-15")), 18])
def programs(request: pytest.FixtureRequest, bin_dir: str) -> str:
    return DEBIANS if request.param == 15 else bin_dir


def step(name: str = "measure", **options: Any) -> dict[str, Any]:
    return {"name": name, "kind": "pgbench", "options": options}


def failures_of(agent: Connection, programs: str, *steps: dict[str, Any]) -> list[tuple[str, str, int | None]]:
    failures = agent.call("check", steps=list(steps), bin_dir=programs)["failures"]
    assert all(failure["blame"] == "plan" and failure["message"] and failure["said"] for failure in failures)
    return [(failure["step"], failure["script"], failure["line"]) for failure in failures]


@pytest.mark.parametrize(
    ("script", "line", "message"),
    [
        ("select 1;\n\\set a random(1,)\nselect :a;\n", 2, 'syntax error in command "set"'),
        ("\\set a 1\n\n\\foo x\n", 3, 'invalid command in command "foo"'),
        ("select 1;\n\\sleep 1 hours\n", 2, "unrecognized time unit"),
        ("\\if 1\nselect 1;\n", None, "\\if without matching \\endif"),
        ("-- nothing\n", None, "empty command list"),
    ],
)
def test_pgbench_names_the_line_that_it_cannot_read(
    agent: Connection, programs: str, script: str, line: int | None, message: str
) -> None:
    (failure,) = agent.call("check", steps=[step(script=script)], bin_dir=programs)["failures"]

    assert (failure["step"], failure["script"], failure["line"]) == ("measure", "script", line)
    assert message in failure["message"] and message in failure["said"]
    assert "/tmp" not in failure["message"] + failure["said"]


def test_every_broken_script_of_every_step_is_reported_in_one_answer(agent: Connection, programs: str) -> None:
    scripts = [{"name": "a", "text": "\\foo"}, {"name": "b", "text": GOOD}, {"name": "c", "text": "select 1;\n\\set"}]

    failures = failures_of(
        agent, programs, step("warm", script=GOOD), step("load", scripts=scripts), step("end", script="\\bar")
    )

    assert failures == [("load", "a", 1), ("load", "c", 2), ("end", "script", 1)]


def test_sound_scripts_and_builtins_pass(agent: Connection, programs: str) -> None:
    mixed = step("mixed", builtins={"select-only": 9}, scripts=[{"name": "a", "text": GOOD, "weight": 3}])
    rate = step("rate", script=GOOD, rate_share=0.5, rate_of="mixed", latency_limit_ms=5, mode="prepared")

    assert failures_of(agent, programs, step(), mixed, rate, step("logged", log="reduced", sampling_rate=0.5)) == []


def test_a_request_is_trusted_no_more_than_a_spec(agent: Connection, programs: str) -> None:
    broken = [step("a", script="\\shell id"), step("b", scripts=[{"name": "../b", "text": GOOD}]), step("c", clients=0)]

    assert [name for name, _, _ in failures_of(agent, programs, *broken)] == ["a", "b", "c"]


@pytest.mark.needs("postgresql-15")
def test_the_tool_reports_an_option_that_its_version_lacks(agent: Connection, bin_dir: str) -> None:
    pgbench_step = step(exit_on_abort=True)

    (failure,) = agent.call("check", steps=[pgbench_step], bin_dir=DEBIANS)["failures"]

    assert failure["field"] == "pgbench.exit_on_abort" and "PostgreSQL 17 or later" in failure["message"]
    assert agent.call("check", steps=[pgbench_step], bin_dir=bin_dir)["failures"] == []


def test_a_run_with_a_broken_script_ends_before_anything_is_touched(
    agent: Connection, spec: Callable[..., dict[str, Any]]
) -> None:
    broken = spec({"postgresql": {"work_mem": "8MB"}}, script="select 1;\n\\set a random(1,)\n")
    del broken["steps"][0]["options"]["builtin"]

    events = agent.events(agent.submit(broken))

    (outcome,) = of(events, "outcome")
    assert (outcome["outcome"], outcome["error"]["line"]) == ("failed", 2)
    assert "script, line 2: syntax error" in outcome["error"]["message"]
    assert of(events, "command") == of(events, "write") == []
