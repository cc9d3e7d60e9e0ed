"""Processes that start in a control group: their account, and the cause if one cannot start.

A directory with a file stands for the group; real groups are tested in the lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.errors import HostFailure
from agents.host.system import System
from agents.records.journal import Journal
from agents.records.processes import Account, environment, spawn
from agents.records.spool import Spool

NOBODY = 65534
IDS = "import os; print(os.getresuid(), os.getresgid(), os.getgroups())"


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    spool = Spool(tmp_path / "spool", System())
    spool.prepare()
    return Journal(spool.create({"run": "run-1", "epoch": 1, "digest": "", "spec": {}}), System())


def start(journal: Journal, out: Path, group: Path, account: Account) -> str:
    """Output of a Python that prints its ids."""
    argv = ["/usr/bin/python3", "-I", "-c", IDS]
    with (out / "stdout").open("wb") as stdout, (out / "stderr").open("wb") as stderr:
        child = spawn(
            journal,
            argv,
            purpose="ids",
            account=account,
            env=environment("run-1"),
            stdout=stdout,
            stderr=stderr,
            group=str(group),
        )
    assert child.wait(30.0) == 0, (out / "stderr").read_text()
    return (out / "stdout").read_text().strip()


@pytest.mark.needs("root")
def test_a_process_joins_its_group_as_root_and_then_keeps_no_right_of_root(tmp_path: Path, journal: Journal) -> None:
    (tmp_path / "cgroup.procs").write_text("")
    (tmp_path / "cgroup.procs").chmod(0o600)

    ids = start(journal, tmp_path, tmp_path, Account("nobody", user=NOBODY, group=NOBODY, groups=(NOBODY - 1,)))

    assert (tmp_path / "cgroup.procs").read_text() == "0"
    assert ids == f"{(NOBODY,) * 3} {(NOBODY,) * 3} [{NOBODY - 1}]"


def test_a_process_whose_group_is_missing_does_not_start_and_the_error_names_it(
    tmp_path: Path, journal: Journal
) -> None:
    with pytest.raises(HostFailure, match=r"cannot be started as me: .*No such file.*gone/cgroup\.procs"):
        start(journal, tmp_path, tmp_path / "gone", Account("me"))
