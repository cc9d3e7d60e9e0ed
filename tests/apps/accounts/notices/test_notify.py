"""Notifications from the event to the receiver: outbox, attempts and messages."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone

from apps.accounts.models import Channel, Delivery, User
from apps.accounts.notices import channels, mail, notify, posting
from apps.accounts.notices.kinds import CHANNELS
from apps.campaigns.execution import campaign_end, halts
from apps.campaigns.models import Run
from apps.hosts import contact
from common.errors import HostError, PlanError, UnreachableError
from tests.apps.accounts.notices.receivers import closed_port, hook, ntfy, post_office
from tests.rows.factories import make_campaign, make_host
from tests.servers.certificates import certificate, server_context

Make = Callable[..., tuple[Channel, str]]


@pytest.fixture
def make_webhook(admin: User) -> Make:
    def make(port: int, *events: str, path: str = "/hooks/one", name: str = "chat") -> tuple[Channel, str]:
        url = f"http://127.0.0.1:{port}{path}"
        return channels.create(by=admin, name=name, kind="webhook", address=url, events=events)

    return make


def delivery_of(channel: Channel) -> Delivery:
    return channel.deliveries.get()


def overdue() -> None:
    """As if the pause until the next try had passed."""
    Delivery.objects.filter(state="pending").update(next_try_at=timezone.now())


def test_an_event_reaches_the_channels_that_subscribe_to_it_and_no_others(
    make_webhook: Make, admin: User, settings: Any
) -> None:
    with hook() as wants, hook() as does_not, hook() as is_off:
        channel, _ = make_webhook(wants.port, "host.unfit", name="a")
        make_webhook(does_not.port, "campaign.failed", name="b")
        off, _ = make_webhook(is_off.port, "host.unfit", name="c")
        channels.change(off, by=admin, active=False)

        payload = {"text": "no space", "path": "/hosts/bench-04/", "host": "bench-04"}
        notify.notify("host.unfit", "bench-04 is unfit", payload, about=[])
        call_command("tick")

    assert json.loads(wants.got[0].body) == {
        "id": str(delivery_of(channel).pk),
        "event": "host.unfit",
        "at": delivery_of(channel).created_at.isoformat(),
        "subject": "bench-04 is unfit",
        "text": "no space",
        "url": f"{settings.BASE_URL}/hosts/bench-04/",
        "data": {"host": "bench-04"},
    }
    assert (delivery_of(channel).state, delivery_of(channel).status, delivery_of(channel).attempts) == ("sent", 204, 1)
    assert does_not.got == is_off.got == []


def test_a_rolled_back_event_is_not_sent(make_webhook: Make) -> None:
    make_webhook(1, "host.unfit")

    with pytest.raises(ZeroDivisionError), transaction.atomic():
        notify.notify("host.unfit", "no", {}, about=[])
        raise ZeroDivisionError

    assert not Delivery.objects.exists()


def test_an_unknown_kind_is_refused(db: None) -> None:
    with pytest.raises(ValueError, match=r"'host.exploded' is not a kind of event; accepted: campaign.finished"):
        notify.notify("host.exploded", "x", {}, about=[])


def test_the_documented_check_accepts_only_sent_messages(make_webhook: Make) -> None:
    text = Path("docs/operations/notifications.md").read_text()
    match = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert match
    room: dict[str, Any] = {}
    exec(match[1], room)
    verify = room["verify"]
    with hook() as receiver:
        channel, secret = make_webhook(receiver.port)
        notify.write(channel, "test", "Größe", {"text": "ü"})
        notify.deliver(channel.pk)
    got = receiver.got[0]

    assert verify(secret, got.headers, got.body)
    assert not verify(secret, got.headers, got.body + b" ")
    assert not verify(secret + "x", got.headers, got.body)
    assert not verify(secret, got.headers | {"X-Proving-Timestamp": str(int(time.time()) - 400)}, got.body)
    assert got.headers["X-Proving-Delivery"] == str(delivery_of(channel).pk)


def waits(delivery: Delivery, began: datetime) -> tuple[float, float]:
    """Seconds until the next attempt, from `began` before this one and from now, after it: the wait is at most the
    first and at least the second, however long the attempt took."""
    assert delivery.next_try_at
    return (delivery.next_try_at - began).total_seconds(), (delivery.next_try_at - timezone.now()).total_seconds()


def test_a_failed_delivery_is_repeated_later_with_the_same_id(make_webhook: Make) -> None:
    with hook(500, 503) as receiver:
        channel, _ = make_webhook(receiver.port)
        notify.write(channel, "test", "s", {})

        began = timezone.now()
        notify.deliver(channel.pk)
        first = delivery_of(channel)
        longest, shortest = waits(first, began)
        assert longest >= 27 and shortest <= 33
        notify.deliver(channel.pk)
        assert len(receiver.got) == 1
        overdue()
        began = timezone.now()
        notify.deliver(channel.pk)
        longest, shortest = waits(delivery_of(channel), began)
        assert longest >= 54 and shortest <= 66
        overdue()
        notify.deliver(channel.pk)

    assert (first.state, first.status, first.error, first.attempts) == ("pending", 500, "answered 500", 1)
    assert (delivery_of(channel).state, delivery_of(channel).attempts, delivery_of(channel).error) == ("sent", 3, "")
    assert len({got.headers["X-Proving-Delivery"] for got in receiver.got}) == 1


def test_a_delivery_fails_after_its_last_attempt_and_a_user_can_retry_it(make_webhook: Make, admin: User) -> None:
    port = closed_port()
    channel, _ = make_webhook(port)
    notify.write(channel, "test", "s", {})
    Delivery.objects.update(attempts=notify.TRIES - 1)

    notify.deliver(channel.pk)
    failed = delivery_of(channel)
    channels.retry(failed, by=admin)

    assert (failed.state, failed.next_try_at) == ("failed", None) and "no answer" in failed.error
    assert (delivery_of(channel).state, delivery_of(channel).attempts) == ("pending", 0)
    assert sum(notify.FIRST_RETRY_S * 2**n for n in range(notify.TRIES - 1)) < 86400


def test_a_delivery_with_an_unexpected_error_is_tried_again_and_given_up_like_others(
    make_webhook: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was tried each minute for ever, before all others of its channel, and no page showed the cause."""
    channel, _ = make_webhook(closed_port())
    notify.write(channel, "test", "s", {})

    def fail(*_: object) -> int:
        raise KeyError("text")

    monkeypatch.setattr(CHANNELS["webhook"], "send", fail)

    notify.deliver(channel.pk)
    first = delivery_of(channel)
    Delivery.objects.update(attempts=notify.TRIES - 1, next_try_at=timezone.now())
    notify.deliver(channel.pk)

    assert (first.state, first.error) == (
        "pending",
        "it could not be sent: KeyError; the log of the worker has the cause",
    )
    assert first.next_try_at and (first.next_try_at - timezone.now()).total_seconds() < 34
    assert delivery_of(channel).state == "failed"


