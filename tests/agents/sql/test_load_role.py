"""The SQL of a run has a role without access to files and programs of the host, run by an account that is not root."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.errors import HostFailure, Unplannable
from agents.host.system import System
from agents.postgres import cluster
from agents.postgres.cluster import APART, choose_account
from tests.agents.driver import OK, Connection, of
from tests.servers import remote

Spec = Callable[..., dict[str, Any]]
FILE = f"/tmp/proving-attack-{os.getpid()}"
# PostgreSQL's error distinguishes them: only a missing privilege is caught.
ATTACKS = {
    "read": "perform pg_read_file('/etc/passwd')",
    "list": "perform pg_ls_dir('/')",
    "write": f"execute 'copy (select 1) to ''{FILE}'''",
    "program": f"execute 'copy (select 1) to pro' || 'gram ''touch {FILE}'''",
    "promote": "execute 'alter role current_user superuser'",
    "borrow": "execute 'set role postgres'",
    "grant": "execute 'grant pg_execute_server_program to current_user'",
    "export": f"perform lo_export(lo_from_bytea(0, 'x'), '{FILE}')",
}


def refused(attack: str) -> str:
    return f"do $x$ begin {attack}; raise 'it succeeded'; exception when insufficient_privilege then null; end $x$"


@pytest.mark.fast
def test_sql_of_the_load_reaches_no_file_and_no_program_of_the_host(agent: Connection, spec: Spec) -> None:
    steps = [{"name": name, "sql": refused(attack)} for name, attack in ATTACKS.items()]
    run_spec = {**spec(), "dataset": {"kind": "sql", "options": {"steps": steps}}}
    run_spec["steps"] = [
        {"name": "q", "kind": "sql", "options": {"query": "select count(*) from pg_class", "times": 1}}
    ]

    events = agent.events(agent.submit(run_spec), limit_s=120)

    assert of(events, "outcome") == [OK], of(events, "outcome")
    assert not Path(FILE).exists()


@pytest.mark.needs("root")
class TestAccount:
    @pytest.fixture
    def place(self) -> Iterator[Path]:
        with remote.short_dir() as path:
            path.chmod(0o755)
            for name in ("postgres", "initdb"):
                (path / name).write_text("#!/bin/sh\nid -u\n")
                (path / name).chmod(0o755)
            yield path

    @pytest.mark.parametrize("name", ["root", "toor"])
    def test_a_target_cannot_name_root_by_any_name(
        self, place: Path, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        named = cluster.named
        monkeypatch.setattr(cluster, "named", lambda name: named("root" if name == "toor" else name))

        with pytest.raises(Unplannable, match="an account that is not root"):
            choose_account(System(), name, str(place), str(place))

    def test_the_account_of_its_own_is_chosen_before_postgres(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cluster, "ACCOUNTS", ("nobody", "postgres"))

        assert choose_account(System(), "", str(place), str(place)).name == "nobody"

    def test_without_an_account_an_unused_uid_runs_the_load(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cluster, "ACCOUNTS", ())

        account = choose_account(System(), "", str(place), str(place))

        shadow = [*account.wrapper, "cat", "/etc/shadow"]
        assert account.user == APART
        assert System().run(shadow, user=account.user, group=account.group).code != 0

    def test_root_in_a_namespace_runs_nothing_for_the_launcher(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cluster, "ACCOUNTS", ())
        monkeypatch.setenv("PROVING_AGENT_LAUNCHER", "/usr/local/sbin/proving-agent")
        place.chmod(0o700)

        with pytest.raises(HostFailure, match="only root can run PostgreSQL here, and the launcher does"):
            choose_account(System(), "", str(place), str(place))
