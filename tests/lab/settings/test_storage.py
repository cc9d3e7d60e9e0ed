"""The recipe `storage` on a machine with systemd and devices of its own: two file systems compared, and a raw device
that is written only while it holds nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.design import steps
from apps.campaigns.library import workloads
from apps.campaigns.models import Campaign, Run
from apps.hosts import contact
from apps.hosts.models import Host
from apps.hosts.usage import allowed_paths
from apps.results.answers.summary import summary_table
from tests.lab.conftest import differences, read_settings
from tests.lab.machines.machine import Machine
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

MOUNT = "/srv/other"
TIMEOUT_S = 1200


@pytest.fixture
def device(vm: Machine) -> Iterator[str]:
    """An empty block device of 256 MiB."""
    vm.shell("truncate -s 256M /var/tmp/image")
    name = vm.shell("sudo losetup --find --show /var/tmp/image").strip()
    yield name
    vm.shell(f"sudo umount {name}; sudo losetup --detach {name}; rm -f /var/tmp/image", check=False)


def end(campaign: Campaign) -> list[Run]:
    campaigns.drive(lambda: not campaign.runs.filter(ingested_at=None).exists(), timeout_s=TIMEOUT_S)
    return list(campaign.runs.order_by("position"))


def test_two_file_systems_are_compared(host: Host, admin: User, vm: Machine, device: str) -> None:
    vm.shell(f"sudo mkfs.ext4 -q {device} && sudo mkdir -p {MOUNT} && sudo mount -o noatime {device} {MOUNT}")
    contact.check_host(host)
    before = read_settings(vm)
    allowed_paths.allow(host, MOUNT, "directory", by=admin)
    workload = workloads.save_workload("storage-small", campaigns.small_storage(host, 6), by=admin)
    campaign = services.create_from_recipe(
        by=admin, host=host, recipe="storage", workload=workload, repetitions=1, seed=1
    )
    services.start_campaign(campaign, by=admin)

    runs = end(campaign)

    assert [run.outcome for run in runs] == ["ok", "ok"], [run.error for run in runs]
    table = summary_table(campaign)
    assert [level.split(" (")[0] for level in table.levels] == [host.data_dir, MOUNT]
    figures = {(figure.step, figure.name): figure.cells for figure in table.figures}
    for key in (("fsync", "one_write fdatasync us"), ("timing", "per_loop"), ("fio", "rand-libaio iops")):
        assert all(cell.n == 1 and cell.mean and cell.mean > 0 for cell in figures[key]), key
    assert [mark.label for mark in runs[0].marks.filter(kind="section").order_by("t")] == [
        *("rand-libaio", "seq-libaio", "rand-sync", "seq-sync")
    ]
    assert vm.shell(f"ls {MOUNT}").split() == ["lost+found"]
    assert differences(before, read_settings(vm)) == {}


def write_raw(host: Host, admin: User, device: str) -> Run:
    load = steps.single("fio", {"filename": device, "rw": "write", "size": "4m", "direct": True})
    factor = {"name": "block size", "levels": [{"label": "8k", "set": {"workload.bs": "8k"}}]}
    (run,) = end(campaigns.start(host, admin, factor, steps=load, metric="iops"))
    return run


def test_a_raw_device_is_written_while_it_holds_nothing(host: Host, admin: User, vm: Machine, device: str) -> None:
    allowed_paths.allow(host, device, "device", by=admin)

    empty = write_raw(host, admin, device)
    vm.shell(f"sudo mkfs.ext4 -q {device}")
    digest = f"sudo sha256sum {device}"
    before = vm.shell(digest)
    formatted = write_raw(host, admin, device)
    vm.shell(f"sudo mkdir -p {MOUNT} && sudo mount {device} {MOUNT}")
    mounted = write_raw(host, admin, device)
    vm.shell(f"sudo umount {MOUNT}")

    assert empty.outcome == Run.Outcome.OK, empty.error
    assert "it holds ext2, ext3 or ext4" in formatted.error["message"]
    assert f"mounted on {MOUNT}" in mounted.error["message"]
    vm.shell(f"sudo e2fsck -fn {device}")
    assert before.split()[1] == device
