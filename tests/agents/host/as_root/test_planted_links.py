"""While runs work at level root, the account of their load plants links in the directories that belong to it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agents.driver import Connection, of
from tests.lab.accounts import attacks

pytestmark = pytest.mark.needs("root", "fio")
RUNS = 3
ATTACKS = (
    attacks.a_link_in_place_of_the_cluster_files,
    attacks.links_at_names_that_will_be_written,
    attacks.links_in_scratch_directories,
    attacks.directories_swapped_while_they_are_removed,
)
# The attacks of the lab, on the directories of this test. The account itself cannot enter a checkout in root's home.
ATTACK = """
import os, sys
from tests.lab.accounts import attacks
name, account, attacks.CLUSTERS, attacks.CANARY, attacks.CANARIES = sys.argv[1:]
os.setgroups([]); os.setgid(int(account)); os.setuid(int(account))
attacks.main(name, 3600)
"""
# Each has a file that the agent writes into a directory of the load.
STEPS = [
    {"name": "load", "role": "warm", "kind": "pgbench", "options": {"script": "select 1;", "time_s": 1, "rate": 50}},
    {"name": "statements", "role": "warm", "kind": "sql", "options": {"query": "select 1", "times": 2}},
    {"name": "io", "role": "warm", "kind": "fio", "options": {"job_file": "[a]\nrw=write\nsize=1m\n"}},
]


@pytest.fixture
def place() -> Iterator[Path]:
    """clusters/ has the data of runs; precious/ and its files belong to root alone."""
    root = Path(tempfile.mkdtemp(prefix="pg-links-"))
    root.chmod(0o755)
    (root / "precious/below").mkdir(parents=True)
    for name in ("canary", "below/one"):
        (root / "precious" / name).write_text("unchanged")
    yield root
    shutil.rmtree(root)


@contextmanager
def attacked(clusters: Path, account: int, precious: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """All attacks at once, as this account, as fast as they can."""
    arguments = [str(account), str(clusters), str(precious / "canary"), str(precious / "below")]
    argv = [sys.executable, "-c", ATTACK]
    attackers = [subprocess.Popen([*argv, attack.__name__, *arguments]) for attack in ATTACKS]
    try:
        yield attackers
    finally:
        for attacker in attackers:
            attacker.kill()
            attacker.wait()


def files_of(directory: Path) -> dict[str, tuple[str, int]]:
    files = [each for each in directory.rglob("*") if each.is_file()]
    return {str(each.relative_to(directory)): (each.read_text(), each.stat().st_uid) for each in files}


def test_no_link_of_the_load_makes_root_write_or_remove_a_file_of_root(
    agent: Connection, spec: Any, place: Path
) -> None:
    clusters, precious = place / "clusters", place / "precious"
    run_spec = {**spec(), "dataset": None, "steps": STEPS}
    run_spec["target"] = {**run_spec["target"], "data_dir": str(clusters)}
    agent.events(agent.submit(run_spec), limit_s=120)
    account = next(clusters.glob("*/pgdata")).stat().st_uid
    assert account != 0
    before = files_of(precious)

    with attacked(clusters, account, precious) as attackers:
        for _ in range(RUNS):  # the links can make one fail
            assert of(agent.events(agent.submit(run_spec), limit_s=120), "outcome")
        assert [each.poll() for each in attackers] == [None] * len(ATTACKS)

    assert any(each.is_symlink() for each in clusters.rglob("*"))
    assert files_of(precious) == before
