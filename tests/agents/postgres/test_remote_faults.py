"""Remote servers when the agent is killed, the connection is lost, or the server fails over."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.postgres.remote_server import allowed, target
from agents.postgres.remote_server.server import RemoteServer
from agents.records.journal import Journal
from agents.records.spool import Spool
from agents.recovery import recover, remote_server
from agents.rpc import Agent
from agents.wire import protocol
from tests.agents.dying import RUN, Death, Machine, around_all, around_the_journal
from tests.agents.dying import run as execute
from tests.agents.remote_servers import ADDRESS, BENCH, PLAIN, SECOND, SUPER, Served, access

pytestmark = pytest.mark.needs("postgresql-15")
CONF = {"work_mem": "8MB", "max_wal_size": "2GB", "checkpoint_timeout": "9min"}


class RemoteRun:
    """A spool with one submitted run on a remote server, whose load executes the statements, and then waits."""

    def __init__(
        self,
        root: Path,
        target: dict[str, Any],
        user: str,
        parameters: dict[str, str],
        wait_s: float,
        statements: str = "",
    ) -> None:
        root.mkdir()
        self.spool = Spool(root / "spool", Machine())
        self.spool.prepare()
        load = {"name": "load", "kind": "sql", "options": {"statements": statements}}
        wait = {"name": "measure", "kind": "wait", "options": {"seconds": wait_s}}
        steps = [*([load] if statements else []), *([wait] if wait_s else [])]
        collect = {"interval_s": 1, "sources": []}
        spec = {
            "version": 1,
            "target": target,
            "settings": {"postgresql": parameters},
            "steps": steps,
            "collect": collect,
        }
        order = {"run": RUN, "epoch": 1, "digest": protocol.digest(spec), "spec": spec}
        self.job = self.spool.create(order, access(user))
        self.job.log("state.jsonl").append({"state": "RECEIVED", "step": ""})

    def execute(self, death: Death, around: Callable[[Death], None]) -> bool:
        """Execute the run; whether it was killed."""

        def live() -> None:
            around(death)
            _around_sql(death)
            execute(self.spool, RUN)

        return death.of(live)

    def restore(self, death: Death | None = None) -> bool:
        """Contact the agent again, and restore; whether it was killed."""

        def contact() -> None:
            around_the_journal(death or Death(0))
            _around_sql(death or Death(0))
            agent, deadline = Agent(self.spool, "test", lambda *ignored: None), time.monotonic() + 60
            while agent.hello()["busy"] and time.monotonic() < deadline:
                time.sleep(0.01)
            agent.restore()

        return (death or Death(0)).of(contact)

    @property
    def outcome(self) -> tuple[str, str, bool]:
        """(outcome, message, whether the host is dirty)."""
        manifest = self.job.manifest or {}
        return manifest["outcome"], (manifest["error"] or {}).get("message", ""), self.job.dirty


def _around_sql(death: Death) -> None:
    """Each statement that changes the server. Patches: only for a forked process."""
    RemoteServer.sql = death.around(  # type: ignore[method-assign]
        RemoteServer.sql, lambda server, query, *rest: query[:40] if query[:4] in ("crea", "alte", "drop") else ""
    )


@pytest.fixture
def submit(served: Served, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RemoteRun]:
    monkeypatch.setattr(target, "WAIT_S", 1.0)
    monkeypatch.setattr(remote_server, "WAIT_S", 1.0)

    def submit(
        name: str,
        user: str,
        *addresses: str,
        parameters: Any = CONF,
        wait_s: float = 0,
        statements: str = "",
        in_database: bool = False,
    ) -> RemoteRun:
        where = served.in_database if in_database else served.remote
        target = where(data_dir, user, *addresses)
        return RemoteRun(tmp_path / name, target, user, parameters, wait_s, statements)

    return submit


@pytest.mark.parametrize(
    ("user", "parameters", "step"),
    [
        (SUPER, {"work_mem": "8MB", "checkpoint_timeout": "9min"}, 7),
        (PLAIN, {"work_mem": "8MB"}, 7),
        pytest.param(SUPER, CONF, 1, marks=pytest.mark.slow),
    ],
    ids=["superuser", "role", "every boundary"],
)
def test_a_run_killed_at_any_boundary_leaves_the_server_as_it_was(
    served: Served, submit: Any, user: str, parameters: dict[str, str], step: int
) -> None:
    before, at, died, kills = served.snapshot(), 1, True, 0
    while died:
        remote = submit(str(at), user, parameters=parameters)
        died = remote.execute(Death(at, sparse=True), around_the_journal)
        remote.restore()
        assert served.snapshot() == before, at
        assert not remote.job.dirty and not (remote.job.path / "access.json").exists(), at
        at, kills = at + step, kills + died
    assert kills * step > 12


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "every boundary"])
def test_a_run_in_an_allowed_database_killed_at_any_boundary_leaves_it_as_it_was(
    served: Served, submit: Any, step: int
) -> None:
    served.allow_database()
    served.sql(f"grant create on schema public to {PLAIN}", BENCH)
    served.sql(f"grant alter system on parameter checkpoint_timeout to {PLAIN}")
    served.sql(f"grant execute on function pg_reload_conf(), pg_show_all_file_settings() to {PLAIN}", BENCH)
    served.sql(f"grant select on pg_file_settings to {PLAIN}", BENCH)
    parameters = {"work_mem": "8MB", "checkpoint_timeout": "9min"}
    statements = "create table t as select 1 as a; create table public.t as select 1 as a"
    before, contents, at, died, kills = served.snapshot(), served.contents(BENCH), 1, True, 0
    while died:
        remote = submit(str(at), PLAIN, parameters=parameters, statements=statements, in_database=True)
        died = remote.execute(Death(at, sparse=True), around_the_journal)
        if not died:
            assert remote.outcome[0] == "ok", remote.outcome
        remote.restore(Death(1 + at % 7, sparse=True))  # the restore is killed as well
        remote.restore()
        assert (served.snapshot(), served.contents(BENCH)) == (before, contents), at
        assert not remote.job.dirty and not (remote.job.path / "access.json").exists(), at
        at, kills = at + step, kills + died
    assert kills * step > 12


@pytest.mark.parametrize(
    ("kind", "definition", "dependent"),
    [
        ("view", "as select * from {schema}.t", "rule _RETURN on view empty.theirs"),
        ("table", "(id int references {schema}.t)", "constraint theirs_id_fkey on table empty.theirs"),
        ("table", "(mood {schema}.mood)", "column mood of table empty.theirs"),
        ("table", "() inherits ({schema}.t)", "table empty.theirs"),
    ],
)
def test_an_object_of_another_user_that_depends_on_the_run_is_not_dropped_with_it(
    served: Served, submit: Any, kind: str, definition: str, dependent: str
) -> None:
    served.allow_database()
    before = served.contents(BENCH)
    statements = "create type mood as enum ('good'); create table t (id int primary key)"
    remote = submit("depended on", PLAIN, parameters={}, wait_s=3, statements=statements, in_database=True)

    def depend() -> None:
        schema, deadline = "", time.monotonic() + 30
        while not schema and time.monotonic() < deadline:
            schema = served.sql("select schemaname from pg_tables where tablename = 't'", BENCH)
        served.sql(f"create {kind} empty.theirs {definition.format(schema=schema)}", BENCH)

    during(remote, depend)

    assert remote.job.dirty
    (unproven,) = remote.job.manifest["error"]["unproven"]
    assert f"in bench, objects of other users depend on those of the run: {dependent}" in unproven
    assert "empty.theirs" in served.contents(BENCH)
    served.sql(f"drop {kind} empty.theirs", BENCH)
    remote.restore()
    assert not remote.job.dirty and served.contents(BENCH) == before


def test_a_run_ends_if_another_one_creates_its_schema_in_the_database_at_the_same_time(
    served: Served, submit: Any
) -> None:
    served.allow_database()
    remote, check = submit("second", PLAIN, parameters={}, in_database=True), allowed.check

    def create_after_the_check(*args: Any) -> None:
        check(*args)
        served.sql("create schema proving_ground_00000000", BENCH)

    remote.execute(Death(0), lambda death: setattr(allowed, "check", create_after_the_check))

    outcome, message, dirty = remote.outcome
    assert (outcome, dirty) == ("failed", False) and "is not empty: schema proving_ground_00000000" in message
    assert (
        served.sql("select nspname from pg_namespace where nspname like 'proving%'", BENCH) == "proving_ground_00000000"
    )


def test_a_recovery_killed_at_a_boundary_is_completed_by_the_next_one(served: Served, submit: Any) -> None:
    before, at, killed = served.snapshot(), 1, True
    while killed:
        remote = submit(str(at), SUPER)
        remote.execute(_at_verified(), around_all)
        assert served.sql("show max_wal_size") == "2GB"
        killed = remote.restore(Death(at, sparse=True))
        remote.restore()
        assert served.snapshot() == before and not remote.job.dirty, at
        at += 9


def _at_verified() -> Death:
    """Kills the run when all is in effect."""
    death = Death(0)
    step = death.step

    def stepped(where: str) -> None:
        death.at = len(death.trail) + 1 if "VERIFIED" in where else 0
        step(where)

    death.step = stepped  # type: ignore[method-assign]
    return death


def during(remote: RemoteRun, act: Callable[[], Any]) -> None:
    """Execute the run, and act once its load runs. The load lasts several times as long as the act."""

    def when_measuring() -> None:
        path, deadline = remote.job.path / "events.ndjson", time.monotonic() + 60
        while time.monotonic() < deadline and not (path.exists() and b'"kind":"measuring"' in path.read_bytes()):
            time.sleep(0.05)
        act()

    acting = threading.Thread(target=when_measuring)
    acting.start()
    remote.execute(Death(0), lambda death: None)
    acting.join()


def test_a_lost_connection_fails_the_run_and_quarantines_the_host_until_the_server_is_restored(
    served: Served, submit: Any
) -> None:
    before, remote = served.snapshot(), submit("lost", SUPER, wait_s=3)

    during(remote, served.stop)

    outcome, message, dirty = remote.outcome
    assert (outcome, dirty) == ("failed", True) and "the connection to the server was lost" in message
    remote.restore()
    assert remote.job.dirty  # the server is still down
    served.start()
    remote.restore()
    assert not remote.job.dirty and served.snapshot().keys() == before.keys()
    assert {**served.snapshot(), "process": 0, "environment": 0} == {**before, "process": 0, "environment": 0}


def test_a_restart_of_the_server_interrupts_the_run_and_all_is_restored(served: Served, submit: Any) -> None:
    remote = submit("restarted", SUPER, wait_s=6)

    during(remote, lambda: (served.stop(), served.start()))

    outcome, message, dirty = remote.outcome
    assert (outcome, dirty) == ("interrupted", False) and "the server was restarted" in message
    assert served.sql("show checkpoint_timeout") == "7min" and "proving" not in served.snapshot()["databases"]


def test_another_server_at_the_address_is_left_alone_and_the_first_one_is_restored_when_it_returns(
    served: Served, submit: Any, tmp_path: Path
) -> None:
    served.stop()
    other = Served(served.root.parent / "other", port=served.port).create()
    served.start()
    remote = submit("moved", SUPER, wait_s=6)

    def replace_server() -> None:
        served.stop()
        other.start()
        other.sql("create database proving_ground_11111111")
        other.sql("alter system set max_wal_size = '2GB'")  # the value of the run

    during(remote, replace_server)

    outcome, message, dirty = remote.outcome
    unproven = (remote.job.manifest or {})["error"]["unproven"]
    assert (outcome, dirty) == ("interrupted", True) and "another server answers: system identifier" in message
    assert any("alter system reset max_wal_size" in each for each in unproven)
    assert any("drop database proving_ground_11111111" in each for each in unproven)
    assert "proving_ground_11111111" in other.snapshot()["databases"]
    assert "max_wal_size = '2GB'" in (other.data / "postgresql.auto.conf").read_text()
    other.stop()
    served.start()
    remote.restore()
    assert not remote.job.dirty and served.sql("show max_wal_size") == "1GB"
    assert "proving" not in served.snapshot()["databases"] + served.snapshot()["roles"]


def test_after_a_failover_to_a_standby_both_servers_are_restored(served: Served, submit: Any) -> None:
    standby = _standby(served)
    remote = submit("failed over", SUPER, ADDRESS, SECOND, wait_s=8)

    during(remote, lambda: (served.stop(), standby.sql("select pg_promote()")))

    outcome, message, dirty = remote.outcome
    assert (outcome, dirty) == ("interrupted", True) and "timeline 2, was 1" in message
    assert "proving" not in standby.snapshot()["databases"] + standby.snapshot()["roles"]
    served.start()  # the earlier primary, which still has the values of the run
    assert served.sql("show max_wal_size") == "2GB"
    remote.restore()
    assert (
        not remote.job.dirty
        and served.sql("show max_wal_size") == "1GB"
        and served.sql("show checkpoint_timeout") == "7min"
    )
    assert "proving" not in served.snapshot()["databases"] + served.snapshot()["roles"]
    standby.stop()


def test_a_standby_that_is_not_promoted_does_not_count_as_the_server_of_the_run(served: Served, submit: Any) -> None:
    standby = _standby(served)
    remote = submit("primary lost", SUPER, SECOND, ADDRESS, wait_s=3)

    during(remote, served.stop)

    outcome, message, dirty = remote.outcome
    unproven = (remote.job.manifest or {})["error"]["unproven"]
    assert (outcome, dirty) == ("failed", True) and "the connection to the server was lost" in message
    assert any("alter system reset max_wal_size" in each for each in unproven)
    served.start()
    remote.restore()
    assert not remote.job.dirty and served.sql("show max_wal_size") == "1GB"
    assert served.sql("show checkpoint_timeout") == "7min"
    standby.stop()


def test_with_a_standby_at_the_first_address_parameters_of_the_primary_are_verified(
    served: Served, submit: Any
) -> None:
    standby = _standby(served)
    standby.sql("alter system set checkpoint_timeout = '8min'")
    remote = submit("both", SUPER, SECOND, ADDRESS)

    remote.execute(Death(0), lambda death: None)

    assert remote.outcome[0] == "ok", remote.outcome
    assert (remote.job.manifest or {})["conflicts"] == []
    assert served.sql("show checkpoint_timeout") == "7min"
    assert standby.sql("select setting from pg_file_settings where name = 'checkpoint_timeout'").endswith("8min")
    standby.stop()


def test_a_restore_without_room_for_its_records_is_repeated_when_there_is_room(served: Served, submit: Any) -> None:
    before, remote = served.snapshot(), submit("full", SUPER)
    remote.execute(_at_verified(), around_all)

    recover.unrecorded(remote.job, Machine(), Journal(remote.job, Machine()))
    assert served.snapshot() == before
    remote.restore()

    assert not remote.job.dirty and served.snapshot() == before
    assert not (remote.job.path / "access.json").exists()


def test_a_restore_that_cannot_write_its_password_file_is_tried_again(
    served: Served, submit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, remote = served.snapshot(), submit("no room", SUPER)
    remote.execute(_at_verified(), around_all)

    def write_access(*args: Any) -> dict[str, str]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/pgpassfile")

    with monkeypatch.context() as patched:
        patched.setattr(remote_server, "write_access", write_access)
        remote.restore()
    assert remote.job.dirty and any("No space left" in each for each in remote.job.manifest["error"]["unproven"])
    remote.restore()

    assert not remote.job.dirty and served.snapshot() == before


def _standby(served: Served) -> Served:
    """A running standby at SECOND, on the same port."""
    root = served.root.parent / "standby"
    standby = Served(root, port=served.port)
    root.mkdir(mode=0o755)
    subprocess.run(["chown", "nobody", root], check=True)
    served.sql("create role copier replication login")
    standby._as_owner("pg_basebackup", "-h", ADDRESS, "-p", served.port, "-U", "copier", "-D", standby.data, "-R")
    standby.configure(f"listen_addresses = '{SECOND}'", f"unix_socket_directories = '{root}'")
    return Served(root, port=served.port).start()


def test_a_value_that_another_user_sets_during_the_run_is_left_and_reported(served: Served, submit: Any) -> None:
    remote = submit("changed", SUPER, wait_s=2)

    during(remote, lambda: served.sql("alter system set max_wal_size = '3GB'"))

    conflicts = (remote.job.manifest or {})["conflicts"]
    assert [(each["key"], each["ours"]) for each in conflicts] == [("postgresql.max_wal_size", "2GB")]
    assert served.sql("show max_wal_size") == "3GB" and not remote.job.dirty