def test_others_wait_as_long_for_a_receiver_that_is_down(make_webhook: Make) -> None:
    with hook(500) as receiver:
        channel, _ = make_webhook(receiver.port)
        for number in range(5):
            notify.write(channel, "test", str(number), {})

        notify.deliver(channel.pk)
        notify.deliver(channel.pk)
        assert len(receiver.got) == 1 and notify.channels_due(timezone.now()) == []
        overdue()
        notify.deliver(channel.pk)

    assert [json.loads(got.body)["subject"] for got in receiver.got] == ["0", "1", "2", "3", "4", "0"]
    assert not channel.deliveries.exclude(state="sent").exists()


def test_a_chat_gets_one_text_without_mentions_that_links_only_to_the_page(admin: User, settings: Any) -> None:
    with hook() as chat:
        url = f"http://127.0.0.1:{chat.port}/services/T0/B0/token"
        channel, secret = channels.create(by=admin, name="team", kind="chat", address=url, events=["campaign.failed"])
        subject = "<!channel> @here @HERE: <https://evil.example|a & b> failed"
        text = "![log](https://evil.example/pixel.png) [log][1]"
        notify.notify("campaign.failed", subject, {"text": text, "path": "/campaigns/1/"}, about=[])

        notify.deliver(channel.pk)

    lines = [
        "&lt;!channel&gt; @\u200bhere @\u200bHERE: &lt;https://evil.example|a &amp; b&gt; failed",
        "![log]\u200b(https://evil.example/pixel.png) [log]\u200b[1]",
    ]
    assert json.loads(chat.got[0].body) == {"text": "\n".join([*lines, f"{settings.BASE_URL}/campaigns/1/"])}
    assert "X-Proving-Signature" not in chat.got[0].headers and secret == ""
    assert delivery_of(channel).state == "sent"


