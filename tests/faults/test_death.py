"""Processes of a run that die, detach, or whose pid is reused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from tempfile import NamedTemporaryFile

from tests.agents.driver import OK, of
from tests.faults.counts.ledger import Ledger, often
from tests.faults.injection.struck import Field, wait

SEED = 22
VERSION_1 = Path("/sys/fs/cgroup/memory")
GROUP = VERSION_1 if VERSION_1.is_dir() else Path("/sys/fs/cgroup")
LIMIT_FILE = "memory.limit_in_bytes" if VERSION_1.is_dir() else "memory.max"
EVENTS = "memory.oom_control" if VERSION_1.is_dir() else "memory.events"
LIMIT_BYTES = 64 << 20
# Fills a file in memory, which counts for its cgroup and for no process, until the kernel has killed the victim; then
# it is the next.
HOG = """
import os, sys
group, victim, path = sys.argv[1:]
open(group + "/cgroup.procs", "w").write(str(os.getpid()))
with open(path, "wb", buffering=0) as file:
    while open("/proc/%s/stat" % victim).read().rpartition(")")[2].split()[0] not in "ZX":
        file.write(b"x" * (1 << 16))
"""
# Of pgbench and of a backend that waits for its next command: which of them a client hears first is chance.
CONNECTION_LOST = ("perhaps the backend died", "unexpected postmaster exit")


@contextmanager
def memory_group(name: str) -> Iterator[Path]:
    """A memory cgroup of little memory."""
    group = GROUP / f"proving-ground-{name}-{os.getpid()}"
    group.mkdir()
    try:
        (group / LIMIT_FILE).write_text(str(LIMIT_BYTES))
        yield group
    finally:
        wait(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def run_out_of_memory(victim: int) -> None:
    """The kernel's OOM killer kills the victim, for it is the process of its cgroup that is liked least."""
    Path(f"/proc/{victim}/oom_score_adj").write_text("1000")
    with memory_group(str(victim)) as group:
        (group / "cgroup.procs").write_text(str(victim))
        with NamedTemporaryFile(dir="/dev/shm") as file:
            argv = [sys.executable, "-I", "-c", HOG, str(group), str(victim), file.name]
            subprocess.run(argv, check=False, timeout=60, stderr=subprocess.DEVNULL)
        assert "oom_kill 0" not in (group / EVENTS).read_text()


VICTIMS: dict[str, Callable[[Field, str], int]] = {
    "pgbench": lambda here, run: here.child(run, "measure"),
    "postmaster": lambda here, run: here.child(run, "postgres"),
    "supervisor": lambda here, run: here.supervisor(run),
}


@often(5)
def test_the_oom_killer_takes_a_part_of_a_run(here: Field, ledger: Ledger, times: int) -> None:
    agent, chance = here.connect(), Random(SEED)
    agent.events(agent.submit(here.pgbench(1)))
    before, runs = here.take_snapshot(), []
    for victim in [*VICTIMS] * times:
        runs.append(agent.submit(here.pgbench(60)))
        agent.events(runs[-1], until="measuring")
        time.sleep(chance.uniform(0, 1))

        run_out_of_memory(VICTIMS[victim](here, runs[-1]))

        (outcome,) = of(agent.events(runs[-1]), "outcome")
        expected = {"supervisor": ("interrupted", "host")}.get(victim, ("failed", "workload"))
        assert (outcome["outcome"], outcome["error"]["blame"]) == expected, (victim, outcome)
    here.reckon(ledger, 22, before, *runs)


