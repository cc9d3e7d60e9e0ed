"""Lock files of a killed server, whose pid belongs to another process by now."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agents.driver import Connection, of


@pytest.mark.parametrize("name", ["pgdata/postmaster.pid", "socket/.s.PGSQL.5432.lock"])
def test_a_private_cluster_starts_despite_a_stale_lock_file(
    agent: Connection, spec: Callable[..., dict[str, Any]], data_dir: Path, name: str
) -> None:
    (ready,) = of(agent.events(agent.submit(spec(time_s=1))), "outcome")
    assert ready["outcome"] == "ok", ready
    home = next(data_dir.glob("*/pgdata")).parent
    owner = (home / "pgdata").stat()
    identity = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    # PostgreSQL takes any process that it may signal for the one that wrote the file.
    other = subprocess.Popen(["sleep", "600"], cwd="/", **identity)  # type: ignore[call-overload]
    stale = home / name
    stale.write_text(f"{other.pid}\n{home}/pgdata\n1\n5432\n{home}/socket\n\n")
    os.chown(stale, owner.st_uid, owner.st_gid)

    (outcome,) = of(agent.events(agent.submit(spec(time_s=1))), "outcome")

    assert outcome["outcome"] == "ok", outcome
    assert other.poll() is None
    other.kill()
    other.wait()