def test_a_matrix_room_gets_one_message_with_the_token_of_its_channel(admin: User, settings: Any) -> None:
    with hook() as homeserver:
        channel, secret = channels.create(
            by=admin,
            name="room",
            kind="matrix",
            address=f"http://127.0.0.1:{homeserver.port}/",
            details={"room": "!a/b:example.org", "access_token": "syt_secret"},
            events=["campaign.failed"],
        )
        notify.notify("campaign.failed", "@room failed", {"text": "3 runs failed", "path": "/campaigns/1/"}, about=[])

        notify.deliver(channel.pk)

    (request,) = homeserver.got
    room = "/_matrix/client/v3/rooms/%21a%2Fb%3Aexample.org/send/m.room.message"
    assert (request.method, request.path) == ("PUT", f"{room}/{delivery_of(channel).pk}")
    assert request.headers["Authorization"] == "Bearer syt_secret" and secret == ""
    text = f"@room failed\n3 runs failed\n{settings.BASE_URL}/campaigns/1/"
    assert json.loads(request.body) == {"msgtype": "m.text", "body": text, "m.mentions": {}}
    assert delivery_of(channel).state == "sent"


def topic(by: User, port: int, **details: str) -> Channel:
    url = f"http://127.0.0.1:{port}"
    return channels.create(by=by, name="phones", kind="ntfy", address=url, details=details, events=[])[0]


def test_a_ntfy_topic_gets_a_notification_with_a_link_and_the_token_of_its_channel(admin: User, settings: Any) -> None:
    with hook(ntfy) as server:
        channel = topic(admin, server.port, topic="private", access_token="tk_secret")
        notify.write(channel, "host.unfit", "Prüfhost\r\nPriority: 1", {"text": "no space", "path": "/hosts/a/"})
        notify.deliver(channel.pk)

    (request,) = server.got
    assert delivery_of(channel).state == "sent"
    assert json.loads(request.body) == {
        "topic": "private",
        "title": "Prüfhost Priority: 1",
        "message": "no space",
        "priority": 4,
        "tags": ["warning", "host.unfit"],
        "click": f"{settings.BASE_URL}/hosts/a/",
    }
    assert request.headers["Authorization"] == "Bearer tk_secret" and "Priority" not in request.headers


@pytest.mark.parametrize(("name", "error"), [("public", ""), ("private", "answered 403")])
def test_a_ntfy_topic_gets_no_token_if_its_channel_has_none(admin: User, name: str, error: str) -> None:
    with hook(ntfy) as server:
        channel = topic(admin, server.port, topic=name)
        notify.write(channel, "campaign.finished", "Scaling has finished", {})
        notify.deliver(channel.pk)

    body = json.loads(server.got[0].body)
    assert (body["message"], body["priority"], body["tags"]) == ("Scaling has finished", 3, ["campaign.finished"])
    assert delivery_of(channel).error == error and "Authorization" not in server.got[0].headers


@pytest.mark.parametrize("character", ["a", "ü", "\n", '"'])
def test_a_text_that_ntfy_would_refuse_for_its_length_is_cut(admin: User, character: str) -> None:
    with hook(ntfy) as server:
        channel = topic(admin, server.port, topic="public")
        notify.write(channel, "test", "s", {"text": "Log: " + character * 9000})
        notify.deliver(channel.pk)

    assert delivery_of(channel).error == ""
    assert 3400 < len(json.loads(server.got[0].body)["message"].encode()) <= 4096


@pytest.mark.django_db(transaction=True)
def test_two_workers_never_send_one_delivery_twice_at_once(make_webhook: Make) -> None:
    with hook() as receiver:
        receiver.pause_s = 0.05
        channel, _ = make_webhook(receiver.port)
        for number in range(6):
            notify.write(channel, "test", str(number), {})

        def work() -> None:
            notify.deliver(channel.pk)
            connection.close()

        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    assert sorted(json.loads(got.body)["subject"] for got in receiver.got) == list("012345")


