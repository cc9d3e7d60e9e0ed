"""Events of a hostile host while users follow its run: Home, the run's page, its polling and its stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.wire.protocol import canonical, checksum
from apps.campaigns.execution import received
from apps.campaigns.models import Run, RunEvent
from apps.results.live import hub as hubs
from apps.results.live import news
from apps.results.live.hub import Hub
from apps.results.pages import live_views
from tests.rows.factories import make_campaign

pytestmark = pytest.mark.django_db(transaction=True)
RATE = {"step": "measure", "source": "pgbench", "t": 9.0, "values": {"tps": 7.0}}
# Each keeps the rules, or was stored before there were rules.
ODD: dict[str, tuple[str, Any]] = {
    "a rate without a number": ("sample", RATE | {"values": {"tps": float("nan")}}),
    "no numbers": ("sample", RATE | {"values": {}}),
    "a source of nobody": ("sample", RATE | {"source": "nobody"}),
    "a huge number": ("sample", RATE | {"values": {"tps": 1e300}}),
    "a progress from beyond": ("progress", {"done": 2, "eta_s": -1e9, "note": "n" * 60_000, "more": [[]]}),
}
OLD: dict[str, tuple[str, Any]] = {
    "an integer of 80 bits": ("sample", RATE | {"values": {"tps": 2**80}}),
    "an integer of 400 digits": ("sample", RATE | {"values": {"tps": 10**400}}),
    "a sample without a time": ("sample", {"step": "measure", "source": "pgbench", "values": {"tps": 1.0}}),
    "a write without a value": ("write", {"key": "vm.swappiness"}),
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A run that is active; users follow it in a hub of their own."""
    monkeypatch.setattr(hubs, "POLL_S", 0.02)
    monkeypatch.setattr(hubs, "BEAT_S", 0.3)
    monkeypatch.setattr(live_views, "hub", Hub(2))
    run: Run = make_campaign("running").runs.order_by("position")[0]
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING, started_at=timezone.now(), step="measure")
    run.refresh_from_db()
    yield run
    live_views.hub.close()


def store(run: Run, kind: str, data: Any) -> int:
    seq = run.last_seq + 1
    RunEvent.objects.create(run=run, seq=seq, at=timezone.now(), kind=kind, data=data)
    Run.objects.filter(pk=run.pk).update(last_seq=seq)
    run.refresh_from_db()
    return seq


def parsed(kind: str, data: Any) -> Any:
    """The data as the server takes them from a line of events."""
    record = {"seq": 1, "boot_id": "b", "wall": 1.7e9, "mono": 1.0, "kind": kind, "data": data}
    event = received.event(canonical({**record, "crc": checksum(record)}))
    assert event, data
    return event["data"]


def heard(chunk: bytes) -> Any:
    line = next(line for line in chunk.splitlines() if line.startswith(b"data: ") and line != b"data: {}")
    return orjson.loads(line[6:])


def followed(client: Client, run: Run, kind: str, data: Any) -> tuple[list[Any], list[Any]]:
    """Let a user follow the run while its host sends this event and then an honest one. Returns the lines and the
    samples that the user gets."""
    odd = store(run, kind, data)
    stream = client.get(reverse("run_stream", args=[run.pk]), {"after": odd - 1})
    chunks = iter(stream)
    next(chunks)
    joined = heard(next(chunks))
    store(run, kind, data)
    honest = store(run, "log", {"message": "still there"})
    lines, samples = joined["lines"], joined["samples"]
    while honest not in [line["seq"] for line in lines]:
        message = next(chunks)
        if b"event: news" in message:
            lines, samples = lines + heard(message)["lines"], samples + heard(message)["samples"]
        assert b"event: again" not in message
    stream.close()
    return lines, samples


@pytest.mark.thorough
@pytest.mark.parametrize("odd", [*ODD, *OLD])
def test_a_user_who_follows_the_run_gets_the_other_events(admin_client: Client, run: Run, odd: str) -> None:
    kind, data = (ODD | OLD)[odd]

    lines, samples = followed(admin_client, run, kind, parsed(kind, data) if odd in ODD else data)

    assert admin_client.get(reverse("run_live", args=[run.pk])).status_code == 200
    assert [line["seq"] for line in lines + samples].count(run.last_seq) == 1
    if odd in ("an integer of 400 digits", "a sample without a time", "a write without a value"):
        assert [line["text"] for line in lines if "cannot be shown" in line["text"]]


@pytest.mark.thorough
@pytest.mark.parametrize("odd", ODD)
def test_home_and_the_pages_of_the_run_show_it(admin_client: Client, run: Run, odd: str) -> None:
    """One sample without a number was a 500 of Home, for everybody."""
    kind, data = ODD[odd]
    store(run, kind, parsed(kind, data))

    for address in (
        reverse("home"),
        reverse("run_detail", args=[run.pk]),
        reverse("campaign_detail", args=[run.campaign_id]),
    ):
        assert admin_client.get(address).status_code == 200, address


def test_a_user_who_joins_late_gets_a_bounded_number_of_bytes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "MOST_EVENT_BYTES", 100_000)
    for _ in range(60):
        store(run, "log", {"message": "m" * 4000})

    message = news.of_run(run, 0)

    assert message["skipped"]
    assert 20 <= len(message["lines"]) < 40
    assert message["lines"][-1]["seq"] == run.last_seq
