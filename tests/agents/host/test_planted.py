"""Root neither runs nor waits for files that a local account plants on a host."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.facts.clusters import MOST, clusters
from agents.facts.tools import Versions
from agents.host.system import System
from agents.postgres.instance import Instance
from agents.records.processes import Account
from agents.settings.cache import files_below

pytestmark = [pytest.mark.needs("root"), pytest.mark.fast]
MALLORY, OTHER = 54321, 54322
# Says a version, and leaves the uid that it ran with.
PROGRAM = """#!/bin/sh
id -u > {mark}
echo 'postgres (PostgreSQL) 16.4'
"""


@pytest.fixture
def planted() -> Iterator[Path]:
    """A program named postgres that Mallory owns, in Mallory's directory below /tmp."""
    root = Path(tempfile.mkdtemp(prefix="planted-"))
    root.chmod(0o755)
    program = root / "postgres"
    program.write_text(PROGRAM.format(mark=root / "ran"))
    program.chmod(0o755)
    os.chown(root, MALLORY, MALLORY)
    os.chown(program, MALLORY, MALLORY)
    yield program
    shutil.rmtree(root)


def ran_as(program: Path) -> str:
    """The uid that it ran with; "" when it did not run."""
    mark = program.with_name("ran")
    return mark.read_text().strip() if mark.exists() else ""


def test_the_version_of_a_program_of_an_account_is_read_as_that_account(planted: Path) -> None:
    version = Versions(System()).of(str(planted))

    assert (version, ran_as(planted)) == ("16.4", str(MALLORY))


def test_a_program_that_two_accounts_can_change_is_not_run(planted: Path) -> None:
    os.chown(planted, OTHER, OTHER)

    version = Versions(System()).of(str(planted))

    assert (version, ran_as(planted)) == ("", "")


@pytest.mark.parametrize("name", ["postgres", "."], ids=["the program", "its directory"])
def test_a_program_that_any_user_can_change_is_not_run(planted: Path, name: str) -> None:
    (planted.parent / name).chmod(0o777)

    version = Versions(System()).of(str(planted))

    assert (version, ran_as(planted)) == ("", "")


def test_a_link_to_a_program_of_root_is_followed_as_the_owner_of_the_link(planted: Path) -> None:
    """Mallory could lead it elsewhere between a check and the start."""
    planted.unlink()
    planted.symlink_to("/bin/true")

    assert System().identity(str(planted)) == {"user": MALLORY, "group": 65534, "groups": ()}


def test_a_cluster_asks_its_server_for_the_version_as_its_own_account(planted: Path) -> None:
    account = Account("mallory", user=MALLORY, group=MALLORY)

    cluster = Instance(System(), str(planted.parent), account)

    assert (cluster.version, ran_as(planted)) == ("16.4", str(MALLORY))


@pytest.fixture
def postmaster(planted: Path) -> Iterator[Path]:
    """A process of Mallory's that calls itself postgres, with its own directory as working directory."""
    shutil.copy(shutil.which("sleep") or "", planted)
    (planted.parent / "PG_VERSION").write_text("16\n")
    process = subprocess.Popen([planted, "60"], cwd=planted.parent, user=MALLORY, group=MALLORY, extra_groups=[])
    yield planted.parent / "postmaster.pid"
    process.kill()
    process.wait()


@pytest.mark.parametrize("port", ["\u00b2", "9" * 5000, "-1", "5432 5433"])
def test_a_port_that_is_no_number_costs_no_other_fact(postmaster: Path, port: str) -> None:
    pid = pid_in(postmaster.parent)
    postmaster.write_text(f"{pid}\n{postmaster.parent}\n1\n{port}\n")

    ports = {cluster["data_dir"]: cluster["port"] for cluster in clusters(System(), [])}

    assert ports[str(postmaster.parent)] == 5432


def test_clusters_that_anybody_can_start_leave_room_for_those_of_the_host(planted: Path) -> None:
    given = planted.parent / "z"
    given.mkdir()
    (given / "PG_VERSION").write_text("16\n")
    shutil.copy(shutil.which("sleep") or "", planted)
    processes = [start_in(planted.parent / f"{number:03}", planted) for number in range(MOST + 10)]

    listed = [cluster["data_dir"] for cluster in clusters(System(), [], [str(given)])]

    for process in processes:
        process.kill()
        process.wait()
    # Clusters of other tests may end while they are listed.
    assert MOST - 10 <= len(listed) <= MOST and str(given) in listed


