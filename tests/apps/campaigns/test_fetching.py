"""What comes from an agent that holds unusual events: lines longer than a read, and an end that nobody completes."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.host.system import System
from agents.records.spool import Spool
from apps.campaigns.execution import fetching, received
from apps.campaigns.models import Run
from apps.hosts.access import ssh
from apps.hosts.models import Host

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def job(host: Host) -> Iterator[Path]:
    """A run of which nothing comes by itself, though somebody holds the host for it."""
    directory = Path(host.spool_dir) / "jobs" / str(uuid.uuid4())
    directory.mkdir()
    lock = Spool(Path(host.spool_dir), System()).lock_host()
    assert lock is not None
    yield directory
    os.close(lock)
    shutil.rmtree(directory)


def read(host: Host, job: Path, offset: int = 0) -> tuple[bytes, bool]:
    with ssh.Link(host) as link:
        return fetching.read_lines(Run(pk=uuid.UUID(job.name), host=host, events_offset=offset), link, wait_s=0)


def test_a_line_longer_than_a_read_is_read_on(host: Host, job: Path) -> None:
    line = b"x" * (2 * fetching.READ_BYTES) + b"\n"
    (job / "events.ndjson").write_bytes(line)

    assert read(host, job) == (line, False)


def test_a_flood_is_not_read_beyond_what_a_run_of_its_age_can_have(host: Host, job: Path) -> None:
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
