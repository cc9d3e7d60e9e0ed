"""The active-set sweep on a host of half a gigabyte: two gigabytes of data, made beforehand, read and written."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from apps.accounts.models import User
from apps.campaigns import preparing, services
from apps.campaigns.models import Campaign, DataCopy, DataUse
from apps.hosts.models import Host
from apps.results import queries
from tests import campaigns

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

TIMEOUT_S = 3600


def finish(campaign: Campaign) -> Campaign:
    def ended() -> bool:
        campaign.refresh_from_db()
        return campaign.ended_at is not None and not campaign.runs.filter(ingested_at=None).exists()

    campaigns.drive(ended, timeout_s=TIMEOUT_S)
    runs = list(campaign.runs.all())
    assert [run.outcome for run in runs] == ["ok"] * len(runs), [run.error for run in runs]
    return campaign


def test_the_recipe_finds_where_the_rows_in_use_outgrow_memory(
    host: Host, admin: User, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = services.create_from_recipe(by=admin, host=host, recipe="active-set", repetitions=1, seed=1)
    assert campaign.dataset is not None
    preparation = finish(preparing.prepare(campaign.dataset, host, by=admin))
    services.start_campaign(campaign, by=admin)
    finish(campaign)

    copy = DataCopy.objects.get()
    assert copy.size > 3.5 * host.facts["memory"]["total_kb"] * 1024 and copy.state == "pristine"
    assert copy.made_by == preparation.runs.get()
    means = {use.run.cell["script"]: use.means for use in DataUse.objects.filter(run__campaign=campaign)}
    assert means == {"read-only": "pristine", "read-write": "copy"}
    tps: dict[str, Any] = {level.label: level.mean for level in queries.campaign_table(campaign).levels}
    with capsys.disabled():
        figures = {label: round(value) for label, value in tps.items()}
        sys.stdout.write(f"\n{figures}\n{copy.seconds} {copy.size}\n")
    assert tps["10 % of memory, read-only"] > 1.5 * tps["400 % of memory, read-only"]
    assert tps["10 % of memory, read-only"] > tps["10 % of memory, read-write"]
