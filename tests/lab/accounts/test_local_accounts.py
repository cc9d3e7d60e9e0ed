"""Local accounts that try to become root while the agent works at level root."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.wire import protocol
from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.models import Run
from apps.hosts import contact
from apps.hosts.access import ssh
from apps.hosts.models import Host
from common.errors import ProvingError
from tests.lab.accounts import attacks, launched_host
from tests.lab.accounts.launched_host import ACCOUNT, LOAD
from tests.lab.conftest import BASE
from tests.lab.machines.machine import Machine
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

SECONDS = float(os.environ.get("PROVING_LAB_ATTACK_S") or 240)
ATTACKS = {
    LOAD: (
        *(attacks.a_link_in_place_of_pgdata, attacks.a_link_in_place_of_the_cluster_files),
        *(attacks.links_at_names_that_will_be_written, attacks.links_in_scratch_directories),
        *(attacks.directories_swapped_while_they_are_removed, attacks.hard_links_to_files_of_root),
        attacks.a_lock_file_that_names_another_process,
    ),
    "postgres": (
        *(attacks.start_files_of_clients, attacks.a_process_named_postgres),
        attacks.fifos_and_links_in_a_cluster_of_debian,
    ),
    "nobody": (attacks.names_in_tmp,),
    ACCOUNT: (
        *(attacks.programs_by_sudo, attacks.other_agents_by_the_launcher, attacks.environments_for_the_launcher),
        *(attacks.other_spools_and_verbs, attacks.requests_that_name_programs_of_its_own),
    ),
}
PROGRAM = "/opt/attacks.py"
# Each has a file that the agent writes into a directory of the load, which the load's account attacks.
STEPS = [
    {"name": "load", "role": "warm", "kind": "pgbench", "options": {"script": "select 1;", "time_s": 1, "rate": 50}},
    {"name": "statements", "role": "warm", "kind": "sql", "options": {"query": "select 1", "times": 2}},
    {"name": "io", "role": "warm", "kind": "fio", "options": {"job_file": "[a]\nrw=write\nsize=1m\n"}},
    {"name": "measure", "role": "measure", "kind": "pgbench", "options": campaigns.CALM},
]
# Files that only root may change: name, owner, mode, size and time of each, and the contents of some. The launcher
# stores what it receives as incoming.sig until it is verified.
OF_ROOT = """
find /etc /usr/local /usr/sbin /root /var/lib/proving-agent/*.* /var/lib/proving-agent/newest -xdev \\
    ! -name incoming.sig -printf '%p %u %m %s %T@ %l\\n' | sort
cat /etc/passwd /etc/shadow /etc/sudoers.d/* | sha256sum
"""
EXECUTED = """
BEGIN { printf("begun\\n"); }
tracepoint:syscalls:sys_enter_execve /uid == 0/ { printf("%s %s\\n", comm, str(args->filename)); }
"""


@pytest.fixture
def launched(vm: Machine, admin: User) -> Iterator[Host]:
    with launched_host.registered(vm, admin) as host:
        launched_host.narrow(vm, forbid=["units"], os_users=[LOAD], directories=[f"{BASE}/clusters", f"{BASE}/files"])
        contact.check_host(host)
        yield Host.objects.get(pk=host.pk)


@pytest.fixture
def secret(vm: Machine) -> Iterator[str]:
    """A file that only root may read, and two that only root may change."""
    text = secrets.token_hex(16)
    vm.shell(f"sudo rm -rf {attacks.RAN} /tmp/planted /tmp/spool /tmp/store /tmp/path")
    # By root: with fs.protected_regular, root could not append to a file that an attacker creates in /tmp.
    vm.shell(f"sudo install -m 666 /dev/null {attacks.RAN}")
    launched_host.write(vm, attacks.SECRET, f"{text} = '{text}'\n", "600")
    launched_host.write(vm, attacks.CANARY, "unchanged\n", "644")
    launched_host.write(vm, f"{attacks.CANARIES}/one", "unchanged\n", "644")
    yield text
    # A link may still be in place of the files of a cluster.
    vm.shell(f"sudo rm -rf {BASE}/clusters/*")
    vm.shell(f"sudo rm -rf {PROGRAM} {attacks.RAN} {attacks.SECRET} {attacks.CANARY} {attacks.CANARIES}")


@pytest.fixture
def executed(vm: Machine) -> Iterator[Path]:
    """A file of the guest that lists each execve(2) of root."""
    script, log = "/run/executed.bt", "/run/executed"
    launched_host.write(vm, script, EXECUTED)
    vm.shell(f"sudo rm -f {log}")
    # -B is for stdout: a file of -o would be buffered.
    running = vm.follow(f"sudo sh -c 'BPFTRACE_STRLEN=200 exec bpftrace -B none {script} >{log}'")
    vm.shell(f"timeout 600 sh -c 'until sudo grep -qs ^begun {log}; do sleep 1; done'", limit_s=660)
    yield Path(log)
    running.terminate()
    running.wait()


def attack(vm: Machine, host: Host) -> subprocess.Popen[bytes]:
    """All attacks at once, from one login: sshd limits how many begin together. The agent has precedence, because its
    work is what they attack."""
    launched_host.write(vm, PROGRAM, Path(attacks.__file__).read_text())
    commands = [
        f"nice -n 10 sudo -u {account} AGENT={host.agent_digest} python3 {PROGRAM} {each.__name__} {SECONDS}"
        for account, of_account in ATTACKS.items()
        for each in of_account
    ]
    return vm.follow("cd /tmp; " + "".join(f"{command} & " for command in commands) + "wait")


def work(host: Host, admin: User, until: float) -> list[Run]:
    """Checks and campaigns. Attacks can make them fail."""
    ended: list[Run] = []
    while time.monotonic() < until:
        try:
            contact.check_host(host)
            campaign = campaigns.start(host, admin, steps=STEPS)
            ended += campaigns.finish(campaign).runs.all()
        except ProvingError:
            contact.release_host(Host.objects.get(pk=host.pk))
        except AssertionError:  # it has not ended in time
            services.cancel_campaign(campaign, by=admin)
    return ended


def only_root_changes(vm: Machine, path: str) -> bool:
    """Neither the file nor a directory above it can be changed by another account. Programs that root did not find in
    its path are traced, too; their directories count."""
    real = vm.shell(f"sudo readlink -f {path}", check=False).strip()
    above = " ".join(map(str, [real, *Path(real).parents]))
    present = vm.shell(f"for path in {above}; do sudo test ! -e $path || sudo stat -c '%U %a' $path; done")
    return all(
        owner == "root" and (not int(mode, 8) & 0o022 or int(mode, 8) & 0o1000)
        for owner, mode in (line.split() for line in present.splitlines())
    )


def test_no_account_becomes_root_or_reads_or_changes_files_of_root(
    launched: Host, admin: User, vm: Machine, secret: str, executed: Path
) -> None:
    before = vm.shell("sudo sh -e", stdin=OF_ROOT.encode())
    attackers = attack(vm, launched)

    runs = work(launched, admin, time.monotonic() + SECONDS)

    tries = dict(line.split() for line in attackers.communicate(timeout=300)[0].decode().splitlines())
    assert {each.__name__ for of_account in ATTACKS.values() for each in of_account} == set(tries)
    assert all(int(count) > 0 for count in tries.values()), tries
    assert runs
    by_attackers = vm.shell(f"cat {attacks.RAN}").split()
    assert "0" not in by_attackers, "root executed what an attacker wrote"
    others = {f"named-{vm.shell(f'id -u {account}').strip()}" for account in ("root", "postgres")}
    assert not others & set(by_attackers), "a request made another account execute what an attacker wrote"
    assert vm.shell("sudo sh -e", stdin=OF_ROOT.encode()) == before
    names = {line.split()[-1] for line in vm.shell(f"sudo cat {executed}").splitlines()[1:] if " /" in line}
    assert names, "the trace of execve(2) is empty"
    assert [name for name in sorted(names) if not only_root_changes(vm, name)] == []
    readable = f"grep -rslF {secret} {BASE} /tmp /var/lib/postgresql /home"
    assert [vm.shell(f"sudo -u {account} {readable}", check=False) for account in ATTACKS] == [""] * len(ATTACKS)
    assert secret not in str(Host.objects.get(pk=launched.pk).facts)


@pytest.mark.parametrize("directory", ["/root", "/etc", f"{BASE}/clusters/../../../../root"])
def test_the_agent_writes_only_in_directories_of_the_policy(launched: Host, directory: str) -> None:
    spec = {
        "version": 1,
        "target": None,
        "os_user": LOAD,
        "settings": {},
        "steps": [{"name": "io", "kind": "fio", "options": {"directory": directory, "size": "1m"}}],
        "collect": {"interval_s": 1, "sources": []},
        "allowed_paths": [{"kind": "directory", "path": directory}],
    }

    with ssh.Link(launched) as link, pytest.raises(ProvingError, match=r"policy\.json of the host defines this"):
        epoch, digest = link.hello["epoch"] + 1, protocol.digest(spec)
        link.call("submit", run=str(uuid.uuid4()), epoch=epoch, digest=digest, spec=spec)