def test_a_delivery_of_a_dead_worker_is_sent_by_the_next_one_after_its_claim(make_webhook: Make) -> None:
    with hook() as receiver:
        channel, _ = make_webhook(receiver.port)
        notify.write(channel, "test", "s", {})
        assert notify._claim(channel.pk)

        notify.deliver(channel.pk)
        assert receiver.got == []
        overdue()
        notify.deliver(channel.pk)

    assert (delivery_of(channel).state, delivery_of(channel).attempts) == ("sent", 2)


def test_redirects_are_not_followed(make_webhook: Make) -> None:
    with hook(302) as receiver:
        channel, _ = make_webhook(receiver.port)
        notify.write(channel, "test", "s", {})
        notify.deliver(channel.pk)

    assert [got.path for got in receiver.got] == ["/hooks/one"]
    assert delivery_of(channel).error == "answered 302, and redirects are not followed"


def test_an_answer_that_comes_byte_by_byte_is_cut_off(make_webhook: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "LIMIT_S", 0.4)
    with hook("drip") as receiver:
        channel, _ = make_webhook(receiver.port)
        notify.write(channel, "test", "s", {})
        notify.deliver(channel.pk)

    assert "no answer within 0.4 s" in delivery_of(channel).error


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://127.0.0.1/", "is not an http or https URL"),
        ("http://", "is not an http or https URL"),
        ("http://127.0.0.1:99999/", "is not a URL"),
        ("http://ada:secret@127.0.0.1/", "a URL with a user name or a password is not accepted"),
        ("http://127.0.0.1/a b", "is not an http or https URL"),
        ("http://169.254.169.254/latest/meta-data/", "is not in an allowed network"),
        ("http://[::ffff:169.254.169.254]/", "is not in an allowed network"),
        ("http://[fd00:ec2::254]/", "is not in an allowed network"),
        ("http://8.8.8.8/", "is not in an allowed network"),
    ],
)
def test_a_forbidden_address_is_refused_when_the_channel_is_created(
    admin: User, settings: Any, url: str, message: str
) -> None:
    settings.ADDRESS_ALLOW = ["127.0.0.0/8", "fd00::/8", "169.254.0.0/16"]

    with pytest.raises(PlanError, match=message) as refused:
        channels.create(by=admin, name="x", kind="webhook", address=url, events=[])

    assert refused.value.subject == "address"
    assert not Channel.objects.exists()


