"""Activity of other databases on a shared server: a sentence on the page of a run, and a warning in the verdict."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns.models import Campaign, Run
from apps.results.answers.judgements import judgements
from apps.results.answers.judgements.neighbours import share_of_others
from apps.results.models import StepMeans
from tests.apps.results.answers.judgements.test_judgements import measured
from tests.rows.factories import browser

FAST = {"on": (1000, 1010, 990), "off": (1900, 1920, 1890)}


def means(transactions: float, active_time: float) -> dict[str, float]:
    """1000 own transactions per second, whose sessions are active all the time."""
    own = {"pg_stat_database.xact_commit": 990.0, "pg_stat_database.xact_rollback": 10.0}
    others = {"transactions": transactions, "active_time": active_time}
    return {
        **own,
        "pg_stat_database.active_time": 1000.0,
        **{f"pg_stat_database_others.{name}": v for name, v in others.items()},
    }


def campaign(by: User, **target: str) -> Campaign:
    """A campaign whose second run has a noisy neighbour, with a long statement and few transactions."""
    made = measured(FAST, by)
    Campaign.objects.filter(pk=made.pk).update(target=target)
    for run in made.runs.order_by("position"):
        data: dict[str, Any] = {"postgresql": means(0.5, 1000.0 if run.position == 1 else 1.0)}
        StepMeans.objects.create(run=run, step="measure", seconds=10.0, data=data)
    return Campaign.objects.get(pk=made.pk)


@pytest.mark.parametrize(
    ("data", "share"),
    [(means(1000, 0), 0.5), (means(0, 3000), 0.75), (means(0, 0), 0.0), ({"pg_stat_database.xact_commit": 9.0}, None)],
)
def test_the_share_of_others_is_the_larger_one_of_transactions_and_of_session_time(
    data: dict[str, float], share: float | None
) -> None:
    assert share_of_others(data) == share


@pytest.mark.django_db
def test_a_verdict_warns_of_runs_with_noisy_neighbours(admin: User) -> None:
    (warning,) = [each for each in judgements(campaign(admin, remote="shop")) if each.topic == "neighbours"]

    assert warning.tone == "warning"
    assert "in 1 of 6 runs, other databases caused at least 5 % of the server's activity" in warning.sentence
    assert "up to 50 % in run 2" in warning.sentence


@pytest.mark.django_db
def test_the_warning_is_among_the_most_important_findings_of_the_campaign(admin: User) -> None:
    made = campaign(admin, remote="shop")

    page = browser(admin).get(reverse("campaign_detail", args=[made.pk])).content.decode()

    important, _, details = page.partition("Details:")
    assert "Noisy neighbours" in important and "Noisy neighbours" not in details
    assert "the remote server <code>shop</code>" in page


@pytest.mark.django_db
def test_a_private_cluster_has_no_neighbours(admin: User) -> None:
    assert "neighbours" not in [each.topic for each in judgements(campaign(admin))]


@pytest.mark.django_db
def test_the_page_of_a_run_names_the_activity_of_other_databases_and_the_machine_of_each_collector(admin: User) -> None:
    run = campaign(admin, remote="shop").runs.get(position=1)
    Run.objects.filter(pk=run.pk).update(spec={**run.spec, "target": {"kind": "remote_server", "name": "shop"}})

    page = " ".join(browser(admin).get(reverse("run_detail", args=[run.pk])).content.decode().split())

    assert "0.5 transactions per second, with 1 session active on average: 50 % of its activity" in page
    assert f"are those of the client host {run.host.name}" in page
