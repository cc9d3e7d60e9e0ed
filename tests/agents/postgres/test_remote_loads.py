"""tpcc on remote servers of several versions, in a database of the run and in an allowed one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.driver import Connection, of
from tests.agents.postgres.test_existing import outcome
from tests.agents.remote_servers import BENCH, PLAIN, SUPER, Served, access, free_port, running

# Each creates and loads a warehouse.
pytestmark = [pytest.mark.needs("postgresql-15"), pytest.mark.slow]


@pytest.fixture
def newest(bin_dir: str) -> Iterator[Served]:
    """A remote server of the version of the wheel, newer than the client's psql."""
    with tempfile.TemporaryDirectory(prefix="pg-newest-") as name:
        root = Path(name)
        root.chmod(0o755)
        with running(Served(root / "template", bin_dir, free_port()).create()) as server:
            yield server


def tpcc(spec: Any, target: dict[str, Any], calls: str = "sql") -> dict[str, Any]:
    options = {"clients": 4, "jobs": 2, "transactions": 100, "calls": calls}
    steps = [{"name": "measure", "kind": "tpcc", "options": options}]
    return {**spec(), "dataset": {"kind": "tpcc", "options": {}}, "steps": steps, "target": target}


def conditions(events: list[dict[str, Any]]) -> list[bool]:
    return [proof["ok"] for proof in of(events, "proof", setting="dataset")]


@pytest.mark.parametrize(
    ("user", "allowed", "calls"),
    [(SUPER, False, "sql"), (PLAIN, False, "functions"), (PLAIN, True, "sql"), (PLAIN, True, "functions")],
)
def test_tpcc_runs_and_its_conditions_hold(
    agent: Connection, spec: Any, served: Served, data_dir: Path, user: str, allowed: bool, calls: str
) -> None:
    served.allow_database()
    before, contents = served.snapshot(), served.contents(BENCH)
    target = served.in_database(data_dir, user) if allowed else served.remote(data_dir, user)

    events = agent.events(agent.submit(tpcc(spec, target, calls), access=access(user)), limit_s=240)

    assert outcome(events) == "ok" and conditions(events) and all(conditions(events))
    assert (served.snapshot(), served.contents(BENCH)) == (before, contents)


@pytest.mark.parametrize(("user", "allowed"), [(SUPER, False), (PLAIN, True)])
def test_a_server_newer_than_the_client_is_measured_and_restored(
    agent: Connection, spec: Any, newest: Served, data_dir: Path, user: str, allowed: bool
) -> None:
    newest.allow_database()
    before, contents = newest.snapshot(), newest.contents(BENCH)
    target = newest.in_database(data_dir, user) if allowed else newest.remote(data_dir, user)
    order = {**tpcc(spec, target), "settings": {"postgresql": {"work_mem": "8MB"}}}

    events = agent.events(agent.submit(order, access=access(user)), limit_s=240)

    assert outcome(events) == "ok" and all(conditions(events))
    assert any("older than the server" in entry["message"] for entry in of(events, "log"))
    assert (newest.snapshot(), newest.contents(BENCH)) == (before, contents)
