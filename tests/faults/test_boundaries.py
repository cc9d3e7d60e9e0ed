"""SIGKILL of the agent at every boundary of its journal, for every setting: the next contact restores everything.

A boundary lies before and after each record of the journal and each write to the host: the original is on disk but
the value is not written yet, it is written but not marked, PostgreSQL was forked but does not run yet, and so on. What
"all of it" means is a snapshot of everything that could be left changed, in tests/servers/snapshot.py.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.errors import Unplannable
from agents.settings import SETTINGS
from tests.faults.counts import document
from tests.faults.counts.ledger import load
from tests.faults.injection import matrix
from tests.faults.injection.cases import ACROSS_BOOTS, CASES, IMPOSSIBLE, IN_LAB, all_sysctls, sysctl
from tests.faults.injection.matrix import Ground

# Written out for docs/reference/settings.md, which reads the marks from the source.
HERE = [
    pytest.param("cpu_affinity", marks=pytest.mark.proves("cpu_affinity", where="here")),
    pytest.param("numa", marks=[pytest.mark.proves("numa", where="here"), pytest.mark.needs("numactl")]),
    pytest.param("cpu_power", marks=pytest.mark.proves("cpu_power", where="here")),
    pytest.param("transparent_huge_pages", marks=pytest.mark.proves("transparent_huge_pages", where="here")),
    pytest.param("huge_pages", marks=pytest.mark.proves("huge_pages", where="here")),
    pytest.param("initdb", marks=pytest.mark.proves("initdb", where="here")),
    pytest.param("sysctl", marks=pytest.mark.proves("sysctl", where="here")),
    pytest.param("block_device", marks=pytest.mark.proves("block_device", where="here")),
    pytest.param("postgresql", marks=pytest.mark.proves("postgresql", where="here")),
    pytest.param("cache", marks=pytest.mark.proves("cache", where="here")),
]
ALLOWED = [name for name in CASES if os.geteuid() == 0 or SETTINGS[name].level == "user"]


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with matrix.ground() as ready:
        yield ready


def check(row: matrix.Row, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{row} ")
    assert not row.differences


def test_every_setting_has_a_case_here_or_in_the_lab_or_a_reason_why_not() -> None:
    assert sorted(SETTINGS) == sorted([*CASES, *IN_LAB, *ACROSS_BOOTS, *IMPOSSIBLE])
    assert [param.values[0] for param in HERE] == list(CASES)
    assert [name for name, why in IMPOSSIBLE.items() if not why.holds()] == []


def test_a_setting_of_the_lab_is_killed_there_at_every_boundary() -> None:
    root = Path(__file__).parents[2]
    assert [name for name, file in IN_LAB.items() if "kill_runs(vm, " not in (root / file).read_text()] == []


def test_a_setting_that_restarts_the_host_is_killed_at_every_boundary_of_each_boot() -> None:
    root = Path(__file__).parents[2]
    assert [name for name, file in ACROSS_BOOTS.items() if "around_all(death)" not in (root / file).read_text()] == []


def test_the_document_lists_every_setting() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", document.DOCUMENT.read_text(), re.MULTILINE)

    assert rows == list(CASES)


def test_the_document_agrees_with_the_recorded_counts() -> None:
    assert document.DOCUMENT.read_text() == document.text(load()), "python -m tests.faults document"


@pytest.mark.parametrize("name", HERE)
def test_a_run_killed_at_any_boundary_leaves_the_host_as_it_was(
    ground: Ground, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if name not in ALLOWED:
        with pytest.raises(Unplannable, match="needs level root"):
            ground.spec(ground.wishes(name))
        return
    check(matrix.every_boundary(ground, name, ground.wishes(name)), capsys)


def test_a_run_of_all_settings_killed_at_some_boundaries_leaves_the_host_as_it_was(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    check(matrix.some_boundaries(ground, "all at once", ground.wishes(*ALLOWED), kills=8), capsys)


def test_a_recovery_killed_at_some_boundaries_is_taken_up_again(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    row = matrix.every_boundary_of_a_recovery(ground, "all at once, killed again", ground.wishes(*ALLOWED), step=5)
    check(row, capsys)


def test_every_sysctl_of_the_list_is_restored(ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    names = all_sysctls() if "sysctl" in ALLOWED else []

    check(matrix.some_boundaries(ground, f"{len(names)} sysctls", {"sysctl": sysctl(*names)(ground.device)}, 8), capsys)


@pytest.mark.slow
def test_a_run_of_all_settings_killed_at_any_boundary_leaves_the_host_as_it_was(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    check(matrix.every_boundary(ground, "all at once", ground.wishes(*ALLOWED)), capsys)


@pytest.mark.slow
def test_a_recovery_killed_at_any_boundary_is_taken_up_again(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    check(matrix.every_boundary_of_a_recovery(ground, "all at once, killed again", ground.wishes(*ALLOWED)), capsys)
