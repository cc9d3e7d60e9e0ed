"""A host whose account may only start the launcher: installation, upgrade, attacks and a run."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from agents import launcher
from apps.accounts.models import User
from apps.campaigns.models import Run
from apps.hosts import contact
from apps.hosts.access import signing, ssh
from apps.hosts.models import Host, hosts
from common.errors import HostError, PlanError
from tests.lab.accounts import launched_host
from tests.lab.accounts.launched_host import ACCOUNT
from tests.lab.conftest import BASE, differences, read_settings
from tests.lab.machines.machine import Machine
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]
AS_ACCOUNT = f"sudo -u {ACCOUNT} sudo -n"
HUGE = {"label": "pages", "set": {"settings.huge_pages.use": "on", "settings.huge_pages.pool": "auto"}}


@pytest.fixture
def launched(vm: Machine, admin: User) -> Iterator[Host]:
    with launched_host.registered(vm, admin) as host:
        yield host


def refusal(vm: Machine, command: str, stdin: bytes = b"") -> str:
    """The output of a command that must fail."""
    output = vm.shell(f"{command} 2>&1 && echo SUCCEEDED", check=False, stdin=stdin)
    assert "SUCCEEDED" not in output, output
    return output


def test_a_run_with_settings_of_root_goes_through_the_launcher(launched: Host, admin: User, vm: Machine) -> None:
    before = read_settings(vm)

    run = campaigns.finish(campaigns.start(launched, admin, {"name": "pages", "levels": [HUGE]}, time_s=3)).runs.get()

    assert (run.outcome, run.manifest["agent"]) == (Run.Outcome.OK, ssh.agent_zipapp()[0]), run.error
    assert vm.shell(f"sudo find {BASE}/spool -name '*.pyz'") == "", "nothing in the spool is executed"
    assert "a password is required" in refusal(vm, f"{AS_ACCOUNT} /usr/bin/id")
    assert differences(before, read_settings(vm)) == {}


def test_an_upgrade_is_automatic_and_the_older_agent_is_refused_afterwards(
    launched: Host, vm: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, data = ssh.agent_zipapp()
    replayed = signing.parcel(old, data)
    ssh._zipapp.cache_clear()
    monkeypatch.setattr("django.conf.settings.VERSION", "99.0")
    try:
        with ssh.Link(launched) as link:
            assert link.hello["agent"] == ssh.agent_zipapp()[0] != old
    finally:
        monkeypatch.undo()
        ssh._zipapp.cache_clear()

    for command, sent in (("install", replayed), (f"run {old} version", b"")):
        error = refusal(vm, f"{AS_ACCOUNT} {hosts.LAUNCHER} {command}", sent)
        assert re.search(r"serial \d+ is older than \d+, which is installed here", error)


def test_a_changed_byte_never_runs_and_a_revoked_key_starts_nothing(launched: Host, vm: Machine) -> None:
    digest = ssh.agent_zipapp()[0]
    stored = f"{launcher.STORE}/{digest}.pyz"
    vm.shell(f"echo 'raise SystemExit(99)' | sudo tee -a {stored}")
    assert "the signature belongs to another agent" in refusal(
        vm, f"{AS_ACCOUNT} {hosts.LAUNCHER} run {digest} version"
    )

    with ssh.Link(launched) as link:
        assert link.hello["agent"] == digest, "it was sent again"
    launched_host.write(vm, f"{launcher.CONFIG}/revoked", signing.current_key().public_key + "\n")

    with pytest.raises(HostError, match="the signature is not from a trusted key, or the key was"), ssh.Link(launched):
        pass


def test_a_policy_restricts_the_host_and_its_plans(launched: Host, admin: User, vm: Machine) -> None:
    launched_host.narrow(vm, forbid=["huge_pages", "reboot"], os_users=[launched_host.LOAD])
    contact.check_host(launched)

    launched.refresh_from_db()
    assert launched.facts["policy"]["forbid"] == ["huge_pages", "reboot", "tracer_script"]
    with pytest.raises(PlanError, match="this host forbids"):
        campaigns.start(launched, admin, {"name": "pages", "levels": [HUGE]})
    run = campaigns.finish(campaigns.start(launched, admin, time_s=2)).runs.get()
    assert run.outcome == Run.Outcome.OK, run.error
