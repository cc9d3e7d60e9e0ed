"""The files that the agent opens and runs as root during a run, by strace, are those of docs/operations/security.md."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.agents.driver import OK, Connection, of
from tests.agents.host.as_root import strace
from tests.agents.host.as_root.strace import Open, Trace
from tests.session.alone import alone

# One worker runs all of these tests, so there is one trace.
pytestmark = [pytest.mark.needs("root", "strace", "fio"), pytest.mark.usefixtures("host_wide")]

DOCUMENT = Path(__file__).parents[4] / "docs/operations/security.md"
ROW = re.compile(r"^\| (executes|reads|writes) \| (.+?) \| .+ \|$", re.MULTILINE)
LOADED = ("/usr/lib/python3", "/usr/lib/locale/", "/usr/lib/x86_64-linux-gnu/", "/usr/lib/aarch64-linux-gnu/")
LOADED += ("/usr/share/zoneinfo/", "/etc/ld.so.cache", "/etc/locale.alias", "/etc/ssl/openssl.cnf")
# Files of these names are read in clusters that belong to other accounts: regular files only, up to a limit.
OF_CLUSTERS = ("PG_VERSION", "postgresql.conf", "postgresql.auto.conf", "postmaster.pid")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> tuple[Path, Path]:
    """The agent's own directories: spool and data_dir."""
    return tmp_path_factory.mktemp("traced") / "spool", data_dir


@pytest.fixture(scope="module")
def trace(program: Path, bin_dir: str, own: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Facts, a run of pgbench and one of fio with settings of the kernel, and their removal."""
    spool, data_dir = own
    output, storage = tmp_path_factory.mktemp("strace") / "output", data_dir / "storage"
    storage.mkdir()  # which the account of the load can enter
    agent = Connection(program, spool, python=["strace", *strace.OPTIONS, "-o", str(output), sys.executable])
    agent.call("facts")
    target = {"kind": "private", "bin_dir": bin_dir, "data_dir": str(data_dir), "os_user": ""}
    settings = {
        "cpu_affinity": {"server": "0"},
        "postgresql": {"shared_buffers": "64MB"},
        "sysctl": {"vm": {"swappiness": 10}},
    }
    load = {"name": "measure", "kind": "pgbench", "options": {"builtin": "select-only", "clients": 2, "time_s": 1}}
    files = {"name": "io", "kind": "fio", "options": {"directory": str(storage), "size": "1m", "runtime_s": 1}}
    spec = {"version": 1, "settings": settings, "collect": {"interval_s": 1, "sources": ["cpu", "memory", "disk"]}}
    pgbench = {**spec, "target": target, "dataset": {"kind": "pgbench", "options": {}}, "steps": [load]}
    allowed = [{"kind": "directory", "path": str(storage)}]
    fio = {**spec, "settings": {}, "target": None, "steps": [files], "allowed_paths": allowed}
    with alone():
        for each in (pgbench, fio):
            run = agent.submit(each)
            assert of(agent.events(run, limit_s=180), "outcome") == [OK]
            agent.call("ack", run=run, manifest=agent.manifest(run)[1])
            agent.call("purge", run=run)
    agent.close()
    return strace.of(output)


def documented(access: str) -> list[str]:
    rows = ROW.findall(DOCUMENT.read_text())
    return [pattern for kind, cell in rows if kind == access for pattern in re.findall(r"`([^`]+)`", cell)]


def outside(paths: Iterable[str], own: tuple[Path, Path]) -> list[str]:
    """The paths outside of the directories of the agent and of this test, without those that a loader reads.

    The directories above those of the agent are left out, too: it checks their owners.
    """
    inside = (*map(str, own), str(own[0].parents[2]), *map(os.path.realpath, (sys.prefix, sys.base_prefix)), *LOADED)
    above = {str(parent) for each in own for parent in each.parents}
    named = {os.path.realpath(path) if path.startswith("/proc/self/") else path for path in paths} - above
    return sorted(re.sub(f"^{tempfile.gettempdir()}\\b", "/tmp", path) for path in named if not path.startswith(inside))


def undocumented(paths: Iterable[str], access: str) -> list[str]:
    patterns = documented(access)
    return [path for path in paths if not any(fnmatch(path, pattern) for pattern in patterns)]


def only_root_changes(path: str) -> bool:
    """Neither the file nor a directory above it can be changed by another account."""
    place = Path(os.path.realpath(path))
    return all(
        each.stat().st_uid == 0 and (not each.stat().st_mode & 0o022 or each.stat().st_mode & 0o1000)
        for each in (place, *place.parents)
    )


def test_root_executes_only_programs_that_root_alone_can_change(trace: Trace) -> None:
    assert trace.executed
    assert [path for path in trace.executed if not only_root_changes(path)] == []


def test_root_executes_only_documented_programs(trace: Trace) -> None:
    assert undocumented(sorted(trace.executed - {sys.executable}), "executes") == []


def test_outside_of_its_directories_root_writes_only_where_the_document_says(
    trace: Trace, own: tuple[Path, Path]
) -> None:
    written = outside((one.path for one in trace.written), own)
    assert any(path == "/proc/sys/vm/swappiness" for path in written)
    assert undocumented(written, "writes") == []


def test_outside_of_its_directories_root_creates_and_removes_only_an_empty_directory_for_scripts(
    trace: Trace, own: tuple[Path, Path]
) -> None:
    mine = (*map(str, own), str(own[0].parent.parent), "/proc/self/fd/")
    temporary = re.compile(rf'^\w+\("{tempfile.gettempdir()}/(proving-ground-scripts-)?\w{{8}}"')
    assert trace.changed
    outside_of_mine = [call for call in trace.changed if not any(path in call for path in mine)]
    assert [call for call in outside_of_mine if not temporary.match(call)] == []


def test_outside_of_its_directories_root_reads_only_documented_files(trace: Trace, own: tuple[Path, Path]) -> None:
    read = outside((one.path for one in trace.read), own)
    assert "/etc/machine-id" in read
    assert undocumented(read, "reads") == []


def test_in_directories_of_another_account_root_follows_no_link(trace: Trace) -> None:
    def is_bounded_read(one: Open) -> bool:
        return one in trace.read and (one.directory or Path(one.path).name in OF_CLUSTERS)

    def is_of_another(path: str) -> bool:
        parent = Path(path).parent
        return (
            parent.exists() and not path.startswith(("/proc/", "/sys/", "/dev/")) and not only_root_changes(str(parent))
        )

    followed = [one for one in (*trace.read, *trace.written) if one.follows and is_of_another(one.path)]

    assert [one.path for one in followed if not is_bounded_read(one)] == []
