"""Links, FIFOs and races that an account plants in its own directories do not mislead root."""

from __future__ import annotations

import ast
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.host import owned
from agents.records import journal, spool
from tests.agents.driver import OK, Connection, of

AGENTS = Path(owned.__file__).parents[1]
NOBODY = 65534
TRIES = 400
pytestmark = [pytest.mark.fast, pytest.mark.needs("root")]


@pytest.fixture
def place() -> Iterator[Path]:
    """theirs/ belongs to another account; precious/ and its file to root alone."""
    root = Path(tempfile.mkdtemp(prefix="pg-owned-"))
    root.chmod(0o755)
    (root / "theirs").mkdir()
    (root / "precious").mkdir()
    (root / "precious/shadow").write_text("secret")
    os.chown(root / "theirs", NOBODY, NOBODY)
    yield root
    shutil.rmtree(root)


def plant(link: Path, to: Path) -> None:
    link.symlink_to(to)
    os.lchown(link, NOBODY, NOBODY)


def contents(directory: Path) -> dict[str, tuple[str, int]]:
    return {each.name: (each.read_text(), each.stat().st_uid) for each in directory.iterdir()}


ACTS: dict[str, Callable[[Path], Any]] = {
    "replace": lambda path: owned.replace(path, b"ours", (NOBODY, NOBODY)),
    "create": lambda path: owned.create(path, b"ours", (NOBODY, NOBODY), 0o644),
    "append": lambda path: owned.append(path, b"ours"),
    "read": owned.read,
    "opened": lambda path: owned.opened(path, os.O_WRONLY),
    "make_directory": lambda path: owned.make_directory(path, (NOBODY, NOBODY)),
    "make_directories": owned.make_directories,
    "remove": owned.remove,
    "remove_tree": owned.remove_tree,
    "rename": lambda path: owned.rename(path, "other"),
    "journal": lambda path: journal._replace(str(path), "ours", (NOBODY, NOBODY)),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_link_in_the_place_of_a_directory_is_not_followed(place: Path, act: str) -> None:
    plant(place / "theirs/pgdata", place / "precious")

    with pytest.raises(OSError, match="another account can change a link"):
        ACTS[act](place / "theirs/pgdata/shadow")

    assert contents(place / "precious") == {"shadow": ("secret", 0)}


@pytest.mark.parametrize(
    "act", ["create", "append", "read", "opened", "make_directory", "make_directories", "remove_tree"]
)
def test_a_link_in_the_place_of_a_file_is_refused(place: Path, act: str) -> None:
    plant(place / "theirs/file", place / "precious/shadow")

    with pytest.raises(OSError):
        ACTS[act](place / "theirs/file")

    assert contents(place / "precious") == {"shadow": ("secret", 0)}


@pytest.mark.parametrize("name", ["file", "file.new"])
def test_a_link_that_is_replaced_is_replaced_itself(place: Path, name: str) -> None:
    plant(place / f"theirs/{name}", place / "precious/shadow")

    owned.replace(place / "theirs/file", b"ours", (NOBODY, NOBODY))

    assert contents(place / "precious") == {"shadow": ("secret", 0)}
    assert contents(place / "theirs") == {"file": ("ours", NOBODY)}


def test_another_name_of_a_file_of_root_is_neither_read_nor_taken(place: Path) -> None:
    os.link(place / "precious/shadow", place / "theirs/log")

    with pytest.raises(OSError, match="one name"):
        owned.read(place / "theirs/log")
    assert not owned.take(place / "theirs/log", place / "taken") and not (place / "taken").exists()


@pytest.fixture(params=["same", pytest.param("other", marks=pytest.mark.needs("tmpfs"))])
def source(request: pytest.FixtureRequest, place: Path) -> Iterator[Path]:
    """A directory of another account, in the file system of `place` or in another one."""
    if request.param == "same":
        yield place / "theirs"
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        yield Path(elsewhere)


@pytest.mark.parametrize("kind", ["link", "fifo", "directory", "hard link", "nothing"])
def test_only_a_regular_file_with_one_name_is_taken(place: Path, source: Path, kind: str) -> None:
    made = source / "log"
    make: dict[str, Callable[[], Any]] = {
        "link": lambda: plant(made, place / "precious/shadow"),
        "fifo": lambda: os.mkfifo(made),
        "directory": made.mkdir,
        "hard link": lambda: ((source / "one").touch(), os.link(source / "one", made)),
        "nothing": lambda: None,
    }
    make[kind]()

    assert not owned.take(made, place / "taken")
    assert not os.path.lexists(place / "taken")
    assert contents(place / "precious") == {"shadow": ("secret", 0)}


def test_a_regular_file_is_taken(place: Path, source: Path) -> None:
    (source / "log").write_text("figures")

    assert owned.take(source / "log", place / "taken")

    assert (place / "taken").read_text() == "figures" and not (source / "log").exists()


def test_missing_parents_are_created(place: Path) -> None:
    for _ in range(2):  # the second time they exist
        owned.make_directories(f"{place}/theirs/a/b/")

    assert (place / "theirs/a/b").is_dir()


def test_a_link_to_nothing_does_not_become_a_directory(place: Path) -> None:
    plant(place / "theirs/a", place / "precious/new")

    with pytest.raises(FileExistsError):
        owned.make_directories(place / "theirs/a/b")

    assert contents(place / "precious") == {"shadow": ("secret", 0)}


def test_remove_tree_removes_all_that_it_can_when_it_ignores_errors(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, unlink = place / "theirs/tree", os.unlink
    tree.mkdir()
    for name in ("a", "b", "c"):
        (tree / name).touch()

    def refuse(path: str, **options: Any) -> None:
        if path == "b":
            raise PermissionError(path)
        unlink(path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refuse)
        with pytest.raises(PermissionError):
            owned.remove_tree(tree)
        owned.remove_tree(tree, ignore_errors=True)
    owned.remove_tree(place / "nowhere/tree", ignore_errors=True)

    assert [each.name for each in tree.iterdir()] == ["b"]


def test_a_fifo_does_not_stop_the_agent(place: Path) -> None:
    os.mkfifo(place / "theirs/datasets.json")

    with pytest.raises(OSError, match="regular file"):
        owned.read(place / "theirs/datasets.json")


def test_links_that_lend_nothing_are_followed(place: Path) -> None:
    (place / "theirs/real").mkdir()
    os.chown(place / "theirs/real", NOBODY, NOBODY)
    plant(place / "theirs/own", place / "theirs/real")
    (place / "of_root").symlink_to("theirs")

    owned.create(place / "theirs/own/a", b"1")
    owned.create(place / "of_root/b", b"2")

    assert (place / "theirs/real/a").read_text() == "1" and (place / "theirs/b").read_text() == "2"


# Swaps a directory and a link to where root alone may write, as fast as it can.
SWAP = """
import os, sys
real, aside, to = sys.argv[1:]
os.setgid(65534); os.setuid(65534)
print("ready", flush=True)
while True:
    os.rename(real, aside); os.symlink(to, real)
    os.unlink(real); os.rename(aside, real)
"""


@pytest.fixture
def swapped(place: Path) -> Iterator[Path]:
    real = place / "theirs/pgdata"
    real.mkdir()
    os.chown(real, NOBODY, NOBODY)
    argv = [sys.executable, "-c", SWAP, str(real), str(place / "theirs/aside"), str(place / "precious")]
    watcher = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert watcher.stdout and watcher.stdout.readline()
    yield real
    watcher.send_signal(signal.SIGKILL)
    watcher.wait()


def lost(place: Path, act: Callable[[Path], Any], tries: int) -> int:
    """At which try root wrote where only root may; 0 for never."""
    for number in range(1, tries + 1):
        try:
            act(place / "theirs/pgdata" / f"proving_ground.{number}")
        except OSError:
            continue
        if contents(place / "precious") != {"shadow": ("secret", 0)}:
            return number
    return 0


def test_a_race_is_never_won(place: Path, swapped: Path) -> None:
    for name in ("replace", "create", "make_directory", "journal"):
        assert lost(place, ACTS[name], TRIES) == 0, name


def test_the_same_race_is_won_against_a_plain_write(place: Path, swapped: Path) -> None:
    """So that the test before this one proves something."""
    assert lost(place, lambda path: spool.replace(path, b"ours"), 20 * TRIES) > 0


def test_a_link_in_place_of_pgdata_gets_no_file_of_roots(agent: Connection, spec: Any, place: Path) -> None:
    run_spec = {**spec(time_s=1), "dataset": None}
    run_spec["target"] = {**run_spec["target"], "data_dir": str(place / "clusters")}
    run_spec["steps"] = [{"name": "q", "kind": "sql", "options": {"statements": "select 1"}}]
    first = agent.events(agent.submit(run_spec), limit_s=120)
    assert of(first, "outcome") == [OK]
    pgdata = next((place / "clusters").glob("*/pgdata"))
    account = pgdata.stat().st_uid
    shutil.move(pgdata, place / "precious/pgdata")
    os.chown(place / "precious/pgdata", 0, 0)
    (place / "precious/pgdata/proving_ground.conf").unlink()
    pgdata.symlink_to(place / "precious/pgdata")
    os.lchown(pgdata, account, account)

    second = agent.events(agent.submit(run_spec), limit_s=120)

    # Below a directory that only root may enter, the cluster has no account of its own: then the link is root's.
    ending = of(second, "outcome")[0]
    assert ending["outcome"] == ("failed" if account else "ok")
    assert not account or "another account" in ending["error"]["message"]
    assert not account or not (place / "precious/pgdata/proving_ground.conf").exists()


def test_a_data_directory_below_a_planted_link_is_not_created(agent: Connection, spec: Any, place: Path) -> None:
    plant(place / "theirs/fast", place / "precious")
    run_spec = {**spec(time_s=1), "dataset": None}
    run_spec["target"] = {**run_spec["target"], "data_dir": str(place / "theirs/fast/clusters")}
    run_spec["steps"] = [{"name": "q", "kind": "sql", "options": {"statements": "select 1"}}]

    (outcome,) = of(agent.events(agent.submit(run_spec), limit_s=120), "outcome")

    assert "another account can change a link" in outcome["error"]["message"]
    assert contents(place / "precious") == {"shadow": ("secret", 0)}


# What writes, renames, removes or gives away by a path, outside owned.py: in the spool, which is root's alone,
# in directories of the system, or to devices and files of the kernel.
ALLOWED = {
    "build.py": 1,
    "facts/tools.py": 2,
    "host/devices.py": 1,
    "host/system.py": 3,
    "launcher.py": 3,
    "measure/stage.py": 3,
    "measure/tracer.py": 2,
    "postgres/cluster.py": 1,
    "postgres/service.py": 2,
    "records/spool.py": 9,
    "recovery/control_group.py": 1,
    "recovery/units.py": 2,
    "run/collecting.py": 1,
    "run/launching.py": 2,
    "workloads/fio.py": 2,
    "workloads/pgbench.py": 2,
}
WRITING = {"write_text", "write_bytes", "touch", "symlink_to"}
OF_OS = {"chown", "lchown", "rename", "replace", "link", "symlink", "truncate"}
OF_SHUTIL = {"chown", "move", "rmtree", "copy", "copy2", "copyfile", "copytree"}
FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND", "O_TRUNC"}


def writes(call: ast.Call) -> bool:
    name, of = call.func, ""
    if isinstance(name, ast.Name):
        called = name.id
    elif isinstance(name, ast.Attribute):
        called, of = name.attr, name.value.id if isinstance(name.value, ast.Name) else "?"
    else:
        return False
    if of == "os" and called == "open":
        return any(isinstance(each, ast.Attribute) and each.attr in FLAGS for each in ast.walk(call))
    if called == "open":
        modes = [
            each.value for each in ast.walk(call) if isinstance(each, ast.Constant) and isinstance(each.value, str)
        ]
        return any(set(mode) & set("wax+") and set(mode) <= set("rwaxbt+") for mode in modes)
    return called in WRITING or (of == "os" and called in OF_OS) or (of == "shutil" and called in OF_SHUTIL)


def test_no_other_module_writes_by_a_path() -> None:
    counts = Counter[str]()
    for path in sorted(AGENTS.rglob("*.py")):
        calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        counts[str(path.relative_to(AGENTS))] += sum(map(writes, calls))

    del counts["host/owned.py"]
    assert {name: count for name, count in counts.items() if count} == ALLOWED
