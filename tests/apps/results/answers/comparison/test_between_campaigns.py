"""The history that campaigns of several hosts are compared with."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.campaigns.models import Campaign
from apps.results.answers.comparison import between_campaigns
from tests.rows import split

pytestmark = pytest.mark.django_db


def test_the_history_of_several_hosts_is_their_newest_runs(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(between_campaigns, "NEWEST", 12)
    hosts = [split.host(name) for name in ("db1", "db2", "db3")]
    campaigns = [split.finished(admin, host, name=host.name) for host in hosts]
    for place, campaign in enumerate(campaigns):
        _end_at(campaign, hours_ago=place + 1)

    cells = between_campaigns.history([host.pk for host in hosts], {campaigns[0].pk}, "measure", "latency_avg")

    assert {cell.campaign for cell in cells} == {f"{hosts[1].pk} {campaigns[1].pk}"}
    assert sum(len(cell.values) for cell in cells) == 12


def test_without_hosts_there_is_no_history() -> None:
    assert between_campaigns.history([], [], "measure", "tps") == []


def _end_at(campaign: Campaign, hours_ago: float) -> None:
    campaign.runs.update(ended_at=timezone.now() - timedelta(hours=hours_ago))