def test_a_cluster_with_an_endless_path_is_left_out(postmaster: Path) -> None:
    pid = pid_in(postmaster.parent)
    postmaster.write_text(f"{pid}\n")
    (postmaster.parent / "postgresql.conf").write_text(f"include_dir = '{'x' * 10_000_000}'\n")

    assert str(postmaster.parent) not in [cluster["data_dir"] for cluster in clusters(System(), [])]


def pid_in(directory: Path) -> int:
    """The process that works in the directory."""
    return next(
        int(cwd.parent.name) for cwd in Path("/proc").glob("[0-9]*/cwd") if os.path.realpath(cwd) == str(directory)
    )


def start_in(directory: Path, program: Path) -> subprocess.Popen[bytes]:
    """A process of Mallory's that looks like the postmaster of a cluster in the directory."""
    directory.mkdir()
    (directory / "PG_VERSION").write_text("16\n")
    process = subprocess.Popen([program, "60"], cwd=directory, user=MALLORY, group=MALLORY, extra_groups=[])
    (directory / "postmaster.pid").write_text(f"{process.pid}\n")
    return process


def test_a_link_that_leads_back_up_lists_no_file_twice(planted: Path) -> None:
    for name in ("a", "b"):
        planted.with_name(name).symlink_to(".")

    assert files_below(str(planted.parent)) == [str(planted)]


@pytest.mark.parametrize("path", ["/sys/../dev/zero", "/proc/sys/../../dev/zero", "/proc/self/root/dev/zero"])
def test_no_way_through_files_of_the_kernel_leads_to_a_device(path: str) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        System().read(path)


def test_a_fifo_as_lock_file_does_not_stop_the_agent(postmaster: Path) -> None:
    os.mkfifo(postmaster)

    data_dirs = [cluster["data_dir"] for cluster in clusters(System(), [])]

    assert str(postmaster.parent) not in data_dirs


# Of a process that leads a session without a terminal, as a daemon does. Prints what it gained.
READS = """
import os, sys
from agents.host.system import System
try:
    getattr(System(), sys.argv[1])(sys.argv[2])
except OSError as error:
    print(error.strerror, end="; ")
try:
    os.open("/dev/tty", os.O_RDONLY)
    print("has a terminal")
except OSError as error:
    print("has no terminal")
"""


@pytest.mark.parametrize("read", ["read", "in_page_cache", "drop_from_page_cache"])
def test_a_link_to_a_terminal_does_not_become_the_terminal_of_the_agent(planted: Path, read: str) -> None:
    """Its owner could end the agent by typing ^C."""
    master, terminal = pty.openpty()
    lock = planted.with_name("postmaster.pid")
    lock.symlink_to(os.ttyname(terminal))

    shown = subprocess.run(
        [sys.executable, "-c", READS, read, lock], start_new_session=True, capture_output=True, text=True, check=True
    )

    os.close(master), os.close(terminal)
    assert shown.stdout == "not a regular file; has no terminal\n"


@pytest.mark.needs("strace")
def test_a_device_in_place_of_a_file_is_not_opened(planted: Path, tmp_path: Path) -> None:
    """Opening a watchdog starts it."""
    lock, log = planted.with_name("postmaster.pid"), tmp_path / "log"
    lock.symlink_to("/dev/zero")

    subprocess.run(["strace", "-o", log, sys.executable, "-c", READS, "read", lock], capture_output=True, check=True)

    opened = [line for line in log.read_text().splitlines() if str(lock) in line and line.startswith("open")]
    assert opened and all("O_PATH" in line for line in opened)


def test_a_file_without_end_is_refused(tmp_path: Path) -> None:
    sparse = tmp_path / "postgresql.conf"
    with sparse.open("wb") as file:
        file.truncate(1 << 34)

    with pytest.raises(OSError, match="larger than 64 MiB"):
        System().read(str(sparse))
