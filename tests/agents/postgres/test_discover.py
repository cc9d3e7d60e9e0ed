"""The verb `discover`: present values, the files that would be written, and refusals."""

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
def test_discover_returns_current_values_and_changes_nothing(agent: Connection) -> None:
    before = snapshot()
    settings: dict[str, Any] = {"cpu_affinity": None, "huge_pages": {"use": "on", "pool": 4}}

    discovered = agent.call("discover", settings=settings)

    assert discovered["cpu_affinity"]["value"]["server"]
    assert (discovered["cpu_affinity"]["keys"], discovered["cpu_affinity"]["refused"]) == ({}, None)
    if os.geteuid() == 0:
        assert discovered["huge_pages"]["keys"] == {POOL: current(System(), POOL)}
    else:
        assert "requires level root" in discovered["huge_pages"]["refused"]["message"]
    assert snapshot() == before


def test_discover_reports_unsupported_settings_beside_supported_ones(agent: Connection) -> None:
    discovered = agent.call("discover", settings={"cpu_affinity": {"server": "4000"}, "numa": {"policy": "default"}})

    assert discovered["cpu_affinity"]["refused"]["field"] == "cpu_affinity.server"
    assert discovered["numa"]["refused"] is None


def test_discover_accepts_only_names_of_settings(agent: Connection) -> None:
    with pytest.raises(Refused, match="/etc/shadow is not known here"):
        agent.call("discover", settings={"/etc/shadow": None})
