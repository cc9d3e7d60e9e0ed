"""The audit of a search reports each kind of harm that a killed server could do, and none for an intact search."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.campaigns import lifecycle
from apps.campaigns import services as campaigns
from apps.campaigns.design.steps import single
from apps.campaigns.library import workloads
from apps.campaigns.models import Run
from apps.hosts.models import Host
from apps.searches import rounds, services
from apps.searches.models import Search, Trial
from tests.faults.searches.audit import of_search
from tests.faults.searches.besieged import DEFAULT, SPACE
from tests.faults.searches.findings import SearchFindings
from tests.servers.campaigns import PGBENCH, drive

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def search(host: Host, admin: User) -> Search:
    """One round of real runs, and a confirmation if a candidate was above the default."""
    workload = workloads.save_workload("audited", single("pgbench", PGBENCH | {"time_s": 1}), by=admin)
    factor = {"name": "values", "levels": [{"label": "default", "set": DEFAULT}]}
    about = {"name": "audited", "question": "Which work_mem is best?", "seed": 1}
    base = campaigns.create_campaign(by=admin, host=host, workload=workload, factors=[factor], **about)
    sizes = {"candidates": 3, "blocks": 1, "finalists": 1, "confirmation_blocks": 3}
    search = services.create_search(base, by=admin, name="audited", space=SPACE, budget_runs=10, seed=3, **sizes)

    def step() -> bool:
        for key in rounds.due():
            rounds.advance(key, timezone.now())
        search.refresh_from_db()
        return search.state != Search.State.RUNNING

    drive(step, timeout_s=180)
    return search


def trial(search: Search, number: int) -> Trial:
    return search.trials.get(number=number)


def runs_of_round(search: Search) -> list[Run]:
    return list(search.rounds.get(number=1).campaign.runs.exclude(cell={"values": "default"}))


def lose_a_trial(search: Search) -> None:
    trial(search, 2).delete()


def lose_a_result(search: Search) -> None:
    search.trials.filter(number=2).update(state=Trial.State.ASKED)


def lose_a_run(search: Search) -> None:
    runs_of_round(search)[0].delete()


def lose_a_round(search: Search) -> None:
    search.rounds.filter(number=1).update(state="running")


def double_a_campaign(search: Search) -> None:
    lifecycle.clone_campaign(search.campaign, by=search.owner, name=f"{search.name}: round 1")


def double_a_run(search: Search) -> None:
    one, other, *_ = runs_of_round(search)
    Run.objects.filter(pk=one.pk).update(cell=other.cell)


def swap_the_labels_of_two_runs(search: Search) -> None:
    one, other, *_ = runs_of_round(search)
    Run.objects.filter(pk=one.pk).update(cell=other.cell)
    Run.objects.filter(pk=other.pk).update(cell=one.cell)


def swap_the_values_of_two_trials(search: Search) -> None:
    one, other = trial(search, 1), trial(search, 2)
    search.trials.filter(pk=one.pk).update(values={})
    search.trials.filter(pk=other.pk).update(values=one.values)
    search.trials.filter(pk=one.pk).update(values=other.values)


def swap_the_figures_of_two_trials(search: Search) -> None:
    one, other = trial(search, 1), trial(search, 2)
    search.trials.filter(pk=one.pk).update(log_ratio=other.log_ratio)
    search.trials.filter(pk=other.pk).update(log_ratio=one.log_ratio)


HARMS = [
    (lose_a_trial, "lost"),
    (lose_a_result, "lost"),
    (lose_a_run, "lost"),
    (lose_a_round, "lost"),
    (double_a_campaign, "doubled"),
    (double_a_run, "doubled"),
    (swap_the_labels_of_two_runs, "misattributed"),
    (swap_the_values_of_two_trials, "misattributed"),
    (swap_the_figures_of_two_trials, "misattributed"),
]


def test_each_kind_of_harm_is_reported_and_none_for_an_intact_search(search: Search) -> None:
    assert of_search(search).harms == []
    for harm, kind in HARMS:
        assert getattr(harmed(search, harm), kind) != [], harm.__name__


def harmed(search: Search, harm: Callable[[Search], None]) -> SearchFindings:
    """The findings after a harm that is undone again."""
    with transaction.atomic():
        harm(search)
        findings = of_search(search)
        transaction.set_rollback(True)
    return findings
