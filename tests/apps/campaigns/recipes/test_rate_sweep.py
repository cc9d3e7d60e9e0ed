"""The recipe rate-sweep, from its draft to percentiles at each share of the maximum, with short steps."""

from __future__ import annotations

import copy

import pytest

from apps.accounts.models import User
from apps.campaigns import recipes, services
from apps.campaigns.library import workloads
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host
from apps.results import queries
from common.errors import PlanError
from tests.rows.factories import make_host
from tests.servers import campaigns

SHARES = {"at25": 0.25, "at50": 0.5, "at75": 0.75, "at90": 0.9}


def short_steps() -> list[recipes.Step]:
    steps = copy.deepcopy(recipes.get("rate-sweep")["steps"])
    for step in steps:
        step["options"] |= {"time_s": 1, "scale": 1, "clients": 2}
    return steps


@pytest.mark.django_db(transaction=True)
def test_a_sweep_measures_latency_at_each_share(host: Host, admin: User) -> None:
    short = workloads.save_workload("short-sweep", short_steps(), by=admin)
    campaign = services.create_from_recipe(
        by=admin, host=host, recipe="rate-sweep", workload=short, repetitions=2, seed=1
    )
    services.start_campaign(campaign, by=admin)

    campaigns.finish(campaign)

    table = queries.campaign_table(campaign)
    assert (table.metric, table.unit, table.levels[0].ok) == ("at75.latency_p99", "ms", 2)
    for run in campaign.runs.all():
        assert run.outcome == Run.Outcome.OK, run.error
        measured = {(measurement.step, measurement.name): measurement for measurement in run.measurements.all()}
        reached = measured["max", "tps"].value
        for step, share in SHARES.items():
            assert measured[step, "rate"].value == pytest.approx(share * reached, rel=1e-3)
            assert measured[step, "rate"].definition == f"requested: {share:g} of the rate of step max"
            assert 0 < measured[step, "latency_p50"].value <= measured[step, "latency_p99"].value
            assert measured[step, "latency_p99"].definition == "open loop: includes schedule lag"
        assert measured["max", "latency_p99"].definition.startswith("closed loop")
        assert {each.step for each in run.series.filter(source="latency")} == {"max", *SHARES}


def test_a_share_of_a_later_step_is_refused_at_planning(operator: User) -> None:
    host, steps = make_host(), short_steps()

    with pytest.raises(PlanError, match="'max' is not accepted") as refused:
        workloads.recipe_workload("backwards", steps[::-1], operator)

    assert refused.value.subject == "steps.at90.rate_of"
    assert "an earlier pgbench step than at90" in refused.value.hint
    assert services.create_from_recipe(by=operator, host=host, recipe="rate-sweep").state == Campaign.State.DRAFT
