"""Recipes for a host: levels and options from its facts, and a reason if a recipe does not apply."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns import recipes
from common.errors import PlanError
from tests.rows.factories import FACTS, browser, make_host

pytestmark = pytest.mark.django_db

NODES = [{"id": 0, "cpus": "0-1", "mem_kb": 4_000_000}, {"id": 1, "cpus": "2-3", "mem_kb": 4_000_000}]
TWO_NODES = FACTS | {"level": "root", "numa": {"nodes": NODES, "distances": [[10, 20], [20, 10]]}}


def levels(facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    (factor,) = recipes.factors(recipes.get("numa-policy"), facts)
    return {level["label"]: level["set"] for level in factor["levels"]}


def test_numa_policies_come_from_the_nodes_of_the_host() -> None:
    assert levels(TWO_NODES) == {
        "default": {"settings.numa.policy": "default"},
        "interleave": {"settings.numa.policy": "interleave", "settings.numa.nodes": "0,1"},
        "localalloc": {"settings.numa.policy": "localalloc"},
        "membind 0": {"settings.numa.policy": "membind", "settings.numa.nodes": "0"},
        "membind 1": {"settings.numa.policy": "membind", "settings.numa.nodes": "1"},
        "cpus of node 0": {"settings.numa.policy": "default", "settings.numa.cpunodebind": "0"},
    }


def test_nodes_without_memory_or_without_cpus_are_left_out() -> None:
    nodes = [
        {"id": 0, "cpus": "", "mem_kb": 9},
        {"id": 1, "cpus": "0-3", "mem_kb": 0},
        {"id": 2, "cpus": "", "mem_kb": 9},
    ]

    by_label = levels(TWO_NODES | {"numa": {"nodes": nodes, "distances": []}})

    assert by_label["interleave"]["settings.numa.nodes"] == "0,2"
    assert [label for label in by_label if label[-1].isdigit()] == ["membind 0", "membind 2", "cpus of node 1"]


def test_a_host_of_one_node_is_refused_with_a_sentence(operator: User) -> None:
    with pytest.raises(PlanError, match="one NUMA node"):
        recipes.factors(recipes.get("numa-policy"), FACTS)
    client, host = browser(operator), make_host(level="root", facts=FACTS | {"level": "root"})

    page = client.get(reverse("campaign_new"), {"recipe": "numa-policy", "host": host.pk})
    answer = client.post("/api/v1/campaigns/", {"recipe": "numa-policy", "host": host.pk})

    assert page.status_code == 200 and "one NUMA node" in page.context["notice"]
    assert answer.status_code == 400 and b"one NUMA node" in answer.content


def test_one_client_and_one_thread_per_cpu(operator: User) -> None:
    client, host = browser(operator), make_host(level="root", facts=TWO_NODES)

    scaled = client.get(f"/api/v1/recipes/numa-policy/?host={host.pk}").json()
    draft = client.post("/api/v1/campaigns/", {"recipe": "numa-policy", "host": host.pk, "repetitions": 1, "seed": 3})
    preview = client.get(f"/api/v1/campaigns/{draft.json()['id']}/preview/").json()

    assert (scaled["steps"][0]["options"]["clients"], scaled["steps"][0]["options"]["jobs"]) == (4, 4)
    assert len(preview["runs"]) == 6 and preview["seconds"] > 6 * 10


def test_the_preview_of_the_form_equals_the_campaign(client: Client, operator: User) -> None:
    client.force_login(operator)
    host = make_host(level="root", facts=TWO_NODES)
    shown = client.get(reverse("campaign_new"), {"recipe": "numa-policy", "host": host.pk}).context
    form = {field.html_name: field.value() for field in shown["form"] if field.value() not in (None, "")}
    columns = {name: [getattr(row, name) for row in shown["rows"]] for name in ("factor", "level", "path", "value")}

    answer = client.post(
        reverse("campaign_preview"), {**form, **columns, "recipe": "numa-policy", "host": host.pk, "repetitions": 2}
    )

    assert b"12 runs" in answer.content, answer.content


def test_warehouses_take_a_quarter_of_the_memory_and_four_times_the_memory() -> None:
    generated = recipes.factors(recipes.get("tpcc"), FACTS | {"memory": {"total_kb": 8 << 20, "available_kb": 8 << 20}})
    small = recipes.factors(recipes.get("tpcc"), FACTS | {"limits": {"memory_max_kb": 10_000}})

    assert generated[0]["levels"] == [
        {"label": "19 warehouses, 25 % of memory", "set": {"dataset.warehouses": 19}},
        {"label": "319 warehouses, 400 % of memory", "set": {"dataset.warehouses": 319}},
    ]
    assert [level["set"]["dataset.warehouses"] for level in small[0]["levels"]] == [1, 2]


def test_the_active_set_grows_with_the_memory_of_the_host() -> None:
    recipe = recipes.get("active-set")

    ranges = recipes.factors(recipe, FACTS)[0]["levels"]
    own = recipes.dataset(recipe, FACTS)
    limited = recipes.dataset(recipe, FACTS | {"limits": {"memory_max_kb": 4_000_000}})

    assert [level["label"] for level in ranges] == [f"{share} % of memory" for share in (10, 50, 200, 400)]
    assert own == {"kind": "pgbench", "options": {"scale": 2081}}
    assert limited == {"kind": "pgbench", "options": {"scale": 1041}}
    assert ranges[-1]["set"]["workload.define.range"] <= 2081 * 100_000
