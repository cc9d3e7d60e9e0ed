"""Parameters of a remote server that SQL cannot set: a run waits until a user has changed them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.agents.driver import Connection, of
from tests.agents.postgres.test_existing import outcome
from tests.agents.remote_servers import PLAIN, SUPER, Served, access

pytestmark = pytest.mark.needs("postgresql-15")


@pytest.fixture
def submit(agent: Connection, spec: Any, served: Served, data_dir: Path) -> Any:
    """Submits a run with these PostgreSQL parameters, which waits `wait_s` for them."""

    def submit(parameters: dict[str, str], wait_s: int, user: str = SUPER) -> str:
        target = served.remote(data_dir, user) | {"wait_s": wait_s}
        return agent.submit({**spec({"postgresql": parameters}, time_s=1), "target": target}, access=access(user))

    return submit


def states(events: list[dict[str, Any]]) -> list[str]:
    return [event["data"]["state"] for event in events if event["kind"] == "state"]


def waiting_events(agent: Connection, run: str, count: int) -> list[dict[str, Any]]:
    """The data of its first `count` events of that kind."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        known = of(agent.events(run, until="WAITING"), "waiting")
        if len(known) >= count:
            return known[:count]
        time.sleep(0.2)
    raise AssertionError(f"fewer than {count} in 30 s: {known}")


def test_a_run_waits_for_a_restart_by_hand_and_proves_the_parameter(
    agent: Connection, served: Served, submit: Any
) -> None:
    run = submit({"shared_buffers": "32MB", "work_mem": "8MB"}, wait_s=60)
    waiting = agent.events(run, until="WAITING")

    served.configure("shared_buffers = 32MB")
    served.stop()
    served.start()
    events = agent.events(run)

    change = {"name": "shared_buffers", "wanted": "32MB", "found": "16MB", "pending_restart": False}
    assert of(waiting, "waiting") == [{"changes": [change], "limit_s": 60}]
    assert outcome(events) == "ok"
    assert states(events)[:3] == ["APPLYING", "WAITING", "APPLYING"]
    [proof] = of(events, "proof", subject="shared_buffers", phase="after")
    assert (proof["found"], proof["ok"]) == ("32MB", True)
    assert any("shared_buffers was changed by hand from 16MB to 32MB" in log["message"] for log in of(events, "log"))
    assert not of(events, "proof", subject="shared_buffers", phase="restored")


def test_a_changed_file_is_reported_as_pending_until_the_server_restarts(
    agent: Connection, served: Served, submit: Any
) -> None:
    run = submit({"shared_buffers": "32MB"}, wait_s=60)
    agent.events(run, until="WAITING")

    served.configure("shared_buffers = 32MB")
    served.sql("select pg_reload_conf()")
    found = [waiting_event["changes"][0] for waiting_event in waiting_events(agent, run, 2)]
    agent.call("cancel", run=run)

    assert [(each["found"], each["pending_restart"]) for each in found] == [("16MB", False), ("16MB", True)]
    agent.events(run)


def test_a_run_does_not_wait_for_values_that_are_in_effect(agent: Connection, submit: Any) -> None:
    events = agent.events(submit({"shared_buffers": "16MB"}, wait_s=60))

    assert outcome(events) == "ok"
    assert "WAITING" not in states(events)


def test_a_run_fails_after_the_limit_and_names_the_unchanged_parameters(
    agent: Connection, served: Served, submit: Any
) -> None:
    before = served.snapshot()

    events = agent.events(submit({"shared_buffers": "32MB", "max_wal_size": "2GB"}, wait_s=1))

    assert "not changed by hand within 1 s: shared_buffers = 32MB (is 16MB)" in outcome(events)
    assert served.snapshot() == before


def test_a_waiting_run_is_cancelled_and_leaves_nothing(agent: Connection, served: Served, submit: Any) -> None:
    before = served.snapshot()
    run = submit({"shared_buffers": "32MB"}, wait_s=600)
    agent.events(run, until="WAITING")

    agent.call("cancel", run=run)

    assert outcome(agent.events(run)) == "cancelled"
    assert served.snapshot() == before


def test_parameters_that_the_role_may_not_set_are_changed_by_hand(
    agent: Connection, served: Served, submit: Any
) -> None:
    run = submit({"max_wal_size": "2GB"}, wait_s=60, user=PLAIN)
    agent.events(run, until="WAITING")

    served.sql("alter system set max_wal_size = '2GB'")
    served.sql("select pg_reload_conf()")

    assert outcome(agent.events(run)) == "ok"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"block_size": "16384"}, "block_size"),
        ({"shared_buffers": "plenty"}, "values of type integer"),
        ({"auto_explain.log_timing": "on"}, "load the library of an extension first"),
    ],
)
def test_a_run_does_not_wait_for_parameters_that_no_user_can_change(
    agent: Connection, submit: Any, parameters: dict[str, str], message: str
) -> None:
    events = agent.events(submit(parameters, wait_s=60))

    assert message in outcome(events)
    assert "WAITING" not in states(events)
