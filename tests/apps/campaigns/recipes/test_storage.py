"""The recipe `storage` for the allowed directories of a host, and a small campaign from it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import User
from apps.campaigns import recipes, services
from apps.campaigns.design import steps
from apps.campaigns.library import workloads
from apps.campaigns.models import Campaign, Run
from apps.hosts import contact
from apps.hosts.models import Host
from apps.hosts.usage import allowed_paths
from apps.results.answers.summary import summary_table
from apps.results.store import series
from common.errors import PlanError
from tests.rows.factories import FACTS, make_host
from tests.servers import campaigns
from tests.servers.remote import short_dir
from tests.session.needs import require

pytestmark = pytest.mark.django_db(transaction=True)

SECTIONS = ("rand-libaio", "seq-libaio", "rand-sync", "seq-sync")
MOUNTS = [
    {"mounted_on": "/", "type": "ext4", "device": "/dev/vda1", "options": [], "free_kb": 200 << 20},
    {"mounted_on": "/data01", "type": "xfs", "device": "/dev/nvme0n1", "options": [], "free_kb": 40 << 20},
]


def known(cpus: str = "0-63", directories: tuple[str, ...] = ("/var/lib/clusters", "/data01")) -> dict[str, Any]:
    allowed = {**FACTS["cpus"], "allowed": cpus}
    return FACTS | {"cpus": allowed, "file_systems": MOUNTS, "directories": list(directories)}


def job_file(facts: dict[str, Any]) -> str:
    return str(recipes.steps(recipes.get("storage"), facts)[2]["options"]["job_file"])


def test_each_allowed_directory_is_a_level_named_with_its_device() -> None:
    (factor,) = recipes.factors(recipes.get("storage"), known())

    assert [(level["label"], level["set"]) for level in factor["levels"]] == [
        ("/var/lib/clusters (ext4 on /dev/vda1)", {"workload.directory": "/var/lib/clusters"}),
        ("/data01 (xfs on /dev/nvme0n1)", {"workload.directory": "/data01"}),
    ]


def test_jobs_size_and_seconds_follow_the_host() -> None:
    large, small = job_file(known()), job_file(known("0-3"))

    assert {"numjobs=64", "size=2048m", "runtime=180", "ramp_time=6", "bs=8k", "rwmixwrite=35"} <= set(large.split())
    assert {"numjobs=4", "runtime=30", "ramp_time=2"} <= set(small.split())
    assert {"size=10240m", "numjobs=64"} <= set(job_file({}).split())


def test_a_directory_that_is_not_allowed_is_refused_when_it_is_planned(admin: User) -> None:
    (postgresql, *_) = FACTS["postgresql"]
    bundled = {**postgresql, "tools": [*postgresql["tools"], "pg_test_fsync", "pg_test_timing"]}
    host = make_host(facts=known() | {"postgresql": [bundled], "tools": {"fio": {"path": "/usr/bin/fio"}}})
    factor = {"name": "directory", "levels": [{"label": "ssd", "set": {"workload.directory": "/data01"}}]}
    fields = {"by": admin, "host": host, "recipe": "storage", "factors": [factor]}

    with pytest.raises(PlanError, match="'/data01' is not possible") as refused:
        services.create_from_recipe(**fields)
    allowed_paths.allow(host, "/data01", "directory", by=admin)

    assert "an admin can allow" in (refused.value.hint or "")
    assert services.create_from_recipe(**fields).state == Campaign.State.DRAFT


def test_a_run_fails_whose_directory_is_not_allowed_any_more(host: Host, admin: User, tmp_path: Path) -> None:
    allowed_paths.allow(host, str(tmp_path), "directory", by=admin)
    factor = {"name": "directory", "levels": [{"label": "here", "set": {"workload.directory": str(tmp_path)}}]}
    load = steps.single("fio", {"size": "64k", "rw": "write"})
    campaign = campaigns.start(host, admin, factor, steps=load, metric="iops")
    allowed_paths.withdraw(host, str(tmp_path), by=admin)

    campaigns.drive(lambda: Run.objects.get(campaign=campaign).state == Run.State.ENDED)

    run = campaign.runs.get()
    assert run.outcome == Run.Outcome.FAILED and "no longer allowed" in run.error["message"]


@pytest.fixture
def mounted(host_wide: None) -> Iterator[Path]:
    """A file system of its own, as another device would be, which the account of the load can enter."""
    require("root", "mkfs.ext4")
    with short_dir() as place:
        image, mount = place / "image", place / "mount"
        mount.mkdir()
        with image.open("wb") as file:
            file.truncate(128 << 20)
        for argv in (("mkfs.ext4", "-q", "-b", "4096", image), ("mount", "-o", "loop,noatime", image, mount)):
            subprocess.run(argv, check=True, timeout=60)
        yield mount
        subprocess.run(("umount", mount), check=True, timeout=60)


def test_the_recipe_compares_two_file_systems_in_one_table(host: Host, admin: User, mounted: Path) -> None:
    allowed_paths.allow(host, str(mounted), "directory", by=admin)
    contact.check_host(host)
    workload = workloads.save_workload("storage-small", campaigns.small_storage(host), by=admin)
    campaign = services.create_from_recipe(
        by=admin, host=host, recipe="storage", workload=workload, repetitions=1, seed=1
    )
    services.start_campaign(campaign, by=admin)

    campaigns.drive(lambda: not campaign.runs.filter(ingested_at=None).exists(), timeout_s=240)

    runs = {run.label: run for run in campaign.runs.all()}
    assert [run.outcome for run in runs.values()] == ["ok", "ok"], [run.error for run in runs.values()]
    table = summary_table(campaign)
    assert [level.split(" (")[0] for level in table.levels] == [host.data_dir, str(mounted)]
    assert "(ext4 on /dev/loop" in table.levels[1]
    figures = {(figure.step, figure.name): figure for figure in table.figures}
    expected = {("fsync", "one_write fdatasync us"), ("timing", "per_loop")}
    expected |= {("fio", f"{section} {name}") for section in SECTIONS for name in ("iops", "write bw", "read clat_p99")}
    assert expected <= figures.keys()
    assert all(cell.n == 1 and cell.mean and cell.mean > 0 for key in expected for cell in figures[key].cells)
    for run in runs.values():
        marks = list(run.marks.filter(kind="section").order_by("t"))
        assert [mark.label for mark in marks] == list(SECTIONS)
        assert all(before.until <= after.t + 0.5 for before, after in pairwise(marks))
        fio_series = run.series.get(source="fio")
        assert {"read_bw", "write_iops", "read_lat"} <= set(fio_series.columns) and fio_series.samples >= 6
        assert "fio.latency" in [panel.key for panel in series.panels_of(run)]
        options = {mount["mounted_on"]: mount["options"] for mount in run.facts.data["file_systems"]}
        assert "noatime" in options[str(mounted)], "how the device was mounted is on record with the run"
    assert sorted(path.name for path in mounted.iterdir()) == ["lost+found"]
