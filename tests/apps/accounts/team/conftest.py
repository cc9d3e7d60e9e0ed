"""Two teams, and a host of one of them."""

from __future__ import annotations

import pytest

from apps.accounts.models import Team
from apps.hosts.models import Host
from tests.rows.factories import make_host


@pytest.fixture
def storage(db: None) -> Team:
    return Team.objects.create(name="storage")


@pytest.fixture
def network(db: None) -> Team:
    return Team.objects.create(name="network")


@pytest.fixture
def host(storage: Team) -> Host:
    return make_host("raid-01", team=storage)
