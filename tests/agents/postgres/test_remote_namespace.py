"""A remote server in a network namespace, where nothing but port 5432 can be reached."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.agents.dying import Death, around_the_journal
from tests.agents.enclosed_server import FIRST, PORT, SECOND, Enclosed, enclosed
from tests.agents.postgres.test_remote_faults import RemoteRun, during, submit
from tests.agents.remote_servers import PLAIN, SUPER, Served
from tests.servers.remote import short_dir

__all__ = ["submit"]
pytestmark = pytest.mark.needs("postgresql-15", "root", "network namespaces")
OF_SESSIONS = {
    "work_mem": "8MB", "maintenance_work_mem": "96MB", "random_page_cost": "1.1", "effective_cache_size": "3GB",
    "jit": "off", "synchronous_commit": "off", "effective_io_concurrency": "32",
}  # fmt: skip
TEN = {
    SUPER: {**OF_SESSIONS, "max_wal_size": "2GB", "checkpoint_timeout": "9min", "bgwriter_delay": "50ms"},
    PLAIN: {
        **OF_SESSIONS,
        "default_statistics_target": "250",
        "max_parallel_workers_per_gather": "0",
        "statement_timeout": "10min",
    },
}


@pytest.fixture
def served(served_template: Served) -> Iterator[Enclosed]:
    with short_dir() as root, enclosed(served_template, root) as server:
        yield server


def proofs(remote: RemoteRun) -> dict[str, dict[str, Any]]:
    """Phase -> parameter -> its proof."""
    lines = (remote.job.path / "events.ndjson").read_text().splitlines()
    emitted = [record["data"] for record in map(json.loads, lines) if record["kind"] == "proof"]
    return {
        phase: {each["subject"]: each for each in emitted if each["phase"] == phase and each["setting"] == "postgresql"}
        for phase in ("before", "after", "restored")
    }


def accepts(port: int) -> bool:
    try:
        with socket.create_connection((FIRST, port), timeout=1):
            return True
    except OSError:
        return False


def test_only_the_port_of_postgresql_can_be_reached(served: Enclosed) -> None:
    listen = "import socket; s = socket.create_server(('', 8022)); print(flush=True); s.accept()"
    argv = [*served.namespace.enter, sys.executable, "-c", listen]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        reached = accepts(PORT), accepts(8022)
        other.kill()

    assert reached == (True, False)


@pytest.mark.parametrize("user", [SUPER, PLAIN])
def test_ten_parameters_are_applied_proven_and_restored(served: Enclosed, submit: Any, user: str) -> None:
    before, remote = served.snapshot(), submit("ten", user, parameters=TEN[user], wait_s=1)

    remote.execute(Death(0), lambda death: None)

    assert remote.outcome[0] == "ok", remote.outcome
    by_phase = proofs(remote)
    assert all(by_phase[phase].keys() == TEN[user].keys() for phase in by_phase)
    assert all(each["ok"] for phase in by_phase.values() for each in phase.values())
    assert served.snapshot() == before


@pytest.mark.parametrize(
    ("user", "step"),
    [(PLAIN, 24), *(pytest.param(user, 1, marks=pytest.mark.slow) for user in (SUPER, PLAIN))],
    ids=["some", "every boundary of a superuser", "every boundary of a role"],
)
def test_an_agent_killed_at_any_boundary_leaves_no_parameter_changed(
    served: Enclosed,
    submit: Any,
    user: str,
    step: int,
) -> None:
    before, at, died, kills = served.snapshot(), 1, True, 0
    while died:
        remote = submit(str(at), user, parameters=TEN[user])
        died = remote.execute(Death(at, sparse=True), around_the_journal)
        remote.restore()
        assert served.snapshot() == before, at
        assert not remote.job.dirty, at
        at, kills = at + step, kills + died
    logging.getLogger(__name__).info("%s: killed %d times, 0 parameters left changed", user, kills)
    assert kills * step > 20


def test_a_failover_to_a_second_server_interrupts_the_run_and_both_are_restored(
    served: Enclosed,
    submit: Any,
) -> None:
    standby = served.standby(SECOND)
    remote = submit("failed over", SUPER, FIRST, SECOND, parameters=TEN[SUPER], wait_s=8)

    during(remote, lambda: (served.stop(), standby.sql("select pg_promote()")))

    outcome, message, dirty = remote.outcome
    assert (outcome, dirty) == ("interrupted", True) and "timeline 2, was 1" in message
    assert "proving" not in standby.snapshot()["databases"] + standby.snapshot()["roles"]
    served.start()
    remote.restore()
    assert not remote.job.dirty and served.sql("show max_wal_size") == "1GB"
    assert "proving" not in served.snapshot()["databases"] + served.snapshot()["roles"]
    standby.stop()
