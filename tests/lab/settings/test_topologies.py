"""Placement on four nodes with one CPU each, on nodes without CPUs, and on nodes without memory."""

from __future__ import annotations

import re
from typing import Any

import pytest

from apps.accounts.models import User
from apps.hosts.models import Host
from common.errors import PlanError
from tests.lab.conftest import differences, read_settings
from tests.lab.machines.machine import Machine
from tests.lab.machines.topologies import TOPOLOGIES
from tests.lab.settings.placement import measured, proofs, share
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

BIND = {"settings.numa.policy": "membind"}


def refuse(host: Host, admin: User, settings: dict[str, Any], reason: str) -> None:
    factor = {"name": "placement", "levels": [{"label": "impossible", "set": settings}]}
    with pytest.raises(PlanError, match=re.escape(reason)):
        campaigns.start(host, admin, factor)


@pytest.mark.topology("four-nodes")
@pytest.mark.proves("numa", where="lab")
def test_each_of_four_nodes_can_have_all_memory_and_the_only_cpu(host: Host, admin: User, vm: Machine) -> None:
    before, topology = read_settings(vm), TOPOLOGIES["four-nodes"]
    levels = {
        f"node {node}": {**BIND, "settings.numa.nodes": str(node), "settings.numa.cpunodebind": str(node)}
        for node in range(4)
    }
    levels["all"] = {"settings.numa.policy": "interleave"}

    runs = measured(host, admin, levels)

    assert host.facts["numa"]["distances"] == [list(row) for row in topology.distances]
    for node in range(4):
        run = runs[f"node {node}"]
        assert [share(run, other) for other in range(4)] == [float(other == node) for other in range(4)]
        assert {proof["found"] for proof in proofs(run, f"cpus of node {node}")} == {str(node)}
    assert all(0.2 < share(runs["all"], node) < 0.3 for node in range(4))
    assert differences(before, read_settings(vm)) == {}


@pytest.mark.topology("memory-only")
@pytest.mark.proves("numa", where="lab")
def test_memory_can_be_on_nodes_without_cpus(host: Host, admin: User, vm: Machine) -> None:
    before = read_settings(vm)
    levels = {
        "near": {**BIND, "settings.numa.nodes": "0"},
        "far": {**BIND, "settings.numa.nodes": "2"},
        "both": {"settings.numa.policy": "interleave", "settings.numa.nodes": "1-2"},
    }

    runs = measured(host, admin, levels)

    assert [share(runs["near"], node) for node in range(3)] == [1.0, 0.0, 0.0]
    assert [share(runs["far"], node) for node in range(3)] == [0.0, 0.0, 1.0]
    assert share(runs["both"], 0) == 0.0 and all(0.45 < share(runs["both"], node) < 0.55 for node in (1, 2))
    assert differences(before, read_settings(vm)) == {}


@pytest.mark.topology("memory-only")
def test_nodes_without_cpus_cannot_run_postgresql(host: Host, admin: User) -> None:
    refuse(host, admin, {"settings.numa.cpunodebind": "1"}, "nodes of this host with cpus: 0")


@pytest.mark.topology("cpu-only")
@pytest.mark.proves("numa", where="lab")
def test_cpus_of_a_node_without_memory_use_that_of_another_node(host: Host, admin: User, vm: Machine) -> None:
    before = read_settings(vm)

    run = measured(host, admin, {"remote": {"settings.numa.cpunodebind": "1"}})["remote"]

    assert {proof["found"] for proof in proofs(run, "cpus of node 1")} == {"2-3"}
    assert share(run, 0) == 1.0
    assert differences(before, read_settings(vm)) == {}


@pytest.mark.topology("cpu-only")
def test_memory_cannot_be_on_a_node_without_memory(host: Host, admin: User) -> None:
    refuse(host, admin, {**BIND, "settings.numa.nodes": "1"}, "nodes of this host with memory: 0")
