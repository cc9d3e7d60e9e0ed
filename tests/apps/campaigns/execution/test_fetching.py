"""Unusual events of an agent: lines longer than a read, and an incomplete last line."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.host.system import System
from agents.records.spool import Spool
from apps.campaigns.execution import claims, fetching, received
from apps.campaigns.models import Run
from apps.hosts.access import ssh
from apps.hosts.models import Host
from tests.apps.campaigns.execution.test_received import MANIFEST
from tests.rows.factories import make_campaign

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def job(host: Host) -> Iterator[Path]:
    """The directory of a run without events, whose host is leased."""
    directory = Path(host.spool_dir) / "jobs" / str(uuid.uuid4())
    directory.mkdir()
    lock = Spool(Path(host.spool_dir), System()).lock_host()
    assert lock is not None
    yield directory
    os.close(lock)
    shutil.rmtree(directory)


def read(host: Host, job: Path, offset: int = 0, wait_s: float = 0) -> tuple[bytes, bool]:
    with ssh.Link(host) as link:
        return fetching.read_lines(Run(pk=uuid.UUID(job.name), host=host, events_offset=offset), link, wait_s=wait_s)


def test_a_line_longer_than_a_read_is_read_on(host: Host, job: Path) -> None:
    line = b"x" * (2 * fetching.READ_BYTES) + b"\n"
    (job / "events.ndjson").write_bytes(line)

    assert read(host, job) == (line, False)


def test_half_a_line_longer_than_a_read_is_not_read_again_at_once(host: Host, job: Path) -> None:
    """A tick read the same MiB over and over, without a pause, until its end."""
    (job / "events.ndjson").write_bytes(b"x" * fetching.READ_BYTES)
    began = time.monotonic()

    assert read(host, job, wait_s=1) == (b"", False)

    assert time.monotonic() - began >= 1


def test_events_are_not_read_beyond_the_volume_of_a_run_of_its_age(host: Host, job: Path) -> None:
    with (job / "events.ndjson").open("wb") as events:
        events.truncate(received.BURST_BYTES)
        events.seek(0, os.SEEK_END)
        events.write(b"{}\n" * 1000)
    offset = received.BURST_BYTES - 5

    with pytest.raises(received.UnusableError, match="bytes of events in 0 s"):
        read(host, job, offset)


def test_half_a_line_waits_for_its_other_half(host: Host, job: Path) -> None:
    (job / "events.ndjson").write_bytes(b"one\ntw")

    assert read(host, job) == (b"one\n", False)
    assert read(host, job, offset=4) == (b"", False)


def test_half_a_line_of_a_sealed_job_is_its_last(host: Host, job: Path) -> None:
    (job / "events.ndjson").write_bytes(b"one\ntw")
    (job / "manifest.json").write_bytes(b"{}")

    assert read(host, job) == (b"one\ntw", True)
    assert read(host, job, offset=6) == (b"", True)


@pytest.fixture
def run(host: Host, job: Path) -> Run:
    """The run of the job, which is sealed."""
    campaign = make_campaign("running", 1, host=host)
    return campaign.runs.create(pk=uuid.UUID(job.name), host=host, position=99, block=1, cell={}, spec={})


def seal(job: Path, files: dict[str, bytes]) -> None:
    """These files, and a manifest that names them."""
    for path, content in files.items():
        (job / path).parent.mkdir(parents=True, exist_ok=True)
        (job / path).write_bytes(content)
    named = [
        {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for path, data in files.items()
    ]
    (job / "manifest.json").write_text(json.dumps({**MANIFEST, "files": named}))


def bring(run: Run, batches: int = 100) -> None:
    """Fetch its files; the claim on the run is lost after so many batches."""
    held = iter(range(batches))

    def hold() -> None:
        if next(held, None) is None:
            raise claims.ClaimLostError

    with ssh.Link(run.host) as link:
        fetching.bring(run, link, hold)


def stored(run: Run) -> dict[str, bytes]:
    return {file.path: bytes(file.content or b"") for file in run.artefacts.all()}


LARGE = {f"out/measure/{number}": bytes([number]) * (2 << 20) for number in range(5)}


def test_files_are_stored_in_batches_and_an_interrupted_transfer_continues(job: Path, run: Run) -> None:
    seal(job, LARGE)
    with pytest.raises(claims.ClaimLostError):
        bring(run, batches=1)
    assert len(stored(run)) == fetching.BATCH_BYTES // (2 << 20)

    bring(run, batches=2)

    assert stored(run) == LARGE


def test_files_that_a_host_names_no_more_are_deleted_and_changed_ones_replaced(job: Path, run: Run) -> None:
    """Otherwise a host that seals a run again and again would fill the database."""
    seal(job, {"out/a": b"first", "out/b": b"other"})
    bring(run)

    seal(job, {"out/a": b"second"})
    bring(run)

    assert stored(run) == {"out/a": b"second"}


def test_a_file_that_is_damaged_on_the_disk_is_stored_without_content(job: Path, run: Run) -> None:
    seal(job, {"out/a": b"whole"})
    (job / "out/a").write_bytes(b"worn!")

    bring(run)

    assert run.artefacts.get().content is None
