"""Huge pages need root: a pool is proven and restored, an impossible size ends the run with the numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.accounts.models import User
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host
from common.errors import PlanError
from tests.rows.factories import make_host
from tests.servers import campaigns, machine

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("host_wide")]

POOL = Path("/proc/sys/vm/nr_hugepages")
IMPOSSIBLE = 10_000_000  # 20 TB of 2 MB pages
ON_AND_OFF = {
    "name": "huge pages",
    "levels": [
        {"label": "off", "set": {"settings.huge_pages.use": "off"}},
        {"label": "on", "set": {"settings.huge_pages.use": "on", "settings.huge_pages.pool": "auto"}},
    ],
}
TOO_MANY = {
    "name": "huge pages",
    "levels": [
        {
            "label": "impossible",
            "set": {"settings.huge_pages.use": "on", "settings.huge_pages.pool": IMPOSSIBLE},
        },
        {"label": "off", "set": {"settings.huge_pages.use": "off"}},
    ],
}


@pytest.mark.needs("root")
@pytest.mark.proves("huge_pages", where="here")
def test_the_pool_is_enlarged_verified_and_restored(host: Host, admin: User) -> None:
    before = POOL.read_text()

    campaign = campaigns.finish(campaigns.start(host, admin, ON_AND_OFF, time_s=1))

    assert POOL.read_text() == before
    for run in campaign.runs.all():
        assert run.outcome == Run.Outcome.OK, run.error
    granted = campaign.runs.get(cell={"huge pages": "on"})
    assert "huge_pages page size of the shared memory (kB): 2048" in granted.proof["lines"]


@pytest.mark.needs("root")
def test_an_impossible_pool_is_not_in_effect_and_the_campaign_continues(host: Host, admin: User) -> None:
    before = POOL.read_text()
    campaigns.believe_in_memory(host, gib=32 * 1024)

    campaign = campaigns.finish(campaigns.start(host, admin, TOO_MANY, time_s=1))

    refused = campaign.runs.get(cell={"huge pages": "impossible"})
    assert POOL.read_text() == before
    assert refused.outcome == Run.Outcome.NOT_IN_EFFECT
    assert str(IMPOSSIBLE) in refused.error["wanted"]
    assert refused.error["found"]
    assert not refused.measurements.exists()
    assert campaign.runs.get(cell={"huge pages": "off"}).outcome == Run.Outcome.OK
    assert campaign.state == Campaign.State.FINISHED


@pytest.mark.fast
def test_the_user_level_is_refused_while_planning(admin: User) -> None:
    host = make_host(level="user", facts=machine.facts(level="user"))

    with pytest.raises(PlanError, match="root"):
        campaigns.start(host, admin, ON_AND_OFF)
