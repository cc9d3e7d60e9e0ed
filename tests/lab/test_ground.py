"""Changes of the guest during a run: the clock, fragmented memory, the end of a user's login."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.accounts.models import User
from apps.campaigns.execution import claims
from apps.campaigns.models import Run
from apps.hosts import contact, services
from apps.hosts.models import Host
from tests.faults.counts import audit
from tests.faults.counts.ledger import Ledger
from tests.lab.conftest import differences, read_settings, wait
from tests.lab.machines.machine import Machine
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

# One page of each two megabytes stays where it is: the kernel finds no whole ones, however much memory is free.
FRAGMENT = """
import ctypes, mmap, sys, time
libc, size = ctypes.CDLL(None, use_errno=True), int(sys.argv[1]) << 20
memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE)
base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
for page in range(0, size, 4096):
    memory[page] = 1
for start in range(0, size, 128 << 10):
    assert libc.mlock(ctypes.c_void_p(base + start), ctypes.c_size_t(4096)) == 0
    memory.madvise(mmap.MADV_DONTNEED, start + 4096, (128 << 10) - 4096)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(("there", "back"), [("+1 day", "-1 day"), ("-1 day", "+1 day")], ids=["forth", "back"])
def test_the_clock_is_set_by_a_day_while_a_run_measures(
    supervised: Host, admin: User, vm: Machine, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, there: str, back: str
) -> None:
    before = read_settings(vm)
    monkeypatch.setattr(claims, "FOLLOW_S", 1.0)
    run = campaigns.start(supervised, admin, time_s=15).runs.get()
    campaigns.drive(lambda: Run.objects.get(pk=run.pk).agent_state == "RUNNING", timeout_s=300)
    try:
        vm.shell(f'sudo date -s "{there}"')
        campaigns.finish(run.campaign)
    finally:
        vm.shell(f'sudo date -s "{back}"')

    run.refresh_from_db()
    (measured,) = run.events.filter(kind="measured").values_list("data", flat=True)
    assert run.outcome == "ok", run.error
    assert 14 < measured["ended"] - measured["began"] < 120
    assert all(0 <= seconds < 600 for seconds in run.manifest["timings"].values())
    ledger.count(25, 1, audit.of_runs([run]), differences(before, read_settings(vm)))


@pytest.fixture
def in_pieces(vm: Machine) -> Iterator[None]:
    """Most of the guest's memory is free, and hardly two megabytes of it in one piece."""
    vm.shell("sudo sysctl -w vm.compact_unevictable_allowed=0")
    megabytes = int(vm.shell("awk '/MemAvailable/ {print int($2 / 1024 * 0.8)}' /proc/meminfo"))
    holder = vm.follow(f"sudo python3 -I -c '{FRAGMENT}' {megabytes}")
    assert holder.stdout and holder.stdout.readline() == b"ready\n"
    yield
    vm.shell("sudo pkill -f '[M]ADV_NOHUGEPAGE'", check=False)
    vm.shell("sudo sysctl -w vm.compact_unevictable_allowed=1")
    holder.wait(60)


def test_a_kernel_whose_memory_is_in_pieces_gives_fewer_huge_pages(
    supervised: Host, admin: User, vm: Machine, ledger: Ledger, in_pieces: None
) -> None:
    before = read_settings(vm)
    pages = int(vm.shell("awk '/MemAvailable/ {print int($2 / 2048 * 0.7)}' /proc/meminfo"))
    level = {"label": "many", "set": {"settings.huge_pages.use": "on", "settings.huge_pages.pool": pages}}

    run = campaigns.finish(campaigns.start(supervised, admin, {"name": "pages", "levels": [level]})).runs.get()

    assert run.outcome == "not_in_effect", run.error
    granted = int(run.events.get(kind="write", data__setting="huge_pages").data["found"])
    assert 0 <= granted < pages and str(pages) in str(run.error)
    ledger.count(26, 1, audit.of_runs([run]), differences(before, read_settings(vm)))


@pytest.fixture
def ordinary(vm: Machine, admin: User) -> Iterator[Host]:
    """The VM as its user without sudo; processes of this user end with the last session."""
    vm.up()
    home = f"/home/{vm.where['user']}"
    host = services.add_host(
        by=admin,
        name="ordinary",
        address=vm.where["host"],
        port=int(vm.where["port"]),
        user=vm.where["user"],
        sudo=False,
        identity=services.create_identity("own", private_key=Path(vm.where["key"]).read_text(), by=admin),
        spool_dir=f"{home}/spool",
        data_dir=f"{home}/clusters",
    )
    services.approve_host_key(host, services.fetch_host_key(host, by=admin).fingerprint, by=admin)
    contact.check_host(host)
    yield Host.objects.get(pk=host.pk)
    vm.shell(f"rm -rf {home}/spool {home}/clusters")


def test_a_run_that_ends_with_the_login_is_restored_and_reported(
    ordinary: Host, admin: User, vm: Machine, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ordinary.level == "user", ordinary.state_reason
    before = read_settings(vm)
    monkeypatch.setattr(claims, "FOLLOW_S", 1.0)
    run = campaigns.start(ordinary, admin, time_s=300).runs.get()
    campaigns.drive(lambda: Run.objects.get(pk=run.pk).agent_state == "RUNNING", timeout_s=300)

    vm.shell("sudo pkill -KILL -u $USER", check=False)  # as logind does, which the image has no PAM module for
    campaigns.finish(run.campaign, timeout_s=600)

    run.refresh_from_db()
    assert run.outcome == "interrupted" and run.manifest["clean"]
    wait(lambda: vm.shell("pgrep -u $USER -c 'postgres|pgbench'", check=False).strip() == "0")
    ledger.count(31, 1, audit.of_runs([run]), differences(before, read_settings(vm)))
