"""A private team with one member, who owns a host with a finished campaign."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from apps.accounts.models import Role, Team, User
from apps.campaigns.models import Campaign
from apps.hosts.models import Host
from tests.rows.factories import make_campaign, make_host, make_member, make_user


@dataclass
class Private:
    team: Team
    member: User
    stranger: User
    host: Host
    campaign: Campaign


@pytest.fixture
def private(db: None) -> Private:
    team = Team.objects.create(name="secrets", private=True)
    host = make_host("vault-01", team=team)
    member = make_member(team, Role.ADMIN, house=Role.TUNER)
    campaign = make_campaign(Campaign.State.FINISHED, host=host, by=member)
    return Private(team, member, make_user(Role.TUNER), host, campaign)
