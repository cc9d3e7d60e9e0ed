"""Memory placement on two real NUMA nodes: the policy, numa_maps and numastat."""

from __future__ import annotations

import pytest

from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.models import Run
from apps.hosts.models import Host
from tests.lab.conftest import differences, read_settings
from tests.lab.machines.machine import Machine
from tests.lab.settings.placement import TIMEOUT_S, allocated, measured, proofs, runs_by_level, share
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

NODE_KB = 2_000_000


@pytest.mark.proves("numa", where="lab")
def test_the_recipe_proves_each_policy_where_its_pages_lie(host: Host, admin: User, vm: Machine) -> None:
    before = read_settings(vm)
    campaign = services.create_from_recipe(by=admin, host=host, recipe="numa-policy", repetitions=1, seed=1)
    services.start_campaign(campaign, by=admin)

    runs = runs_by_level(campaign)

    policies = {label: {proof["found"] for proof in proofs(run, "memory policy")} for label, run in runs.items()}
    assert policies == {
        "default": {"default"},
        "interleave": {"interleave:0-1"},
        "localalloc": {"local"},
        "membind 0": {"bind:0"},
        "membind 1": {"bind:1"},
        "cpus of node 0": {"default"},
    }
    assert (share(runs["membind 0"], 0), share(runs["membind 0"], 1)) == (1.0, 0.0)
    assert (share(runs["membind 1"], 0), share(runs["membind 1"], 1)) == (0.0, 1.0)
    assert 0.45 < share(runs["interleave"], 0) < 0.55 and 0.45 < share(runs["interleave"], 1) < 0.55
    assert share(runs["cpus of node 0"], 0) == 1.0
    assert {proof["found"] for proof in proofs(runs["cpus of node 0"], "cpus of node 0")} == {"0-1"}
    assert all(row["interleave_hit"] > 100 for row in allocated(runs["interleave"]).values())
    assert {row["interleave_hit"] for row in allocated(runs["default"]).values()} == {0}
    assert (
        allocated(runs["membind 1"])["node1"]["other_node"] > 10 * allocated(runs["membind 0"])["node1"]["other_node"]
    )
    assert all("node1.numa_hit" in run.series.get(source="numa").columns for run in runs.values())
    assert differences(before, read_settings(vm)) == {}


@pytest.mark.proves("numa", where="lab")
def test_memory_and_cpus_may_be_of_different_nodes(host: Host, admin: User) -> None:
    settings = {"settings.numa.policy": "membind", "settings.numa.nodes": "0", "settings.numa.cpunodebind": "1"}

    run = measured(host, admin, {"apart": settings})["apart"]

    assert {proof["found"] for proof in proofs(run, "cpus of node 1")} == {"2-3"}
    assert share(run, 0) == 1.0
    assert allocated(run)["node0"]["other_node"] > allocated(run)["node1"]["other_node"]


@pytest.mark.proves("cpu_affinity", where="lab")
def test_one_cpu_is_compared_with_two(host: Host, admin: User) -> None:
    runs = measured(
        host,
        admin,
        {"1 cpu": {"settings.cpu_affinity.server": "2"}, "2 cpus": {"settings.cpu_affinity.server": "2,3"}},
    )

    ran = {label: proofs(run, f"server: share of cpu time outside {cpus}", "cpu_affinity")[-1]["evidence"]["cpu_s"]
           for (label, run), cpus in zip(sorted(runs.items()), ("2", "2-3"), strict=True)}  # fmt: skip
    assert list(ran["1 cpu"]) == ["2"] and sorted(ran["2 cpus"]) == ["2", "3"]


@pytest.mark.proves("huge_pages", where="lab")
def test_pools_of_both_nodes_are_filled_used_and_restored(host: Host, admin: User, vm: Machine) -> None:
    before = read_settings(vm)
    on = {"settings.huge_pages.use": "on"}

    runs = measured(
        host,
        admin,
        {
            "kernel": on | {"settings.huge_pages.pool": 151},
            "spread": on | {"settings.huge_pages.nodes": "all"},
            "uneven": on | {"settings.huge_pages.per_node": {"0": 30, "1": 90}, "settings.numa.policy": "interleave"},
        },
    )

    pools = {label: proofs(run, "page size of the shared memory (kB)", "huge_pages")[0]["evidence"]["pool"]["per_node"]
             for label, run in runs.items()}  # fmt: skip
    totals = {label: [pool[node]["total"] for node in "01"] for label, pool in pools.items()}
    assert sum(totals["kernel"]) == 151 and abs(totals["kernel"][0] - totals["kernel"][1]) <= 1
    assert abs(totals["spread"][0] - totals["spread"][1]) <= 1 and totals["uneven"] == [30, 90]
    for run in runs.values():
        backends = proofs(run, "page size of the shared memory of a backend (kB)", "huge_pages")
        assert {proof["found"] for proof in backends} == {2048}
    assert differences(before, read_settings(vm)) == {}


def test_pages_that_a_node_does_not_have_end_as_not_in_effect(host: Host, admin: User, vm: Machine) -> None:
    before = read_settings(vm)
    level = {"settings.huge_pages.use": "on", "settings.huge_pages.per_node": {"1": 1 + NODE_KB // 2048}}
    campaign = campaigns.start(host, admin, {"name": "pool", "levels": [{"label": "too many", "set": level}]})

    campaigns.drive(lambda: Run.objects.get(campaign=campaign).state == Run.State.ENDED, timeout_s=TIMEOUT_S)

    run = campaign.runs.get()
    assert run.outcome == Run.Outcome.NOT_IN_EFFECT
    assert "on node 1" in run.error["wanted"] and "which allow" in run.error["found"]
    assert differences(before, read_settings(vm)) == {}
