"""Records survive torn writes, full disks and two writers."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from agents.errors import HostFailure, PlanFailure
from agents.records import spool as spool_module
from agents.records.spool import Log, Spool, read_log, replace
from tests.agents.fakes import FakeSystem

RUN = "11111111-2222-3333-4444-555555555555"


def log(path: Path) -> Log:
    return Log(path, FakeSystem(), lambda: None)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    made = Spool(tmp_path / "spool", FakeSystem())
    made.prepare()
    made.reserve()
    return made


def test_seq_continues_where_an_earlier_process_stopped(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    for _ in range(3):
        log(path).append({"kind": "log"})

    records, damaged = read_log(path)

    assert [record["seq"] for record in records] == [1, 2, 3] and not damaged


@pytest.mark.parametrize("lost", range(1, 40, 7))
def test_a_torn_last_line_is_cut_off_and_its_seq_used_again(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "events.ndjson"
    first = log(path)
    first.append({"kind": "one"})
    first.append({"kind": "two"})
    os.truncate(path, path.stat().st_size - lost)

    log(path).append({"kind": "three"})

    assert [(r["seq"], r["kind"]) for r in read_log(path)[0]] == [(1, "one"), (2, "three")]


def test_a_line_longer_than_the_window_is_still_found(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    log(path).append({"kind": "x" * (3 << 20)})

    assert log(path).append({"kind": "next"})["seq"] == 2


def test_damage_before_the_last_line_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    for _ in range(3):
        log(path).append({"entry": "write"})
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(bytes(data))

    records, damaged = read_log(path)

    assert damaged and len(records) == 2


def test_a_full_disk_ends_the_run_and_its_reserve_is_for_undoing_it(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = spool.create({"run": RUN, "epoch": 1, "digest": "", "spec": {}})
    events, write_all = job.log("events.ndjson"), spool_module._write_all

    def full_until_relieved(fd: int, data: bytes, durable: bool) -> None:
        if not spool.full:
            os.write(fd, data[:5])
            raise OSError(errno.ENOSPC, "No space left on device")
        write_all(fd, data, durable)

    monkeypatch.setattr(spool_module, "_write_all", full_until_relieved)
    with pytest.raises(OSError, match="No space left"):
        events.append({"kind": "log"})
    assert spool.full and (spool.root / "reserve.bin").exists()
    spool.full, spool.sparing = False, False
    events.append({"kind": "log"})

    assert spool.full and not (spool.root / "reserve.bin").exists()
    assert [record["seq"] for record in read_log(job.path / "events.ndjson")[0]] == [1]


def test_an_older_epoch_is_refused_also_after_a_restart(spool: Spool) -> None:
    spool.raise_epoch(7)
    again = Spool(spool.root, FakeSystem())

    with pytest.raises(HostFailure, match="epoch 6 is older than 7"):
        again.raise_epoch(6)
    again.raise_epoch(7)


def test_two_agents_can_replace_a_file_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, sync = tmp_path / "contact", os.fsync

    def sync_while_another_agent_replaces_it(fd: int) -> None:
        monkeypatch.setattr(os, "fsync", sync)
        child = os.fork()
        if child == 0:
            try:
                replace(path, b"another agent")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert path.read_bytes() == b"another agent"
        sync(fd)

    monkeypatch.setattr(os, "fsync", sync_while_another_agent_replaces_it)
    replace(path, b"this agent")

    assert path.read_bytes() == b"this agent" and os.listdir(tmp_path) == ["contact"]


def test_one_run_holds_the_host(spool: Spool) -> None:
    first = spool.lock_host()

    assert first is not None and spool.lock_host() is None
    os.close(first)
    assert spool.lock_host() is not None


def test_the_spool_is_private(spool: Spool) -> None:
    assert spool.root.stat().st_mode & 0o777 == 0o700
    assert (spool.root / "reserve.bin").stat().st_size == spool_module.RESERVE_BYTES


def test_a_job_that_was_not_created_completely_is_ignored(spool: Spool) -> None:
    (spool.jobs_dir / f".new-{RUN}").mkdir()

    assert spool.jobs() == []
    assert spool.create({"run": RUN, "epoch": 1, "digest": "", "spec": {}}).order["run"] == RUN


def test_a_run_is_a_uuid_and_no_path(spool: Spool) -> None:
    with pytest.raises(PlanFailure, match="not a lower-case uuid"):
        spool.job("../../etc")


def test_a_spool_that_cannot_be_made_names_itself(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(HostFailure, match="file/spool cannot be used"):
        Spool(tmp_path / "file" / "spool", FakeSystem()).prepare()
