"""A renamed field of the API keeps its earlier name for one release: in the schema, in responses and in requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apps.accounts.models import Role, User
from apps.campaigns.models import Campaign
from apps.decisions.models import Review
from apps.hosts.models import Host
from tests.rows import filled, populate
from tests.rows.factories import browser, make_host

LISTED = [{"pool": "8GB"}, {"pool": "1GB"}]
LEVELS = [{"label": size, "set": {"settings.postgresql.shared_buffers": size}} for size in ("1GB", "8GB")]


def objects(part: Any) -> Iterator[dict[str, Any]]:
    """Every object of a response, including those inside others."""
    if isinstance(part, dict):
        yield part
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from objects(inner)


@pytest.mark.thorough
def test_responses_have_both_names_with_the_same_value(db: None) -> None:
    team = filled.team()
    client, finished, decision = browser(team["admin"]), team["finished"], team["decision"]
    Host.objects.update(health=[{"check": "swap", "ok": True, "found": "0 MiB", "wanted": ""}])
    review = {"verdict": Review.Verdict.OPEN, "text": "Inconclusive."}
    Review.objects.create(decision=decision, campaign=team["running"], **review)
    expected = {
        f"campaigns/{finished.pk}/": {"cells": "combinations", "design_told": "design_sentences"},
        f"campaigns/{team['draft'].pk}/preview/": {"cell": "levels"},
        f"campaigns/{team['draft'].pk}/checks/": {"found": "actual"},
        f"campaigns/{finished.pk}/results/": {"unplanned_look": "unplanned_analysis"},
        f"campaigns/{finished.pk}/summary/": {"cells": "by_level"},
        f"runs/?campaign={finished.pk}": {"cell": "levels"},
        f"runs/{team['ok_run'].pk}/": {"cell": "levels"},
        f"runs/{team['ok_run'].pk}/proof/": {"found": "actual", "looks": "checks"},
        f"runs/{team['ok_run'].pk}/observed/": {"within": "findings"},
        f"compare/?of=campaign:{finished.pk}&of=campaign:{team['running'].pk}": {"words": "label"},
        f"imports/{team['upload'].pk}/": {"cell": "levels"},
        f"hosts/{team['host'].pk}/": {"found": "actual"},
        f"profiles/{team['profile'].pk}/dry-run/?host={team['host'].pk}": {"found": "present"},
        f"decisions/{decision.pk}/": {"words": "text"},
        f"decisions/{decision.pk}/events/": {"words": "text"},
        f"decisions/{decision.pk}/drift/": {"found": "actual", "asked": "queried"},
        "timeline/": {"words": "text"},
    }

    for address, names in expected.items():
        answer = client.get(f"/api/v1/{address}").json()
        for earlier, name in names.items():
            values = [(each[earlier], each[name]) for each in objects(answer) if earlier in each and name in each]
            assert values, (address, name)
            assert all(one == other for one, other in values), (address, name)


@pytest.mark.parametrize(
    "sent", [{"cells": LISTED}, {"combinations": LISTED}, {"cells": LISTED, "combinations": LISTED}]
)
def test_requests_may_use_either_name(db: None, sent: dict[str, Any]) -> None:
    created = create(populate.user(Role.OPERATOR), sent)

    assert created.status_code == 201, created.content
    assert Campaign.objects.get().cells == LISTED


def test_a_request_with_both_names_and_different_values_is_refused(db: None) -> None:
    refused = create(populate.user(Role.OPERATOR), {"cells": LISTED[:1], "combinations": LISTED})

    assert (refused.status_code, refused.json()["field"]) == (400, "cells")
    assert refused.json()["title"] == "it differs from combinations, its new name; send only combinations"
    assert not Campaign.objects.exists()


def test_a_value_that_is_not_valid_is_refused_under_the_new_name(db: None) -> None:
    refused = create(populate.user(Role.OPERATOR), {"cells": "all"})

    assert (refused.status_code, refused.json()["field"]) == (400, "combinations")


def create(by: User, fields: dict[str, Any]) -> Any:
    factors = [{"name": "pool", "levels": LEVELS}]
    body = {"recipe": "cpu-scaling", "host": make_host().pk, "factors": factors, "design": "list"}
    return browser(by).post("/api/v1/campaigns/", body | fields)
