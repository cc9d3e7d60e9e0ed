"""Processes that a failed test leaves are ended, and the host is restored, before the next test begins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.agents.conftest import Connect, postgres_processes
from tests.session import leftovers


def test_an_active_run_is_ended_with_its_server_and_its_load(
    connect: Connect, spec: Callable[..., dict[str, Any]], data_dir: Path, tmp_path: Path
) -> None:
    agent = connect()
    run = agent.submit(spec(time_s=60))
    agent.events(run, until="measuring")
    assert postgres_processes(data_dir)
    agent.close()

    leftovers.end(connect, tmp_path / "spool", data_dir)

    assert leftovers.processes_of(tmp_path / "spool", data_dir) == []
    assert connect().call("status", run=run)["clean"] is True
