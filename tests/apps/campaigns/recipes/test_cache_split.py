"""A real campaign of the recipe cache-split: two sizes, huge pages off and on, one scale."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from apps.accounts.models import User
from apps.campaigns import recipes, services
from apps.campaigns.design.steps import patch
from apps.campaigns.library import datasets, workloads
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host
from apps.hosts.usage import allowed_paths
from apps.results.exchange import exports
from readers.others.huge_page_csv import parse_huge_page_csv
from tests.servers import campaigns

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("host_wide")]

POOL = Path("/proc/sys/vm/nr_hugepages")
SIZES = ("64MB", "128kB")
HEAP = 1640  # blocks of pgbench_accounts at scale 1
LOOKUPS = 200


def small(host: Host, by: User, sizes: tuple[str, ...]) -> Campaign:
    facts = allowed_paths.newest_facts(host)
    recipe = recipes.get("cache-split")
    steps = patch(recipes.steps(recipe, facts), {"steps.warm.time_s": 1, "steps.settle.seconds": 1})
    levels = [{"label": size, "set": {"settings.postgresql.shared_buffers": size}} for size in sizes]
    buffers, pages = recipes.factors(recipe, facts)
    return services.create_from_recipe(
        by=by,
        host=host,
        recipe="cache-split",
        workload=workloads.save_workload("split-small", steps, by=by),
        dataset=datasets.save_dataset("split-small", "pgbench", {"scale": 1}, by=by),
        factors=[{**buffers, "levels": levels}, copy.deepcopy(pages)],
        repetitions=1,
        seed=1,
    )


@pytest.mark.needs("root")
def test_each_size_has_latencies_blocks_and_pages(host: Host, admin: User) -> None:
    before = POOL.read_text()
    campaign = small(host, admin, SIZES)
    services.start_campaign(campaign, by=admin)

    campaigns.finish(campaign, timeout_s=240)

    runs = list(campaign.runs.order_by("position"))
    assert [run.outcome for run in runs] == [Run.Outcome.OK] * 4, [run.error for run in runs]
    assert POOL.read_text() == before
    assert [run.cell["shared_buffers"] for run in runs] == ["64MB", "64MB", "128kB", "128kB"], "sizes descend"
    table = parse_huge_page_csv("".join(exports.cache_split_csv(campaign)).encode())  # type: ignore[arg-type]
    assert [cell.shared_buffers for cell in table.cells] == ["64MB", "64MB", "128kB", "128kB"]
    for run, cell in zip(runs, table.cells, strict=True):
        assert (cell.huge_pages > 0) == (run.cell["huge pages"] == "on")
        assert 0 < cell.idx1_ms < cell.seq_ms
        assert cell.heap_blks_read + cell.heap_blks_hit == HEAP + LOOKUPS
        assert cell.idx_blks_read + cell.idx_blks_hit >= 2 * LOOKUPS
        assert (cell.heap_blks_read > HEAP // 2) == (cell.shared_buffers == "128kB")
    assert set(campaign.runs.values_list("data_use__means", flat=True)) == {"pristine"}, "runs only read"


@pytest.mark.needs("root")
def test_a_size_without_granted_pages_is_reported_and_the_sweep_continues(host: Host, admin: User) -> None:
    campaign = small(host, admin, ("64MB",))
    impossible = {"label": "on", "set": {"settings.huge_pages.use": "on", "settings.huge_pages.pool": 10_000_000}}
    campaign.factors[1]["levels"][1] = impossible
    campaign.save()
    campaigns.believe_in_memory(host, gib=32 * 1024)
    services.start_campaign(campaign, by=admin)

    campaigns.finish(campaign)

    outcomes = {run.cell["huge pages"]: run.outcome for run in campaign.runs.all()}
    assert outcomes == {"off": Run.Outcome.OK, "on": Run.Outcome.NOT_IN_EFFECT}
    table = parse_huge_page_csv("".join(exports.cache_split_csv(campaign)).encode())  # type: ignore[arg-type]
    assert ([cell.huge_pages for cell in table.cells], len(table.not_measured)) == ([0], 1)
