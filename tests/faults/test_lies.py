"""A kernel that does not apply a written value, and a user who changes one meanwhile. As root.

The agent runs in its own mount namespace, where another file covers the one of /proc or /sys that it writes, so the
host itself is never changed. That file behaves like such a kernel; most files are the kernel's own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agents.build import build_zipapp
from agents.host.system import System
from tests.agents.driver import Connection, of
from tests.faults.injection.matrix import loop_device
from tests.session.needs import require

SWAPPINESS = "/proc/sys/vm/swappiness"
DEFRAG = "/sys/kernel/mm/transparent_hugepage/defrag"
Lie = Callable[[str, Path | str], Connection]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    build_zipapp(target := tmp_path_factory.mktemp("agent") / "agent.pyz")
    return target


@pytest.fixture
def lie(program: Path, tmp_path: Path, host_wide: None) -> Iterator[Lie]:
    """A connection to an agent for which `over` lies over a file of the kernel."""
    require("root")
    with ExitStack() as stack:

        def lie(file: str, over: Path | str) -> Connection:
            mounts = f'mount --bind "{over}" "{file}" && exec "$@"'
            argv = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", mounts, "sh"]
            connection = Connection(program, tmp_path / "spool", python=[*argv, sys.executable])
            stack.callback(connection.close)
            return connection

        yield lie


def plain(tmp_path: Path, text: str) -> Path:
    """An ordinary file in place of a kernel file."""
    path = tmp_path / "knob"
    path.write_text(text)
    return path


def spec(settings: dict[str, Any], seconds: int = 0) -> dict[str, Any]:
    """A run without PostgreSQL, of one step when it is to take some time."""
    steps = [{"name": "measure", "kind": "wait", "options": {"seconds": seconds}}] if seconds else []
    return {
        "version": 1,
        "target": None,
        "settings": settings,
        "steps": steps,
        "collect": {"interval_s": 0.2, "sources": []},
    }


def sealed(agent: Connection, run: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the outcome, the manifest) of a run when it has ended."""
    return of(agent.events(run), "outcome")[0], agent.manifest(run)[0]


def test_a_kernel_that_keeps_its_choice_is_not_in_effect(lie: Lie, tmp_path: Path) -> None:
    # Written at its beginning, the file still says [madvise].
    choices = "always defer defer+madvise [madvise] never\n"
    knob = plain(tmp_path, choices)
    agent = lie(DEFRAG, knob)

    outcome, manifest = sealed(agent, agent.submit(spec({"transparent_huge_pages": {"defrag": "defer"}})))

    assert knob.read_text() != choices  # it was asked
    assert outcome["outcome"] == "not_in_effect"
    assert (outcome["error"]["wanted"], outcome["error"]["found"]) == (f"{DEFRAG} = defer", "madvise")
    assert manifest["clean"] and not manifest["conflicts"]


def test_a_kernel_that_accepts_and_ignores_is_not_in_effect(lie: Lie) -> None:
    # The kernel's own: since Linux 6.0 it takes any number, and reads -1.
    with loop_device() as device:
        agent = lie(SWAPPINESS, f"/sys/block/{device}/queue/io_poll_delay")

        outcome, manifest = sealed(agent, agent.submit(spec({"sysctl": {"vm": {"swappiness": 7}}})))

    assert outcome["outcome"] == "not_in_effect"
    assert (outcome["error"]["wanted"], outcome["error"]["found"]) == (f"{SWAPPINESS} = 7", "-1")
    assert manifest["clean"] and not manifest["conflicts"]


@pytest.mark.fast
def test_a_value_that_the_kernel_rounds_is_not_in_effect_and_is_restored(lie: Lie) -> None:
    # The kernel's own: read-ahead is kept in pages of 4 kB.
    with loop_device() as device:
        knob = Path(f"/sys/block/{device}/queue/read_ahead_kb")
        before = knob.read_text()
        agent = lie(SWAPPINESS, knob)

        outcome, manifest = sealed(agent, agent.submit(spec({"sysctl": {"vm": {"swappiness": 7}}})))

        assert (outcome["outcome"], outcome["error"]["found"]) == ("not_in_effect", "4")
        assert manifest["clean"] and knob.read_text() == before


def test_a_kernel_that_refuses_is_not_in_effect(lie: Lie) -> None:
    # A kernel file that cannot be written.
    agent = lie(SWAPPINESS, "/proc/sys/kernel/ostype")

    outcome, manifest = sealed(agent, agent.submit(spec({"sysctl": {"vm": {"swappiness": 7}}})))

    assert (outcome["outcome"], outcome["error"]["found"]) == ("not_in_effect", "Linux")
    assert manifest["clean"] and not manifest["conflicts"]


def test_a_value_that_drifts_back_during_the_run_is_not_in_effect(lie: Lie, tmp_path: Path) -> None:
    knob = plain(tmp_path, "60\n")
    agent = lie(SWAPPINESS, knob)
    run = agent.submit(spec({"sysctl": {"vm": {"swappiness": 70}}}, seconds=5))
    agent.events(run, until="RUNNING")
    assert knob.read_text() == "70\n"

    knob.write_text("60\n")

    outcome, manifest = sealed(agent, run)
    assert (outcome["outcome"], outcome["error"]["wanted"], outcome["error"]["found"]) == ("not_in_effect", "70", "60")
    (after,) = of(agent.events(run), "proof", phase="after", ok=False)
    assert after["subject"] == SWAPPINESS
    assert manifest["clean"] and not manifest["conflicts"]


def test_a_file_that_an_admin_edits_during_the_run_is_not_restored_but_reported(lie: Lie, tmp_path: Path) -> None:
    knob = plain(tmp_path, "60\n")
    agent = lie(SWAPPINESS, knob)
    run = agent.submit(spec({"sysctl": {"vm": {"swappiness": 70}}}, seconds=5))
    agent.events(run, until="RUNNING")

    knob.write_text("35\n")

    outcome, manifest = sealed(agent, run)
    assert knob.read_text() == "35\n"
    assert (outcome["outcome"], outcome["error"]["found"]) == ("not_in_effect", "35")
    assert manifest["conflicts"] == [{"key": SWAPPINESS, "original": "60", "ours": "70", "found": "35"}]
    # The user's value remains: the run has not damaged the host, and the next one may begin.
    assert manifest["clean"] and agent.call("status", run=run)["conflicts"] == manifest["conflicts"]
    hello = agent.call("hello")
    assert (hello["dirty"], hello["conflicts"]) == ([], [run])


def test_the_host_never_saw_any_of_it(lie: Lie, tmp_path: Path) -> None:
    before = System().text(SWAPPINESS)
    agent = lie(SWAPPINESS, plain(tmp_path, "60\n"))

    sealed(agent, agent.submit(spec({"sysctl": {"vm": {"swappiness": 70}}})))

    assert System().text(SWAPPINESS) == before
