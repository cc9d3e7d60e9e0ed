"""Server-sent events: the content of a stream, where it resumes, and when it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.team import people
from apps.campaigns.execution import nudges
from apps.campaigns.models import Run, RunEvent
from apps.results.live import hub as hubs
from apps.results.live import news
from apps.results.live.hub import AGAIN, BEAT, Hub, Word
from apps.results.pages import live_views
from tests.rows import filled


class Told:
    """A watch whose events the test sets."""

    def __init__(self, seq: int = 0) -> None:
        self.seq, self.words = seq, list[Word]()

    def read_news(self) -> Word | None:
        return self.words.pop(0) if self.words else None


@pytest.fixture(autouse=True)
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "POLL_S", 0.02)
    # Where a test reads the next event, no heartbeat may come before it, however slowly the news are read.
    monkeypatch.setattr(hubs, "BEAT_S", 60.0)


@pytest.fixture
def make_hub() -> Iterator[Callable[[int], Hub]]:
    made: list[Hub] = []

    def make(seats: int) -> Hub:
        made.append(Hub(seats))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_one_query_serves_all_viewers_and_the_stream_ends_with_the_last_message(
    make_hub: Callable[[int], Hub],
) -> None:
    hub, watch = make_hub(9), Told()
    seats = [hub.join("run", watch) for _ in range(5)]
    watch.words = [Word(1, {"seq": 1}), Word(2, {"seq": 2}, last=True)]

    heard = [b"".join(seat) for seat in seats if seat]

    assert len(heard) == 5 and len(set(heard)) == 1
    assert heard[0] == (
        b'retry: 2000\n\nid: 1\nevent: news\ndata: {"seq":1}\n\nid: 2\nevent: news\ndata: {"seq":2}\n\n' + AGAIN
    )


class Poisoned(Told):
    """A watch of what no JSON can say, as a host once sent it."""

    def read_news(self) -> Word | None:
        return Word(1, {"value": 2**80})


def test_a_message_that_cannot_be_encoded_ends_its_own_stream_only(make_hub: Callable[[int], Hub]) -> None:
    hub, watch = make_hub(9), Told()
    bad, good = hub.join("bad", Poisoned()), hub.join("good", watch)
    assert bad and good

    assert b"".join(bad).endswith(AGAIN)
    watch.words = [Word(1, {"seq": 1}, last=True)]

    assert b'data: {"seq":1}' in b"".join(good)


def test_a_stream_has_heartbeats_while_there_are_no_events(
    make_hub: Callable[[int], Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "BEAT_S", 0.1)
    seat = make_hub(1).join("run", Told())
    assert seat

    stream = iter(seat)
    next(stream)

    assert next(stream) == BEAT


def test_a_later_viewer_receives_only_events_after_its_position(make_hub: Callable[[int], Hub]) -> None:
    hub, watch = make_hub(2), Told(seq=10)
    first = hub.join("run", watch)
    assert first
    stream = iter(first)
    next(stream)
    watch.words = [Word(12, {"seq": 12})]
    next(stream)

    second = hub.join("run", Told(seq=11))
    assert second
    watch.words = [Word(13, {"seq": 13}, last=True)]

    assert second.seq == 12
    assert b'{"seq":12}' not in (heard := b"".join(second)) and b'{"seq":13}' in heard


def test_a_full_hub_refuses_viewers_until_one_leaves(make_hub: Callable[[int], Hub]) -> None:
    hub = make_hub(1)
    taken = hub.join("run", Told())
    assert taken and hub.join("run", Told()) is None

    taken.close()
    taken.close()

    assert hub.viewers == 0 and hub.join("other", Told())


def test_a_stream_of_a_slow_viewer_starts_again(make_hub: Callable[[int], Hub]) -> None:
    topic = hubs.Topic(watch := Told())
    watch.words = [Word(seq, {"seq": seq}) for seq in range(hubs.MOST_MESSAGES + 1)]
    for _ in range(hubs.MOST_MESSAGES + 1):
        topic.publish_news()

    assert topic.after(0, 0) == ([], True)
    assert len(topic.after(1, 0)[0]) == hubs.MOST_MESSAGES


def test_a_stopping_server_ends_its_streams(make_hub: Callable[[int], Hub]) -> None:
    hub = make_hub(1)
    seat = hub.join("run", Told())
    assert seat
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.extend(seat), daemon=True)
    reader.start()

    hub.stop()
    reader.join(60)

    assert received and received[-1] == AGAIN
    assert hub.join("run", Told()) is None


def test_the_thread_ends_with_its_last_viewer(make_hub: Callable[[int], Hub]) -> None:
    hub = make_hub(1)
    seat = hub.join("run", Told())
    assert seat
    thread = hub._thread
    assert thread

    seat.close()
    thread.join(60)

    assert not thread.is_alive()


@pytest.fixture
def team(transactional_db: None) -> dict[str, Any]:
    return filled.team()


@pytest.fixture
def viewer(client: Client, team: dict[str, Any], make_hub: Callable[[int], Hub], monkeypatch: Any) -> Client:
    monkeypatch.setattr(live_views, "hub", make_hub(2))
    client.force_login(team["operator"])
    return client


def tell(run: Run, kind: str, data: dict[str, Any], **fields: Any) -> int:
    run.refresh_from_db()
    seq = run.last_seq + 1
    RunEvent.objects.create(run=run, seq=seq, at=timezone.now(), kind=kind, data=data)
    Run.objects.filter(pk=run.pk).update(last_seq=seq, **fields)
    return seq


def sample(tps: float) -> dict[str, Any]:
    return {"step": "measure", "source": "pgbench", "t": 9.0, "values": {"tps": tps}}


def heard(content: bytes) -> list[Any]:
    return [
        orjson.loads(line[6:]) for line in content.splitlines() if line.startswith(b"data: {") and line != b"data: {}"
    ]


def test_a_run_s_stream_begins_at_the_event_of_the_page_and_continues_with_new_ones(
    viewer: Client, team: dict[str, Any]
) -> None:
    run = team["live_run"]
    last_seq = run.last_seq
    missed = tell(run, "log", {"message": "while the connection was lost"})
    answer = viewer.get(reverse("run_stream", args=[run.pk]), headers={"Last-Event-ID": str(last_seq)})
    stream = iter(answer)
    first = heard(next(stream) + next(stream))

    point = tell(run, "sample", sample(12345.0))
    second = heard(next(stream))
    answer.close()

    assert answer["Content-Type"] == "text/event-stream" and answer["Cache-Control"] == "no-store"
    assert [line["seq"] for line in first[0]["lines"]] == [missed]
    assert [(each["seq"], each["values"]["tps"]) for each in second[0]["samples"]] == [(point, 12345.0)]


@pytest.mark.thorough
def test_a_run_s_stream_ends_with_the_run(viewer: Client, team: dict[str, Any]) -> None:
    run = team["live_run"]
    answer = viewer.get(reverse("run_stream", args=[run.pk]), {"after": run.last_seq})
    stream = iter(answer)
    next(stream), next(stream)

    tell(run, "log", {"message": "done"}, state=Run.State.ENDED, outcome=Run.Outcome.OK)

    rest = b"".join(stream)
    assert heard(rest)[-1]["ended"] and rest.endswith(AGAIN)
    answer.close()


def test_an_ended_run_is_sent_once_and_takes_no_seat(viewer: Client, team: dict[str, Any]) -> None:
    run = viewer.get(reverse("run_stream", args=[team["ok_run"].pk])).getvalue()
    campaign = viewer.get(reverse("campaign_stream", args=[team["finished"].pk])).getvalue()

    assert heard(run)[0]["ended"] and not heard(campaign)[0]["moving"]
    assert live_views.hub.viewers == 0


def test_a_campaign_s_stream_sends_its_state_at_once_and_each_change(
    viewer: Client, team: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news, "CAMPAIGN_EVERY_S", 0.02)
    answer = viewer.get(reverse("campaign_stream", args=[team["running"].pk]))
    stream = iter(answer)
    before = heard(next(stream) + next(stream))[0]

    Run.objects.filter(pk=team["live_run"].pk).update(step="cool")
    after = heard(next(stream))[0]
    answer.close()

    assert before["seq"] != after["seq"] and after["active"][0][2] == "cool"
    assert viewer.get(reverse("campaign_live", args=[team["running"].pk])).json() == after


@pytest.mark.parametrize("way", ["stream", "polling"])
def test_a_run_is_followed_closely_while_a_user_watches_its_campaign(
    viewer: Client, team: dict[str, Any], way: str
) -> None:
    run, campaign = team["live_run"].pk, team["running"].pk
    before = nudges.is_watched(run)

    if way == "stream":
        news.CampaignWatch(campaign, 0).read_news()
    else:
        viewer.get(reverse("campaign_live", args=[campaign]))

    assert (before, nudges.is_watched(run)) == (False, True)


def test_a_page_without_a_seat_is_sent_to_polling(viewer: Client, team: dict[str, Any]) -> None:
    url = reverse("run_stream", args=[team["live_run"].pk])
    seated = [viewer.get(url) for _ in range(2)]

    refused = viewer.get(url)

    assert (refused.status_code, refused["Retry-After"]) == (503, "30")
    assert viewer.get(reverse("run_live", args=[team["live_run"].pk])).status_code == 200
    for each in seated:
        each.close()
    assert live_views.hub.viewers == 0


def test_a_stream_that_cannot_begin_takes_no_seat(
    viewer: Client, team: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(run: Run, after: int) -> dict[str, Any]:
        raise TypeError("a defect")

    monkeypatch.setattr(news, "of_run", fail)

    with pytest.raises(TypeError, match="a defect"):
        viewer.get(reverse("run_stream", args=[team["live_run"].pk]))

    assert live_views.hub.viewers == 0


def test_a_stream_ends_within_5_minutes_and_a_deactivated_user_gets_no_further_one(
    viewer: Client, team: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permissions are checked when a stream begins."""
    assert hubs.LIFE_S <= 300
    monkeypatch.setattr(hubs, "LIFE_S", 0.5)
    monkeypatch.setattr(hubs, "BEAT_S", 0.1)  # a stream looks at its age at each heartbeat
    url = reverse("run_stream", args=[team["live_run"].pk])
    answer = viewer.get(url)
    stream = iter(answer)
    next(stream)

    people.change(team["operator"], by=team["admin"], is_active=False)
    rest = b"".join(stream)
    answer.close()

    assert rest.endswith(AGAIN)
    assert viewer.get(url).status_code == 302


def test_a_stream_requires_a_login(team: dict[str, Any], client: Client) -> None:
    assert client.get(reverse("run_stream", args=[team["live_run"].pk])).status_code == 302
