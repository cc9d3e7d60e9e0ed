"""Hosts with a launcher: the agent is signed by the server, upgraded, and never run from the spool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns.models import Campaign, Run
from apps.hosts import contact
from apps.hosts.access import signing, ssh
from apps.hosts.models import AgentSignature, Host, SigningKey, hosts
from common.errors import HostError, PlanError
from tests.rows.factories import make_host
from tests.servers import campaigns, launched, remote
from tests.servers.launched import Installed

Register = Callable[..., Host]
real = [pytest.mark.django_db(transaction=True), pytest.mark.needs("root", "sshd", "ssh-keygen")]


@pytest.fixture
def server() -> Iterator[remote.Server]:
    with remote.short_dir() as state, remote.openssh(state) as running:
        state.chmod(0o755)  # an account that is not root runs PostgreSQL in it
        yield running


@pytest.fixture
def installed(server: remote.Server, monkeypatch: pytest.MonkeyPatch) -> Installed:
    there = launched.install(server.home)
    there.trust(signing.signers())
    there.narrow(spool=str(server.home / "spool"))
    monkeypatch.setattr(hosts, "LAUNCHER", str(there.program))
    return there


@pytest.fixture
def host(register: Register, server: remote.Server, installed: Installed) -> Host:
    """A host behind OpenSSH, through its launcher; level root, as the account that logs in is root."""
    added = register(server, launcher=True)
    contact.check_host(added)
    added.refresh_from_db()
    assert added.state == Host.State.READY, added.state_reason
    return added


class TestSigning:
    pytestmark = [pytest.mark.django_db, pytest.mark.needs("root", "ssh-keygen")]

    @pytest.fixture
    def there(self, tmp_path: Path) -> Installed:
        place = launched.install(tmp_path)
        place.trust(signing.signers())
        return place

    def test_ssh_keygen_verifies_the_signature_of_the_server(self, there: Installed) -> None:
        digest, data = ssh.agent_zipapp()

        done = there.run("install", stdin=signing.parcel(digest, data))

        assert done.returncode == 0, done.stderr

    def test_an_agent_is_signed_once(self) -> None:
        assert signing.newest_signature("ab" * 32) == signing.newest_signature("ab" * 32)
        assert AgentSignature.objects.count() == 1

    def test_a_return_to_an_older_server_is_an_upgrade_as_well(self) -> None:
        old, new = signing.newest_signature("ab" * 32), signing.newest_signature("cd" * 32)

        again = signing.newest_signature("ab" * 32)

        assert old.serial < new.serial < again.serial

    def test_a_new_key_signs_only_when_it_is_taken_into_use(self, there: Installed) -> None:
        before = signing.current_key()
        signing.prepare_next_key()
        there.trust(signing.signers())

        waiting = signing.newest_signature("ab" * 32).key
        after = signing.use_next_key()

        assert waiting == before
        assert signing.newest_signature("ab" * 32).key == after != before
        assert signing.signers().count("\n") == 1, "the retired key is not trusted any more"
        digest, data = ssh.agent_zipapp()
        assert there.run("install", stdin=signing.parcel(digest, data)).returncode == 0

    def test_the_private_half_is_a_secret_of_the_vault(self) -> None:
        assert "PRIVATE" not in signing.current_key().private_key_encrypted

    def test_the_next_key_must_be_made_before_it_is_used(self) -> None:
        with pytest.raises(PlanError, match="no next key"):
            signing.use_next_key()

    def test_the_command_prints_signature_signers_and_launcher(self, capsys: pytest.CaptureFixture[str]) -> None:
        call_command("sign_agent")
        call_command("sign_agent", signers=True)
        call_command("sign_agent", launcher=True)

        output = capsys.readouterr().out
        assert ssh.agent_zipapp()[0] in output
        assert output.count(SigningKey.objects.get().public_key) == 2
        assert "#!/usr/bin/python3 -I" in output


@pytest.mark.fast
class TestContact:
    pytestmark = real

    def test_the_first_contact_installs_the_agent_outside_the_spool(self, host: Host, installed: Installed) -> None:
        digest = ssh.agent_zipapp()[0]

        assert (host.level, host.agent_digest) == ("root", digest)
        assert (installed.store / f"{digest}.pyz").exists()
        assert list(Path(host.spool_dir).rglob("*.pyz")) == []

    def test_bytes_that_were_appended_to_the_agent_never_run(self, host: Host, installed: Installed) -> None:
        digest, data = ssh.agent_zipapp()
        stored = installed.store / f"{digest}.pyz"
        with stored.open("ab") as file:
            file.write(b"\nraise SystemExit('appended')")

        with ssh.Link(host) as link:
            assert link.hello["agent"] == digest

        assert stored.read_bytes() == data, "it was sent again"

    def test_another_version_of_the_server_upgrades_the_agent(
        self, host: Host, installed: Installed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old = ssh.agent_zipapp()[0]
        ssh._zipapp.cache_clear()
        monkeypatch.setattr("django.conf.settings.VERSION", "99.0")
        try:
            with ssh.Link(host) as link:
                assert link.hello["agent"] == ssh.agent_zipapp()[0] != old
        finally:
            monkeypatch.undo()
            ssh._zipapp.cache_clear()

    def test_a_host_that_trusts_another_key_refuses_our_agent(self, host: Host, installed: Installed) -> None:
        installed.trust(launched.Signer(installed.config.parent, "stranger").line)

        with pytest.raises(HostError, match="the signature is not from a trusted key, or the key was"), ssh.Link(host):
            pass

    def test_a_narrowed_vocabulary_is_a_fact_by_which_campaigns_are_refused(
        self, host: Host, installed: Installed, admin: User
    ) -> None:
        installed.narrow(spool=host.spool_dir, forbid=["pgbench", "reboot"])
        contact.check_host(host)

        assert host.facts["policy"]["forbid"] == ["pgbench", "reboot", "tracer_script"]
        with pytest.raises(PlanError, match="this host forbids the workload pgbench"):
            campaigns.start(host, admin)

    def test_a_campaign_runs_through_it_to_its_end(self, host: Host, admin: User) -> None:
        campaign = campaigns.finish(campaigns.start(host, admin))

        run = campaign.runs.get()
        assert campaign.state == Campaign.State.FINISHED
        assert run.outcome == Run.Outcome.OK, run.error
        assert run.manifest["agent"] == ssh.agent_zipapp()[0]


class TestPage:
    pytestmark = pytest.mark.django_db

    @pytest.mark.parametrize(("launcher", "warned"), [(False, True), (True, False)])
    def test_sudo_without_the_launcher_is_a_warning_on_the_host_page(
        self, admin_client: Client, launcher: bool, warned: bool
    ) -> None:
        host = make_host(sudo=True, launcher=launcher)

        page = admin_client.get(reverse("host_detail", args=[host.name])).content.decode()

        assert ("can run any program as root" in page) is warned
