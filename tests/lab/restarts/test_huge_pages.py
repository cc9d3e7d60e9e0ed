"""The recipe `huge-pages-1g`: each level boots with its pool of huge pages, and PostgreSQL's memory is in it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from apps.accounts.models import User
from apps.campaigns import recipes, services
from apps.campaigns.design.steps import single
from apps.campaigns.library import datasets, workloads
from apps.campaigns.models import Run
from apps.hosts.models import Host
from tests.lab.conftest import differences, read_settings, starts
from tests.lab.machines.machine import Machine
from tests.lab.settings.placement import proofs, runs_by_level
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

COMMAND_LINE = "settings.kernel_command_line"
POOLS = {
    "2MB": "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
    "1GB": "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages",
}


def smaller(admin: User) -> dict[str, Any]:
    """The recipe with 1 GB of huge pages instead of 3, and a small load."""
    recipe = deepcopy(recipes.get("huge-pages-1g"))
    (factor,) = recipe["factors"]
    for level in factor["levels"]:
        level["set"][COMMAND_LINE]["hugepages"] //= 3
        level["set"]["settings.postgresql.shared_buffers"] = "256MB"
    return {
        "factors": [factor],
        "dataset": datasets.save_dataset("small", "pgbench", {"scale": 1}, by=admin),
        "workload": workloads.save_workload("small", single("pgbench", campaigns.CALM), by=admin),
    }


@pytest.mark.proves("kernel_command_line", where="lab")
@pytest.mark.proves("huge_pages", where="lab")
def test_the_recipe_reserves_pages_of_each_size_at_boot_and_postgresql_uses_them(
    supervised: Host, admin: User, vm: Machine
) -> None:
    before, starts_before = read_settings(vm), starts(vm)
    campaign = services.create_from_recipe(
        by=admin, host=supervised, recipe="huge-pages-1g", repetitions=1, seed=1, **smaller(admin)
    )
    services.start_campaign(campaign, by=admin)

    runs = runs_by_level(campaign)

    sizes = {level: found(run, "huge_pages", "page size of the shared memory (kB)") for level, run in runs.items()}
    assert sizes == {"2MB": {2048}, "1GB": {1024 * 1024}}
    pools = {level: found(run, "kernel_command_line", POOLS[level]) for level, run in runs.items()}
    assert pools == {"2MB": {512}, "1GB": {1}}
    assert starts(vm) - starts_before == 4 and differences(before, read_settings(vm)) == {}


def found(run: Run, setting: str, subject: str) -> set[Any]:
    return {proof["found"] for proof in proofs(run, subject, setting)}
