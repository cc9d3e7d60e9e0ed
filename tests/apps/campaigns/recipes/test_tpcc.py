"""A small campaign of the recipe tpcc: statements against functions, and the records of each run."""

from __future__ import annotations

import pytest

from apps.accounts.models import User
from apps.campaigns import recipes, services
from apps.campaigns.library import workloads
from apps.campaigns.models import DataUse
from apps.hosts.models import Host
from apps.results import queries
from apps.results.answers.key_figures import key_figures
from apps.results.models import Measurement
from tests.servers import campaigns

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_tpcc_recipe_runs_small(host: Host, admin: User) -> None:
    template = recipes.get("tpcc")
    short = [{**step, "options": {**step["options"], "time_s": 1}} for step in recipes.steps(template, host.facts)]
    workload = workloads.save_workload("short", short, by=admin)
    one = {"name": "data", "levels": [{"label": "1", "set": {"dataset.warehouses": 1}}]}

    campaign = services.create_from_recipe(
        by=admin, host=host, recipe="tpcc", workload=workload, repetitions=1, factors=[one, template["factors"][1]],
    )  # fmt: skip
    services.start_campaign(campaign, by=admin)

    campaigns.finish(campaign)
    assert not [run.error for run in campaign.runs.all() if run.outcome != "ok"]
    levels = queries.campaign_table(campaign).levels
    assert [(level.label, level.ok) for level in levels] == [("1, statements", 1), ("1, functions", 1)]
    names = set(Measurement.objects.filter(run__campaign=campaign).values_list("name", flat=True))
    assert {"nopm", "tpm", "new_order latency_p95", "payment share", "delivery deadlock_failures"} <= names
    assert "new orders/min" in [figure.title for figure in key_figures(campaign, "1, functions")]
    assert {use.means for use in DataUse.objects.filter(run__campaign=campaign)} == {"copy"}
    for run in campaign.runs.all():
        conditions = [line for line in run.proof["lines"] if "consistency condition" in line]
        assert len(conditions) == 4 and all(line.endswith(": no violations") for line in conditions)
