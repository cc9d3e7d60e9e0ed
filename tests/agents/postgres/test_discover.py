"""Asking a host what is there now: the values, the files that would be written, and a refusal that is no error."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agents.host.system import System
from agents.settings.base import current
from tests.agents.driver import Connection, Refused

pytestmark = pytest.mark.fast
POOL = "/proc/sys/vm/nr_hugepages"
THP = Path("/sys/kernel/mm/transparent_hugepage")


def snapshot() -> dict[str, str]:
    return {str(path): path.read_text() for path in (Path(POOL), THP / "enabled", THP / "defrag")}


@pytest.mark.usefixtures("host_wide")
def test_a_host_tells_present_values_and_nothing_is_changed(agent: Connection) -> None:
    before = snapshot()
    wanted: dict[str, Any] = {"cpu_affinity": None, "huge_pages": {"use": "on", "pool": 4}}

    found = agent.call("discover", settings=wanted)

    assert found["cpu_affinity"]["value"]["server"]
    assert (found["cpu_affinity"]["keys"], found["cpu_affinity"]["refused"]) == ({}, None)
    if os.geteuid() == 0:
        assert found["huge_pages"]["keys"] == {POOL: current(System(), POOL)}
    else:
        assert "requires level root" in found["huge_pages"]["refused"]["message"]
    assert snapshot() == before


def test_what_the_host_cannot_have_is_told_beside_what_it_can(agent: Connection) -> None:
    found = agent.call("discover", settings={"cpu_affinity": {"server": "4000"}, "numa": {"policy": "default"}})

    assert found["cpu_affinity"]["refused"]["field"] == "cpu_affinity.server"
    assert found["numa"]["refused"] is None


def test_only_settings_can_be_asked_for(agent: Connection) -> None:
    with pytest.raises(Refused, match="/etc/shadow is not known here"):
        agent.call("discover", settings={"/etc/shadow": None})