@often(10)
def test_a_postmaster_is_killed_while_its_backends_are_busy(here: Field, ledger: Ledger, times: int) -> None:
    agent, chance = here.connect(), Random(SEED)
    agent.events(agent.submit(here.pgbench(1)))
    before, runs = here.take_snapshot(), []
    for _ in range(times):
        busy = here.pgbench(60, script="select count(*) from generate_series(1, 3000000);", clients=4)
        runs.append(agent.submit(busy))
        agent.events(runs[-1], until="measuring")
        postmaster = here.child(runs[-1], "postgres")
        wait(lambda pid=postmaster: len([p for p in here.at_work(pid) if p.state == "R"]) > 1)  # type: ignore[misc]
        time.sleep(chance.uniform(0, 0.5))

        os.kill(postmaster, signal.SIGKILL)

        (outcome,) = of(agent.events(runs[-1]), "outcome")
        stderr = outcome["error"]["stderr"]
        assert outcome["outcome"] == "failed" and any(message in stderr for message in CONNECTION_LOST), outcome
    here.reckon(ledger, 23, before, *runs)
    assert of(agent.events(agent.submit(here.pgbench(1))), "outcome") == [OK]


@often(10)
def test_a_reused_pid_of_another_process_is_not_killed(here: Field, ledger: Ledger, times: int) -> None:
    agent = here.connect()
    agent.events(agent.submit(here.pgbench(1)))
    before, runs = here.take_snapshot(), []
    for _ in range(times):
        runs.append(agent.submit(here.pgbench(60)))
        agent.events(runs[-1], until="measuring")
        numbers = [here.supervisor(runs[-1]), here.child(runs[-1], "postgres"), here.child(runs[-1], "measure")]
        workers = [process.pid for process in here.at_work(numbers[1])]
        for pid in [*numbers, *workers]:
            with suppress(ProcessLookupError):  # a worker or the load may end with the one before
                os.kill(pid, signal.SIGKILL)
        wait(lambda pids=numbers: not any(os.path.exists(f"/proc/{pid}") for pid in pids))  # type: ignore[misc]
        with holding(numbers) as others:
            (outcome,) = of(here.connect().events(runs[-1]), "outcome")

            assert outcome["outcome"] == "interrupted"
            assert [other.poll() for other in others] == [None] * 3
            assert of(agent.events(agent.submit(here.pgbench(1))), "outcome") == [OK]
            assert [other.poll() for other in others] == [None] * 3
    here.reckon(ledger, 24, before, *runs)


@contextmanager
def holding(numbers: list[int]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Unrelated processes with these pids, ended afterwards."""
    others: list[subprocess.Popen[bytes]] = []
    try:
        others += map(somebody_else, numbers)
        yield others
    finally:
        for other in others:
            other.kill()
            other.wait()


def somebody_else(pid: int) -> subprocess.Popen[bytes]:
    """A process with this very PID, leader of its group: the kernel counts on from the PID that is set."""
    for _ in range(500):
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        process = subprocess.Popen(["sleep", "300"], start_new_session=True)
        if process.pid == pid:
            return process
        process.kill()
        process.wait()
    raise AssertionError(f"{pid} was not to be had")


# A command's child that goes away for good: another session, no parent, and in one case not even the run's mark.
ESCAPES = {
    "with the mark": "setsid sleep 300 > /dev/null 2>&1 &",
    "without it": "setsid env -i sleep 301 > /dev/null 2>&1 &",
    "from another directory": "cd / && setsid env -i sleep 301 > /dev/null 2>&1 &",
}


@often(5)
def test_a_child_that_forked_twice_ends_with_the_run_that_is_cancelled(here: Field, ledger: Ledger, times: int) -> None:
    agent, chance = here.connect(), Random(SEED)
    agent.events(agent.submit(here.pgbench(1)))
    before, runs = here.take_snapshot(), []
    for escape in [*ESCAPES.values()] * times:
        runs.append(agent.submit(here.command("sh", "-c", f"{escape} sleep 60")))
        agent.events(runs[-1], until="measuring")
        wait(lambda: bool(escaped()))
        time.sleep(chance.uniform(0, 0.5))

        agent.call("cancel", run=runs[-1])

        outcome = of(agent.events(runs[-1]), "outcome")[0]
        assert outcome["outcome"] == "cancelled", outcome["error"]
        assert escaped() == [], escape
    here.reckon(ledger, 28, before, *runs)


def escaped() -> list[int]:
    """PIDs of the processes that the scripts above have started."""
    pids = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            argv = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        pids += [int(name)] if argv in (b"sleep\x00300\x00", b"sleep\x00301\x00") else []
    return pids
