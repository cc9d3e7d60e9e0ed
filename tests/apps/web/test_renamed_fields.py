"""A renamed field of the API keeps its earlier name for one release: in the schema and in responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apps.decisions.models import Review
from apps.hosts.models import Host
from tests.rows import filled
from tests.rows.factories import browser


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
        f"campaigns/{finished.pk}/": {"design_told": "design_sentences"},
        f"campaigns/{team['draft'].pk}/checks/": {"found": "actual"},
        f"campaigns/{finished.pk}/results/": {"unplanned_look": "unplanned_analysis"},
        f"runs/{team['ok_run'].pk}/proof/": {"found": "actual", "looks": "checks"},
        f"compare/?of=campaign:{finished.pk}&of=campaign:{team['running'].pk}": {"words": "label"},
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
