"""A host chooses the texts of events. However long, they neither fill a page nor control what is shown."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.models import Role
from apps.campaigns import queries
from apps.campaigns.models import Campaign, Run, RunEvent
from apps.results.live import news
from tests.rows.factories import browser, make_campaign, make_user

EVENTS = 30
HOSTILE = "\x1b[2J\x9b31m\u202e<script>alert(1)</script>{{ 7 }}"
LONG = HOSTILE + "<" * 60_000
MOST_PAGE = 500_000


@pytest.fixture
def run(db: None) -> Run:
    return make_campaign(Campaign.State.FINISHED).runs.order_by("position")[0]


def record(run: Run, kind: str, **data: Any) -> None:
    rows = [RunEvent(run=run, seq=seq, at=timezone.now(), kind=kind, data=data) for seq in range(1, EVENTS + 1)]
    RunEvent.objects.bulk_create(rows)
    Run.objects.filter(pk=run.pk).update(last_seq=EVENTS)


def page(run: Run, tab: str) -> str:
    answer = browser(make_user(Role.VIEWER)).get(f"/runs/{run.pk}/?tab={tab}")
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize(
    ("kind", "data", "tab"),
    [
        ("log", {"message": LONG, "level": "info"}, "log"),
        ("log", {"message": LONG, "steady": {"reached": False}}, "chart"),
        ("command", {"purpose": HOSTILE, "argv": [LONG], "env": {}}, "commands"),
        ("command", {"purpose": HOSTILE, "argv": [LONG], "env": {}}, "log"),
        ("write", {"setting": "sysctl", "key": HOSTILE, "original": LONG, "wanted": "", "found": ""}, "settings"),
    ],
)
def test_long_texts_of_a_host_do_not_fill_a_page(
    run: Run, monkeypatch: pytest.MonkeyPatch, kind: str, data: dict[str, Any], tab: str
) -> None:
    monkeypatch.setattr(queries, "MOST_EVENT_BYTES", 130_000)
    run.spec["steps"][0]["until"] = {"cv": 0.05}
    run.save()
    record(run, kind, **data)

    text = page(run, tab)

    assert "alert(1)" in text
    assert len(text) < MOST_PAGE
    assert [each for each in ("<script>alert", "\x1b", "\x9b", "\u202e") if each in text] == []


def test_long_texts_of_a_host_do_not_fill_the_live_stream(run: Run) -> None:
    record(run, "log", message=LONG, level="info")
    run.refresh_from_db()

    lines = news.of_run(run, 0)["lines"]

    assert len(lines) == EVENTS
    assert max(len(line["text"]) for line in lines) < 2000


def test_long_texts_of_a_host_come_in_many_responses(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "MOST_EVENT_BYTES", 130_000)
    record(run, "log", message=LONG, level="info")
    client, after, sequence = browser(make_user(Role.VIEWER)), 0, list[int]()
    while True:
        answer = client.get(f"/api/v1/runs/{run.pk}/events/?after={after}")
        assert len(answer.content) < MOST_PAGE
        sequence += [event["seq"] for event in answer.json()["results"]]
        after = answer.json()["next_after"]
        if answer.json()["ended"]:
            break

    assert sequence == list(range(1, EVENTS + 1))