def test_a_name_that_leads_elsewhere_at_the_time_of_sending_is_refused(
    make_webhook: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address is resolved once, checked, and that one is connected to."""
    lookups: list[str] = []

    def resolve(name: str, *args: Any, **kwargs: Any) -> Any:
        lookups.append(name)
        if name != "rebinding.example":
            return known(name, *args, **kwargs)
        address = "169.254.169.254" if lookups.count(name) > 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))]

    with hook() as receiver:
        channel, _ = make_webhook(receiver.port)
        known = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        channel.address = f"http://rebinding.example:{receiver.port}/"
        channel.save()
        notify.write(channel, "test", "s", {})
        notify.write(channel, "test", "s", {})
        notify.deliver(channel.pk)

    assert [got.headers["Host"] for got in receiver.got] == [f"rebinding.example:{receiver.port}"]
    assert lookups == ["rebinding.example", "127.0.0.1", "rebinding.example"]
    assert "169.254.169.254" in channel.deliveries.get(state="pending").error


def test_tls_is_verified_against_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = certificate(tmp_path, "localhost")
    with hook(tls=server_context(file)) as receiver:
        with pytest.raises(HostError, match="CERTIFICATE_VERIFY_FAILED"):
            posting.post(f"https://localhost:{receiver.port}/", b"{}", {})
        monkeypatch.setenv("SSL_CERT_FILE", str(file))

        assert posting.post(f"https://localhost:{receiver.port}/", b"{}", {}) == 204
        with pytest.raises(HostError, match=r"127\.0\.0\.1"):
            posting.post(f"https://127.0.0.1:{receiver.port}/", b"{}", {})

    assert len(receiver.got) == 1


def test_mail_is_plain_text_with_a_link_and_is_tried_again(admin: User, settings: Any) -> None:
    with post_office() as office:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", office.port
        office.refusals = 1
        channel, secret = channels.create(
            by=admin, name="me", kind="mail", address="ada@example.org", events=["campaign.finished"]
        )
        notify.notify(
            "campaign.finished", "Scaling\nhas finished", {"text": "15 ok.", "path": "/campaigns/1/"}, about=[]
        )
        notify.deliver(channel.pk)
        refused = delivery_of(channel)
        overdue()
        notify.deliver(channel.pk)

    assert secret == "" and "450" in refused.error and refused.state == "pending"
    to, text = office.mails[0]
    assert to == "ada@example.org" and delivery_of(channel).state == "sent"
    assert "Subject: [Proving Ground] Scaling has finished" in text
    assert f"15 ok.\r\n\r\n{settings.BASE_URL}/campaigns/1/" in text
    assert f"<{delivery_of(channel).pk}@" in text and 'text/plain; charset="utf-8"' in text


def test_without_a_mail_server_no_mail_can_be_set_up(admin: User, settings: Any) -> None:
    settings.EMAIL_HOST = ""

    with pytest.raises(PlanError, match="this server sends no mail") as refused:
        channels.create(by=admin, name="me", kind="mail", address="ada@example.org", events=[])

    assert "PROVING_EMAIL_URL" in refused.value.hint
    with pytest.raises(PlanError):
        mail.send("ada@example.org", "s", "t", "k")


def test_a_host_that_needs_attention_notifies_once(make_webhook: Make) -> None:
    host = make_host()
    channel, _ = make_webhook(1, "host.quarantined", "host.unreachable", "host.unfit")

    for _ in range(2):
        contact.mark_unreachable(host, UnreachableError(host, "no route"))
        contact.mark_unfit(host, "no space left")
        contact.quarantine(host, "vm.swappiness was not put back")

    deliveries = list(channel.deliveries.order_by("created_at").values_list("kind", "payload__reason"))
    assert [kind for kind, _ in deliveries] == ["host.unreachable", "host.unfit", "host.quarantined"]
    assert "no route" in deliveries[0][1] and deliveries[2][1] == "vm.swappiness was not put back"


def test_an_automatic_pause_of_a_campaign_notifies(make_webhook: Make, admin: User) -> None:
    channel, _ = make_webhook(1, "campaign.failed")
    campaign = make_campaign("running", by=admin, max_failures=1)
    run = campaign.runs.order_by("position")[0]
    Run.objects.filter(pk=run.pk).update(state="ended", outcome=Run.Outcome.FAILED, next_tick_at=None)

    halts.after(Run.objects.get(pk=run.pk))

    assert delivery_of(channel).payload["reason"] == "1 run failed; the limit is 1"
    assert "has paused" in str(delivery_of(channel)) and delivery_of(channel).payload["runs"] == {"failed": 1}


def test_a_campaign_stopped_by_its_rule_notifies_with_the_reason(make_webhook: Make, admin: User) -> None:
    channel, _ = make_webhook(1, "campaign.finished")
    campaign = make_campaign("running", by=admin)
    first, *_ = runs = list(campaign.runs.order_by("position"))
    Run.objects.filter(pk=first.pk).update(state="ended", outcome=Run.Outcome.OK, next_tick_at=None)

    halts.stop_campaign(campaign, "the interval is narrow enough")

    rest = len(runs) - 1
    assert delivery_of(channel).payload["reason"] == f"the interval is narrow enough; {rest} planned runs did not start"


@pytest.mark.parametrize(("ok", "kind"), [(True, "campaign.finished"), (False, "campaign.failed")])
def test_the_end_of_a_campaign_notifies_with_its_outcome(make_webhook: Make, admin: User, ok: bool, kind: str) -> None:
    channel, _ = make_webhook(1, "campaign.finished", "campaign.failed")
    campaign = make_campaign("running", by=admin)
    outcome = Run.Outcome.OK if ok else Run.Outcome.FAILED
    campaign.runs.update(state="ended", outcome=outcome, ended_at=timezone.now(), next_tick_at=None)

    campaign_end.close_campaign(campaign.pk)
    campaign_end.close_campaign(campaign.pk)

    assert delivery_of(channel).kind == kind
    assert delivery_of(channel).payload["runs"] == {outcome: campaign.runs.count()}
