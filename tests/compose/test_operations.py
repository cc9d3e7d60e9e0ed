"""What docs/operations/production.md says of a running stack: upgrade, several dispatchers, backup, restore, keys, down
and up."""

from __future__ import annotations

import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from cryptography.fernet import Fernet

from tests.compose import roles
from tests.compose.engine import EngineError
from tests.compose.host import Campaign, Host
from tests.compose.stack import CHECKOUT, SERVER, Stack

pytestmark = [pytest.mark.compose, pytest.mark.needs("root", "docker", "compose")]
COMMIT = "feedfacecafe"
LOADED = "registry.invalid/proving-ground:1.2.3"
# The next major version, as far as this needs one: the same programs with a directory of their own in the volume.
NEXT = "proving-ground-test-next-postgres"
NEXT_DOCKERFILE = "FROM postgres:18\nENV PGDATA=/var/lib/postgresql/next/docker\n"
PRODUCTION = (CHECKOUT / "docs" / "operations" / "production.md").read_text()
COMMANDS = re.compile(r"^ {4,}(.*docker compose .*)$", re.MULTILINE)


@pytest.fixture
def two_of_each(stack: Stack) -> Iterator[None]:
    """Two dispatchers and two workers, by the variables of docs/operations/production.md."""
    stack.set_variables(DISPATCHERS="2", WORKERS="2")
    stack.start()
    yield
    stack.set_variables(DISPATCHERS="1", WORKERS="1")
    stack.start()


def test_an_upgrade_during_a_campaign_loses_no_run_and_ends_with_the_new_version(
    stack: Stack, host: Host, figures: list[str]
) -> None:
    roles.serve_as_owner(stack)
    agents = host.agents()
    campaign = Campaign.start(host, repetitions=15, seconds=5)
    campaign.wait_for_runs(ended=1)
    with (stack.folder / "agents" / "wire" / "protocol.py").open("a") as source:
        source.write("# A new version of the agent.\n")

    with pages_away(stack, figures):
        stack.upgrade(COMMIT)

    campaign.wait_for_results()
    ended = [run["ended_at"] for run in campaign.runs()]
    assert min(ended) < stack.container("dispatcher")["State"]["StartedAt"] < max(ended)
    campaign.assert_each_run_once()
    assert stack.client.get("version/")["commit"] == COMMIT
    assert len(host.agents() - agents) == 1
    assert list(stack.folder.glob("proving-before-upgrade-*.tar"))
    assert [roles.rights(stack, service) for service in SERVER] == [roles.LIMITED] * len(SERVER)


def test_a_plain_start_of_a_new_version_creates_the_role_of_the_server(stack: Stack) -> None:
    roles.serve_as_owner(stack)

    stack.start()

    assert [roles.rights(stack, service) for service in SERVER] == [roles.LIMITED] * len(SERVER)


def test_an_upgrade_uses_a_loaded_image_where_no_registry_has_it(stack: Stack, host: Host) -> None:
    stack.set_variables(PROVING_IMAGE=LOADED)
    try:
        with pytest.raises(EngineError, match="neither a registry nor this machine has it"):
            stack.upgrade(COMMIT)
        stack.engine.docker("tag", "proving-ground", LOADED)
        stack.upgrade(COMMIT)
        assert stack.container("web")["Config"]["Image"] == LOADED
    finally:
        stack.set_variables(PROVING_IMAGE="")
        stack.start()
        stack.engine.docker("rmi", LOADED)


@contextmanager
def pages_away(stack: Stack, figures: list[str]) -> Iterator[None]:
    """Note for how long the pages were away."""
    missed, ended = [0.0], threading.Event()
    asking = threading.Thread(target=_ask, args=(f"{stack.url}/healthz", missed, ended))
    asking.start()
    try:
        yield
    finally:
        ended.set()
        asking.join()
    figures.append(f"pages away during the upgrade: {missed[0]:.0f} s")


def _ask(address: str, missed: list[float], ended: threading.Event) -> None:
    while not ended.is_set():
        began = time.monotonic()
        try:
            urllib.request.urlopen(address, timeout=5).close()
            answered = True
        except OSError:
            answered = False
        time.sleep(0.5)
        if not answered:
            missed[0] += time.monotonic() - began


@pytest.mark.usefixtures("two_of_each")
def test_a_second_dispatcher_takes_over_the_runs_of_a_stopped_one(stack: Stack, host: Host) -> None:
    assert [len(stack.containers(service)) for service in ("dispatcher", "worker")] == [2, 2]
    campaign = Campaign.start(host, repetitions=4, seconds=3)
    campaign.wait_for_runs(ended=1)

    stack.engine.docker("stop", stack.containers("dispatcher")[0]["Id"])

    campaign.wait_for_results()
    campaign.assert_each_run_once()


