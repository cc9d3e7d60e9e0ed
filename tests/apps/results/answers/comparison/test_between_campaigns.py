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


def test_the_history_has_as_many_of_the_newest_runs_of_each_host(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(between_campaigns, "NEWEST", 24)
    compared, other = split.host("db1"), split.host("db2")
    own, newest, older = (split.finished(admin, host, name=name) for host, name in (
        (compared, "compared"), (compared, "newest"), (compared, "older"),
    ))  # fmt: skip
    of_other = split.finished(admin, other, name="of the other host")
    for place, campaign in enumerate((own, newest, older, of_other)):
        _end_at(campaign, hours_ago=place + 1)

    cells = between_campaigns.figure_history([compared.pk, other.pk], {own.pk}, "measure", "latency_avg")

    counts: dict[str, int] = {}
    for cell in cells:
        counts[cell.campaign] = counts.get(cell.campaign, 0) + len(cell.values)
    assert counts == {f"{compared.pk} {newest.pk}": 12, f"{other.pk} {of_other.pk}": 12}


def test_without_hosts_there_is_no_history() -> None:
    assert between_campaigns.figure_history([], [], "measure", "tps") == []


def _end_at(campaign: Campaign, hours_ago: float) -> None:
    campaign.runs.update(ended_at=timezone.now() - timedelta(hours=hours_ago))
