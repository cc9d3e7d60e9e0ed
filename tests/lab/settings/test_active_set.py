"""The active-set sweep on a small host: its data are created in advance, and copied for runs that write.

With KVM they are four times the memory. With TCG that takes hours, so they fit the memory. PROVING_LAB_SCALE overrides
both.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from apps.accounts.models import User
from apps.campaigns import recipes, services
from apps.campaigns.library import datasets, preparing
from apps.campaigns.models import DataCopy, DataUse
from apps.hosts.models import Host
from apps.results import queries
from tests.lab.machines.machine import Machine
from tests.servers import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

TIMEOUT_S = 7200
SMALL = 20


def scale_of_the_data(vm: Machine) -> int:
    """pgbench's scale; 0 means that of the recipe, which exceeds the memory."""
    return int(os.environ.get("PROVING_LAB_SCALE") or (0 if vm.accelerator == "kvm" else SMALL))


def less(scale: int, admin: User) -> dict[str, Any]:
    """Of the recipe: the first range and the last, on data of this scale."""
    rows = {"10 %": scale * 10_000, "100 %": scale * 100_000}
    ranges = [{"label": label, "set": {"workload.define.range": value}} for label, value in rows.items()]
    own = datasets.save_dataset("less", "pgbench", {"scale": scale}, by=admin)
    return {
        "dataset": own,
        "factors": [{"name": "rows in use", "levels": ranges}, recipes.get("active-set")["factors"][1]],
    }


def test_the_recipe_sweeps_ranges_of_data_that_were_made_beforehand(
    vm: Machine, host: Host, admin: User, capsys: pytest.CaptureFixture[str]
) -> None:
    scale = scale_of_the_data(vm)
    changes = less(scale, admin) if scale else {}
    campaign = services.create_from_recipe(by=admin, host=host, recipe="active-set", repetitions=1, seed=1, **changes)
    assert campaign.dataset is not None
    preparation = preparing.prepare(campaign.dataset, host, by=admin)
    campaigns.ok_runs(preparation, TIMEOUT_S)
    services.start_campaign(campaign, by=admin)
    campaigns.ok_runs(campaign, TIMEOUT_S)

    copy = DataCopy.objects.get()
    assert copy.state == "pristine" and copy.made_by == preparation.runs.get()
    uses = DataUse.objects.filter(run__campaign=campaign).select_related("run")
    assert {(use.run.cell["script"], use.means) for use in uses} == {("read-only", "pristine"), ("read-write", "copy")}
    tps = {level.label: level.mean or 0.0 for level in queries.campaign_table(campaign).levels}
    with capsys.disabled():
        took = [(use.run.label, use.means, use.seconds) for use in uses]
        sys.stdout.write(f"\n{tps}\n{copy.seconds} {copy.size}\n{took}\n")
    small, large = next(iter(tps)), list(tps)[-2]
    assert tps[small] > tps[small.replace("read-only", "read-write")]
    if not scale:
        assert copy.size > 3.5 * host.facts["memory"]["total_kb"] * 1024
        assert tps[small] > 1.5 * tps[large]
