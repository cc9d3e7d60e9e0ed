"""Data sets: revisions, creation on a host in advance, and removal."""

from __future__ import annotations

import pytest

from apps.accounts.models import User
from apps.campaigns import recipes, services
from apps.campaigns.design.steps import single
from apps.campaigns.library import datasets, preparing, workloads
from apps.campaigns.models import Campaign, DataCopy, DataSet, DataUse
from apps.hosts.models import Host
from apps.results import queries
from common.errors import PlanError
from tests.servers import campaigns

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_change_is_a_new_revision_and_the_same_again_is_not(admin: User) -> None:
    first = datasets.save_dataset("accounts", "pgbench", {"scale": 1}, by=admin)

    assert datasets.save_dataset("accounts", "pgbench", {"scale": 1}, by=admin) == first
    assert datasets.save_dataset("accounts", "pgbench", {"scale": 2}, by=admin).revision == 2
    assert DataSet.objects.count() == 2


@pytest.mark.parametrize(
    ("kind", "options", "reset", "field"),
    [
        ("tar", {}, "auto", "kind"),
        ("pgbench", {"scale": 0}, "auto", "options.scale"),
        ("pgbench", {"init_steps": "gt"}, "auto", "options.init_steps"),
        ("pgbench", {}, "never", "reset"),
        ("sql", {"steps": [{"name": "a", "sql": "begin; select 1"}]}, "auto", "options.steps[0].sql"),
        ("sql", {"steps": [{"name": "a", "sql": "\\! reboot"}]}, "auto", "options.steps[0].sql"),
        ("dump", {}, "auto", "options"),
        ("dump", {"path": "shop.dump"}, "auto", "options.path"),
        ("dump", {"path": "/backup/../etc/shadow"}, "auto", "options.path"),
    ],
)
def test_an_invalid_data_set_is_refused_by_field(admin: User, kind: str, options: dict, reset: str, field: str) -> None:
    with pytest.raises(PlanError) as refused:
        datasets.save_dataset("accounts", kind, options, reset=reset, by=admin)

    assert refused.value.subject == field


def test_a_data_set_is_prepared_used_by_runs_and_removed(host: Host, admin: User) -> None:
    dataset = datasets.save_dataset("accounts", "pgbench", {"scale": 2}, by=admin)

    preparation = campaigns.finish(preparing.prepare(dataset, host, by=admin))

    copy = DataCopy.objects.get()
    assert preparation.kind == Campaign.Kind.PREPARATION and preparation.state == Campaign.State.FINISHED
    assert (copy.dataset, copy.state, copy.made_by) == (dataset, "pristine", preparation.runs.get())
    assert [name for name, _ in copy.seconds] == ["d", "t", "g", "v", "p"] and copy.size > 20_000_000

    workload = workloads.save_workload("w", single("pgbench", campaigns.PGBENCH | {"builtin": "tpcb-like"}), by=admin)
    fields = {"host": host, "name": "w", "question": "?", "workload": workload, "dataset": dataset, "seed": 1}
    writing = services.create_campaign(by=admin, factors=[campaigns.SERVER_CPU], repetitions=1, **fields)
    services.start_campaign(writing, by=admin)
    use = DataUse.objects.get(run__campaign=campaigns.finish(writing))
    assert (use.copy, use.means, use.wrote, use.run.outcome) == (copy, "copy", True, "ok")
    prepared = preparation.runs.get().data_use
    assert (use.definition, use.fingerprint) == (prepared.definition, copy.fingerprint) and len(use.definition) == 64

    campaigns.finish(preparing.remove(copy, by=admin))
    assert not DataCopy.objects.exists() and DataUse.objects.count() == 3


def test_the_active_set_recipe_runs_small(host: Host, admin: User) -> None:
    """Its own scripts on little data, two ranges of it."""
    small = datasets.save_dataset("small", "pgbench", {"scale": 2}, by=admin)
    template = recipes.get("active-set")
    ranges = {
        "name": "rows in use",
        "levels": [{"label": str(n), "set": {"workload.define.range": n}} for n in (10, 200_000)],
    }
    short = [{**step, "options": {**step["options"], "time_s": 1}} for step in recipes.steps(template, host.facts)]
    workload = workloads.save_workload("short", short, by=admin)

    campaign = services.create_from_recipe(
        by=admin, host=host, recipe="active-set", dataset=small, workload=workload, repetitions=1,
        factors=[ranges, template["factors"][1]],
    )  # fmt: skip
    services.start_campaign(campaign, by=admin)

    campaigns.finish(campaign)
    assert not [run.error for run in campaign.runs.all() if run.outcome != "ok"]
    table = queries.campaign_table(campaign)
    assert [(level.label, level.ok) for level in table.levels] == [
        ("10, read-only", 1), ("10, read-write", 1), ("200000, read-only", 1), ("200000, read-write", 1)
    ]  # fmt: skip
    uses = DataUse.objects.filter(run__campaign=campaign)
    assert {(use.run.cell["script"], use.means, use.wrote) for use in uses} == {
        ("read-only", "pristine", False),
        ("read-write", "copy", True),
    }
