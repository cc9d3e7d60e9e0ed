"""Random campaigns have the same table and sentences in the database as in tests/truth/sentences, which need none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apps.accounts.models import User
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host
from apps.results import queries
from apps.results.answers.judgements import judgements
from apps.results.models import Measurement
from tests.rows.factories import make_host, make_workload
from tests.truth.sentences.random_campaigns import MOST_HOSTS, Random, random_campaign
from tests.truth.sentences.rendering import findings, table_of

pytestmark = pytest.mark.django_db
CAMPAIGNS, FEW = range(1_000_000, 1_000_300), 30


def save(made: Random, by: User) -> Campaign:
    campaign = made.campaign
    campaign.created_by, campaign.workload = by, make_workload(by=by, **rate_of(campaign))
    campaign.save()
    campaign.further_hosts.set(made.hosts[1:])
    for run in made.runs:
        run.spec, run.digest = {}, ""
    Run.objects.bulk_create(made.runs)
    Measurement.objects.bulk_create(
        Measurement(run_id=run, step="measure", name=name, unit="", better="", value=value)
        for name, values in made.values.items()
        for run, value in values.items()
    )
    if made.newest:
        made.newest.save()
    return Campaign.objects.get(pk=campaign.pk)


def rate_of(campaign: Campaign) -> dict[str, int]:
    return {name: value for name, value in campaign.steps[0]["options"].items() if name == "rate"}


def check(numbers: range, by: User, hosts: list[Host]) -> None:
    for number in numbers:
        made = random_campaign(number, hosts)
        table, written = table_of(made), findings(made, table_of(made))

        saved = save(made, by)
        stored = queries.campaign_table(saved)

        assert replace(stored, definition="", overheads={}) == table, number
        topics = {finding.topic for finding in written}
        by_topic = [finding.sentence for finding in judgements(saved, stored) if finding.topic in topics]
        assert sorted(by_topic) == sorted(finding.sentence for finding in written), number


@pytest.fixture
def hosts() -> list[Host]:
    return [make_host(name=f"db{number + 1}") for number in range(MOST_HOSTS)]


@pytest.mark.thorough
def test_random_campaigns_have_the_same_sentences_in_the_database(admin: User, hosts: list[Host]) -> None:
    check(CAMPAIGNS[:FEW], admin, hosts)


@pytest.mark.slow
def test_hundreds_of_random_campaigns_have_the_same_sentences(admin: User, hosts: list[Host]) -> None:
    check(CAMPAIGNS[FEW:], admin, hosts)