def test_down_and_up_keep_campaigns_and_hosts(stack: Stack, host: Host) -> None:
    campaign = Campaign.start(host)
    campaign.wait_for_results()
    before = campaign.export()

    take_down(stack, host)
    bring_up(stack, host)

    assert campaign.export() == before
    later = Campaign.start(host)
    later.wait_for_results()
    later.assert_each_run_once()


def test_the_check_of_a_backup_restores_it_while_the_server_runs(stack: Stack, host: Host) -> None:
    backup, _, _, _, check = documented_commands("Backup")
    Campaign.start(host).wait_for_results()
    stack.shell(backup)
    (file,) = stack.folder.glob("proving-2*.tar")

    shown = stack.shell(with_file(check, file.name))

    file.unlink()
    assert "can be restored" in shown and "the audit log is intact" in shown
    assert roles.sql(stack, "SELECT count(*) FROM pg_database WHERE datname LIKE '%check%'") == "0"
    assert roles.rights(stack, "web") == roles.LIMITED


def test_keys_are_rotated_between_two_changes_of_the_variable(stack: Stack, host: Host) -> None:
    old = stack.variables["PROVING_SSH_KEYS"]
    new = Fernet.generate_key().decode()
    stack.set_variables(PROVING_SSH_KEYS=f"{new},{old}")
    with pytest.raises(EngineError, match="contains one key in this process"):
        stack.manage("rotate_key")
    stack.start()

    rotated = stack.manage("rotate_key")
    stack.set_variables(PROVING_SSH_KEYS=new)
    stack.start()

    assert re.search(r"^[1-9]\d* secrets? encrypted again", rotated)
    campaign = Campaign.start(host)
    campaign.wait_for_results()
    campaign.assert_each_run_once()


def test_the_documented_command_gives_the_role_of_the_server_a_new_password(stack: Stack, host: Host) -> None:
    (command,) = re.findall(r"^\| the password of \[the server's role\].* \| `(.+)` \|$", PRODUCTION, re.MULTILINE)
    before = stack.compose("exec", "-T", "web", "cat", roles.PASSWORD)

    stack.shell(command)

    stack.wait_until_healthy()
    assert stack.compose("exec", "-T", "web", "cat", roles.PASSWORD) != before
    Campaign.start(host).wait_for_results()


def test_a_restore_into_new_volumes_brings_everything_back_byte_by_byte(stack: Stack, host: Host) -> None:
    backup, stop, restore, start, *_ = documented_commands("Backup")
    campaign = Campaign.start(host)
    campaign.wait_for_results()
    before = campaign.export()
    stack.shell(backup)
    (file,) = stack.folder.glob("proving-2*.tar")
    after = Campaign.start(host)
    after.wait_for_results()

    take_down(stack, host, "--volumes")
    bring_up(stack, host)
    stack.shell(stop)
    stack.shell(with_file(restore, file.name))
    stack.shell(start)
    stack.wait_until_healthy()

    assert campaign.export() == before
    assert stack.client.get("campaigns/?ordering=-created_at")["results"][0]["id"] == campaign.id
    later = Campaign.start(host)
    later.wait_for_results()
    later.assert_each_run_once()


def test_a_new_major_version_of_postgresql_takes_over_by_the_documented_commands(stack: Stack, host: Host) -> None:
    stop, backup, *upgrade = documented_commands("A new major version of PostgreSQL")
    stack.engine.docker("build", "--quiet", f"--tag={NEXT}", "-", stdin=NEXT_DOCKERFILE)
    campaign = Campaign.start(host)
    campaign.wait_for_results()
    before = campaign.export()

    stack.shell(stop)
    stack.shell(backup)
    stack.set_variables(POSTGRES_IMAGE=NEXT)
    try:
        for command in upgrade:
            stack.shell(command)
        stack.wait_until_healthy()
        assert stack.container("postgres")["Config"]["Image"] == NEXT
        assert stack.compose("exec", "-T", "postgres", "ls", "/var/lib/postgresql").split() == ["18", "next"]
        assert campaign.export() == before
    finally:
        stack.set_variables(POSTGRES_IMAGE="")
        stack.start()
    assert campaign.export() == before, "the old data are still there"


def take_down(stack: Stack, host: Host, *options: str) -> None:
    host.leave_network()
    stack.stop(*options)


def bring_up(stack: Stack, host: Host) -> None:
    stack.start()
    host.join_network()


def documented_commands(title: str) -> list[str]:
    """The commands with docker compose of the section of docs/operations/production.md with this title."""
    return COMMANDS.findall(re.split(r"\n##+ ", PRODUCTION.partition(f"# {title}\n")[2])[0])


def with_file(command: str, name: str) -> str:
    """A documented command, with the backup of this name."""
    return re.sub(r"proving-[0-9-]+\.tar", name, command)
