"""Present parameters of existing clusters, and which accounts may read them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.driver import Connection
from tests.agents.theirs import OWNER, Theirs
from tests.servers.remote import short_dir

pytestmark = pytest.mark.needs("postgresql-15")
GUEST = "games"


@pytest.fixture
def theirs() -> Iterator[Theirs]:
    """A running existing cluster that also listens in /tmp."""
    with short_dir() as root:
        cluster = Theirs(root / "c").create().configure(f"unix_socket_directories = '{root / 'c'}, /tmp'").start()
        yield cluster
        cluster.stop()


@pytest.fixture
def guest(program: Path, theirs: Theirs) -> Iterator[Connection]:
    """An agent of another account if this process is root, else of the owner's account."""
    place = theirs.root.parent
    shutil.copy(program, place / "agent.pyz")
    (place / "agent.pyz").chmod(0o644)
    (place / "spool").mkdir()
    if os.geteuid() == 0:
        shutil.chown(place / "spool", GUEST)
    us = ["setpriv", f"--reuid={GUEST}", f"--regid={GUEST}", "--clear-groups"] if os.geteuid() == 0 else []
    connection = Connection(place / "agent.pyz", place / "spool", [*us, "/usr/bin/python3"])
    yield connection
    connection.close()


def cluster(theirs: Theirs, **changes: Any) -> dict[str, Any]:
    """As the facts tell it."""
    return {
        **{name: theirs.target()[name] for name in ("bin_dir", "data_dir", "config_file", "port", "unit", "include")},
        "name": "theirs",
        "owner": OWNER,
        "running": True,
        "major": 15,
        **changes,
    }


@pytest.mark.fast
def test_a_running_server_reports_each_parameter_with_its_source(agent: Connection, theirs: Theirs) -> None:
    theirs.sql("alter system set max_connections = 30")
    theirs.sql("select pg_reload_conf()")
    while theirs.sql("select pending_restart from pg_settings where name = 'max_connections'") != "t":
        pass
    before = theirs.snapshot()

    (answer,) = agent.call(
        "parameters", clusters=[cluster(theirs)], names=["shared_buffers", "max_connections", "io_x"]
    )

    assert (answer["name"], answer["data_dir"], answer["refused"]) == ("theirs", str(theirs.data), None)
    shown = answer["settings"]["shared_buffers"]
    assert (shown["setting"], shown["unit"], shown["show"]) == ("2048", "8kB", "16MB")
    assert shown["sourcefile"] == str(theirs.data / "postgresql.conf")
    assert answer["settings"]["max_connections"]["pending_restart"]
    assert answer["settings"]["io_x"] is None
    assert theirs.snapshot() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"running": False}, "is not running"),
        ({"bin_dir": ""}, "no installed PostgreSQL 10 or later matches"),
        ({"owner": "daemon"}, "the owner of"),
    ],
)
def test_an_unreachable_cluster_is_reported_and_the_others_are_read(
    agent: Connection, theirs: Theirs, changes: dict[str, Any], message: str
) -> None:
    clusters = [cluster(theirs, **changes), cluster(theirs)]

    refused, answer = agent.call("parameters", clusters=clusters, names=["work_mem"])

    assert message in refused["refused"]["message"] and refused["settings"] == {}
    assert answer["settings"]["work_mem"]["show"] == "4MB"


def test_another_account_reads_only_the_parameters_that_its_role_may_see(guest: Connection, theirs: Theirs) -> None:
    names = ["work_mem", "shared_preload_libraries"]
    if os.geteuid() != 0:
        (answer,) = guest.call("parameters", clusters=[cluster(theirs)], names=names)
        assert set(answer["settings"]) == set(names)
        return

    (refused,) = guest.call("parameters", clusters=[cluster(theirs)], names=names)
    theirs.sql(f"create role {GUEST} login")
    (let_in,) = guest.call("parameters", clusters=[cluster(theirs)], names=names)
    theirs.sql(f"grant pg_read_all_settings to {GUEST}")
    (trusted,) = guest.call("parameters", clusters=[cluster(theirs)], names=names)

    assert f'role "{GUEST}" does not exist' in refused["refused"]["message"]
    assert refused["refused"]["hint"].endswith(f"local all {GUEST} peer")
    assert set(let_in["settings"]) == {"work_mem"}
    assert set(trusted["settings"]) == set(names)
