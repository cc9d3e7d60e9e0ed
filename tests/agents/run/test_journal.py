"""The journal restores changes in reverse order, except values that another user has changed since."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.errors import NotApplied
from agents.host.system import System
from agents.records.journal import Journal
from agents.records.spool import Job, read_log
from agents.settings import Write
from tests.agents.fakes import FakeSystem

POOL, THP = "/proc/sys/vm/nr_hugepages", "/sys/kernel/mm/transparent_hugepage/enabled"


@pytest.fixture
def system() -> FakeSystem:
    return FakeSystem({POOL: "5\n", THP: "always [madvise] never\n"})


@pytest.fixture
def reopen(tmp_path: Path, system: FakeSystem) -> Callable[[], Journal]:
    return lambda: Journal(Job(tmp_path, system, lambda: None), system)


def test_the_original_is_on_disk_before_the_value_changes(reopen: Callable[[], Journal], system: FakeSystem) -> None:
    journal = reopen()
    originals = []
    system.kernel = lambda path, text: originals.append(read_log(journal._path)[0][-1]["original"]) or text

    journal.apply("huge_pages", Write(POOL, "100"))

    assert originals == ["5"] and system.files[POOL] == "100"


def test_all_originals_are_on_disk_before_the_first_value_changes_with_one_wait_for_it(
    reopen: Callable[[], Journal], system: FakeSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, writes = reopen(), [("huge_pages", Write(POOL, "100")), ("transparent_huge_pages", Write(THP, "never"))]
    originals, waits = [], []
    system.kernel = lambda path, text: originals.append([r["original"] for r in read_log(journal._path)[0][:2]]) or text
    monkeypatch.setattr("os.fsync", waits.append)
    monkeypatch.setattr("os.fdatasync", waits.append)

    journal.intend(writes)
    for setting, write in writes:
        journal.apply(setting, write)

    assert originals == [["5", "madvise"]] * 2 and len(waits) == 1


def test_a_value_that_was_only_intended_and_that_another_user_changed_is_left(
    reopen: Callable[[], Journal], system: FakeSystem
) -> None:
    other = "/proc/sys/vm/nr_overcommit_hugepages"
    system.files[other] = "0"
    reopen().intend([("huge_pages", Write(POOL, "100")), ("huge_pages", Write(other, "100"))])
    system.files.update({POOL: "40", other: "40"})

    conflicts, _ = reopen().restore()

    # The first may have been under way when the agent died, and the pool grows page by page; the second was not.
    assert system.files[POOL] == "5"
    assert [conflict["key"] for conflict in conflicts] == [other]


def test_a_value_that_an_earlier_write_of_the_run_has_reset_is_written(
    reopen: Callable[[], Journal], system: FakeSystem
) -> None:
    reserve = "/proc/sys/vm/min_free_kbytes"
    system.files[reserve] = "67584"

    def lowers_the_reserve(path: str, text: str) -> str:
        if path == THP:
            system.files[reserve] = "19832"
        return text

    system.kernel, journal = lowers_the_reserve, reopen()
    writes = [("transparent_huge_pages", Write(THP, "never")), ("sysctl", Write(reserve, "67584"))]

    journal.intend(writes)
    for setting, write in writes:
        journal.apply(setting, write)

    assert system.files[reserve] == "67584"


QUEUE = "/sys/block/sda/queue"
SCHEDULER, LENGTH, EXPIRE = f"{QUEUE}/scheduler", f"{QUEUE}/nr_requests", f"{QUEUE}/iosched/read_expire"


@pytest.fixture
def queue(system: FakeSystem) -> FakeSystem:
    """A device whose queue length and scheduler parameter an admin has set."""

    def scheduler(path: str, text: str) -> str:
        if path == SCHEDULER:
            system.files[LENGTH] = "256" if text == "mq-deadline" else "128"
            system.files.pop(EXPIRE, None)
            system.files.update({EXPIRE: "500"} if text == "mq-deadline" else {})
        return text

    system.files.update({SCHEDULER: "mq-deadline", LENGTH: "64", EXPIRE: "200"})
    system.kernel = scheduler
    return system


def switch(scheduler: str = "none") -> Write:
    return Write(SCHEDULER, scheduler, resets=(LENGTH, EXPIRE))


def test_values_that_the_kernel_resets_are_restored_after_their_cause(
    reopen: Callable[[], Journal], queue: FakeSystem
) -> None:
    before = dict(queue.files)
    journal = reopen()
    journal.apply("block_device", switch())
    journal.apply("block_device", Write(LENGTH, "32"))
    assert (queue.files[LENGTH], EXPIRE in queue.files) == ("32", False)

    assert reopen().restore() == ([], [])

    assert queue.files == before


@pytest.mark.parametrize("dies_after", range(1, 4))
def test_values_that_the_kernel_resets_are_restored_by_the_next_process(
    reopen: Callable[[], Journal], queue: FakeSystem, dies_after: int
) -> None:
    before, kernel, writes = dict(queue.files), queue.kernel, []
    journal = reopen()
    journal.apply("block_device", switch())

    def dies(path: str, text: str) -> str:
        writes.append(path)
        if len(writes) > dies_after:
            raise KeyboardInterrupt
        assert kernel
        return kernel(path, text)

    queue.kernel = dies
    with contextlib.suppress(KeyboardInterrupt):
        reopen().restore()
    queue.kernel = kernel

    assert reopen().restore() == ([], [])
    assert queue.files == before


def test_an_edit_of_a_value_that_the_kernel_resets_is_a_conflict(
    reopen: Callable[[], Journal], queue: FakeSystem
) -> None:
    reopen().apply("block_device", switch())
    queue.files[LENGTH] = "99"

    conflicts, unproven = reopen().restore()

    assert [conflict["key"] for conflict in conflicts] == [LENGTH] and unproven == []
    assert queue.files[SCHEDULER] == "mq-deadline"


def test_values_that_the_kernel_resets_are_left_if_their_cause_is_a_conflict(
    reopen: Callable[[], Journal], queue: FakeSystem
) -> None:
    reopen().apply("block_device", switch())
    queue.files.update({SCHEDULER: "kyber", LENGTH: "77"})

    conflicts, unproven = reopen().restore()

    assert {conflict["key"] for conflict in conflicts} == {SCHEDULER, LENGTH, EXPIRE} and unproven == []
    assert (queue.files[SCHEDULER], queue.files[LENGTH]) == ("kyber", "77")


def test_restore_goes_in_reverse_and_twice_is_once(reopen: Callable[[], Journal], system: FakeSystem) -> None:
    reopen().apply("transparent_huge_pages", Write(THP, "never"))
    reopen().apply("huge_pages", Write(POOL, "100"))
    order = []
    system.kernel = lambda path, text: order.append(path) or text

    assert reopen().restore() == ([], [])
    assert reopen().restore() == ([], [])

    assert order == [POOL, THP] and system.files == {POOL: "5", THP: "madvise"}


def test_a_value_that_is_there_already_is_not_touched(reopen: Callable[[], Journal], system: FakeSystem) -> None:
    journal = reopen()

    assert journal.apply("transparent_huge_pages", Write(THP, "madvise")) is None
    assert journal.records == []


def test_a_kernel_that_grants_fewer_is_not_applied_and_restored(
    reopen: Callable[[], Journal], system: FakeSystem
) -> None:
    system.kernel = lambda path, text: str(min(int(text), 60))
    journal = reopen()

    with pytest.raises(NotApplied) as failure:
        journal.apply("huge_pages", Write(POOL, "100", settle_s=5.0))

    assert (failure.value.details["wanted"], failure.value.details["found"]) == (f"{POOL} = 100", "60")
    assert system.now < 5.0  # steady for long enough, not for all of the time
    assert reopen().restore() == ([], []) and system.files[POOL] == "5"


def test_a_kernel_that_needs_time_is_waited_for(reopen: Callable[[], Journal], system: FakeSystem) -> None:
    def slow(seconds: float) -> None:
        system.now += seconds
        system.files[POOL] = str(min(100, int(system.files[POOL]) + 20))

    system.kernel = lambda path, text: "20"
    system.sleep = slow  # type: ignore[method-assign]

    entry = reopen().apply("huge_pages", Write(POOL, "100", settle_s=5.0))

    assert entry and entry["found"] == "100"


def test_a_value_that_another_user_changed_is_left_and_reported(
    reopen: Callable[[], Journal], system: FakeSystem
) -> None:
    reopen().apply("huge_pages", Write(POOL, "100"))
    system.files[POOL] = "777"

    conflicts, unproven = reopen().restore()

    assert conflicts == [{"key": POOL, "original": "5", "ours": "100", "found": "777"}]
    assert unproven == [] and system.files[POOL] == "777"


def test_a_value_of_the_run_is_never_recorded_as_the_original(
    reopen: Callable[[], Journal], system: FakeSystem
) -> None:
    reopen().apply("huge_pages", Write(POOL, "100"))
    reopen().apply("huge_pages", Write(POOL, "200"))

    reopen().restore()

    assert system.files[POOL] == "5"


def test_a_value_that_does_not_go_back_is_unproven(reopen: Callable[[], Journal], system: FakeSystem) -> None:
    reopen().apply("huge_pages", Write(POOL, "100"))
    system.kernel = lambda path, text: "100"

    conflicts, unproven = reopen().restore()

    assert conflicts == [] and unproven == [f"{POOL} is 100, was 5"]
    assert len(reopen().open_writes()) == 1  # still on the list for the next try


@pytest.mark.parametrize(("current", "back"), [("40", "5"), ("3", "3"), ("101", "101")])
def test_after_a_kill_between_write_and_mark_a_value_up_to_the_target_is_restored(
    reopen: Callable[[], Journal], system: FakeSystem, current: str, back: str
) -> None:
    journal = reopen()
    journal._append(entry="write", setting="huge_pages", key=POOL, original="5", wanted="100", persistence="runtime")
    system.files[POOL] = current

    reopen().restore()

    assert system.files[POOL] == back


RATIO, BYTES = "/proc/sys/vm/dirty_ratio", "/proc/sys/vm/dirty_bytes"


@pytest.mark.parametrize(("written", "cleared"), [(BYTES, RATIO), (RATIO, BYTES)])
def test_a_value_that_the_kernel_clears_with_another_is_restored_with_it(
    tmp_path: Path, written: str, cleared: str
) -> None:
    system = FakeSystem({written: "0", cleared: "20"})

    def either_or(path: str, text: str) -> str:
        if text == "0":
            raise OSError(22, "Invalid argument", path)
        system.files[cleared if path == written else written] = "0"
        return text

    system.kernel = either_or
    journal = Journal(Job(tmp_path, system, lambda: None), system)

    journal.apply("sysctl", Write(written, "4096", also={cleared: "0"}))
    assert system.files == {written: "4096", cleared: "0"}

    assert Journal(Job(tmp_path, system, lambda: None), system).restore() == ([], [])
    assert system.files == {written: "0", cleared: "20"}


@pytest.fixture
def real(tmp_path: Path) -> Callable[[], Journal]:
    return lambda: Journal(Job(tmp_path, System(), lambda: None), System())


@pytest.mark.parametrize("before", [None, "# by hand\n"])
def test_a_written_file_is_replaced_by_the_original_or_removed(
    real: Callable[[], Journal], tmp_path: Path, before: str | None
) -> None:
    path = tmp_path / "proving_ground.conf"
    if before:
        path.write_text(before)

    real().put_file("postgresql", str(path), "work_mem = '8MB'\n")
    assert path.read_text() == "work_mem = '8MB'\n"

    assert real().restore() == ([], [])
    assert (path.read_text() if path.exists() else None) == before


def test_a_file_that_an_admin_edited_meanwhile_is_left_to_him(real: Callable[[], Journal], tmp_path: Path) -> None:
    path = tmp_path / "proving_ground.conf"
    real().put_file("postgresql", str(path), "work_mem = '8MB'\n")
    path.write_text("work_mem = '9MB'\n")

    conflicts, unproven = real().restore()

    assert [conflict["found"] for conflict in conflicts] == ["work_mem = '9MB'\n"] and unproven == []
    assert path.read_text() == "work_mem = '9MB'\n"


QUEUE = "/sys/block/sda/queue/nr_requests"
SCHEDULER = "/sys/block/sda/queue/scheduler"


def block_device(path: str, text: str, files: dict[str, str]) -> str:
    """A scheduler begins with a queue of its own; with none of them it takes no more than 128 requests."""
    if path == SCHEDULER:
        files[QUEUE] = "128" if text == "none" else "200"
        return text
    if files[SCHEDULER] == "none" and int(text) > 128:
        raise OSError(22, "Invalid argument", path)
    return text


@pytest.mark.parametrize("written", [0, 1, 2])
def test_a_value_that_depends_on_its_scheduler_is_restored_after_a_kill_at_any_boundary(
    reopen: Callable[[], Journal], system: FakeSystem, written: int
) -> None:
    system.files.update({QUEUE: "256", SCHEDULER: "mq-deadline"})
    system.kernel = lambda path, text: block_device(path, text, system.files)
    writes = [("block_device", Write(SCHEDULER, "none", resets=(QUEUE,))), ("block_device", Write(QUEUE, "64"))]
    journal = reopen()
    journal.intend(writes)
    for setting, write in writes[:written]:
        journal.apply(setting, write)

    assert reopen().restore() == ([], [])
    assert (system.files[SCHEDULER], system.files[QUEUE]) == ("mq-deadline", "256")


def test_a_scheduler_written_but_not_marked_is_not_a_conflict(
    reopen: Callable[[], Journal], system: FakeSystem
) -> None:
    system.files.update({QUEUE: "256", SCHEDULER: "mq-deadline"})
    system.kernel = lambda path, text: block_device(path, text, system.files)
    reopen().intend([("block_device", Write(SCHEDULER, "none", resets=(QUEUE,))), ("block_device", Write(QUEUE, "64"))])
    system.write(SCHEDULER, "none")

    assert reopen().restore() == ([], [])
    assert (system.files[SCHEDULER], system.files[QUEUE]) == ("mq-deadline", "256")


@pytest.mark.parametrize("undoing", [True, False])
def test_a_restore_that_died_after_the_scheduler_continues_with_its_queue(
    reopen: Callable[[], Journal], system: FakeSystem, undoing: bool
) -> None:
    system.files.update({QUEUE: "256", SCHEDULER: "mq-deadline"})
    system.kernel = lambda path, text: block_device(path, text, system.files)
    reopen().apply("block_device", Write(SCHEDULER, "none", resets=(QUEUE,)))
    if undoing:
        reopen()._append(entry="undoing", cause=SCHEDULER)
    system.write(SCHEDULER, "mq-deadline")

    conflicts, unproven = reopen().restore()

    # Without the record, another user changed the scheduler, so the queue is left as it is.
    assert unproven == [] and len(conflicts) == (0 if undoing else 1)
    assert system.files[QUEUE] == ("256" if undoing else "200")
