"""Channels on pages and in the API: which users may create, see and change them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import AuditEntry, Channel, Delivery, Role, User
from apps.accounts.notices import channels, notify
from apps.infrastructure.vault import decrypt
from common.errors import PlanError, RoleError
from tests.rows.factories import browser, make_user

URL = "http://127.0.0.1:9/hooks/secret-part"
MATRIX = "http://127.0.0.1:9/"


@pytest.fixture(autouse=True)
def mail_server(settings: Any) -> None:
    settings.EMAIL_HOST = "127.0.0.1"


def mine(by: User, **fields: Any) -> Channel:
    defaults = {"name": f"mail of {by}", "kind": "mail", "address": "v@example.org", "events": ["host.unfit"]}
    return channels.create(by=by, **defaults | fields)[0]


def hooked(by: User, name: str = "chat") -> tuple[Channel, str]:
    return channels.create(by=by, name=name, kind="webhook", address=URL, events=["campaign.failed"])


def test_only_an_admin_creates_a_webhook_and_its_secret_is_encrypted(admin: User, tuner: User) -> None:
    with pytest.raises(RoleError, match="this needs admin"):
        hooked(tuner)

    channel, secret = hooked(admin)

    assert secret.startswith("whs_") and secret not in channel.secret_encrypted
    assert decrypt(channel.secret_encrypted) == secret
    entry = AuditEntry.objects.get(action="channel.create")
    assert entry.after["address"] == "http://127.0.0.1:9/…"


def test_a_new_secret_takes_the_old_one_s_place(admin: User, viewer: User) -> None:
    channel, old = hooked(admin)

    new = channels.renew_secret(channel, by=admin)

    channel.refresh_from_db()
    assert new != old and decrypt(channel.secret_encrypted) == new
    with pytest.raises(PlanError, match="mail has no secret"):
        channels.renew_secret(mine(viewer), by=viewer)


def test_mail_is_its_owner_s_and_an_admin_s_to_change(viewer: User, tuner: User, admin: User) -> None:
    channel = mine(viewer)

    with pytest.raises(RoleError, match="this channel belongs to"):
        channels.change(channel, by=tuner, active=False)
    channels.change(channel, by=viewer, events=["host.unreachable"])
    channels.change(channel, by=admin, address="w@example.org")

    entries = AuditEntry.objects.filter(action="channel.change").order_by("id")
    assert (entries[0].before["events"], entries[0].after["events"]) == (["host.unfit"], ["host.unreachable"])
    assert (entries[1].actor, entries[1].after["address"]) == (admin, "w@example.org")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"address": "nobody"}, "address"),
        ({"address": '"a\x0bSubject:x\x0b\x0bpay"@example.org'}, "address"),
        ({"address": f"a@{'ü' * 60}.org"}, "address"),
        ({"events": ["host.exploded"]}, "events"),
        ({"name": ""}, "name"),
    ],
)
def test_an_invalid_value_names_its_field(viewer: User, fields: dict[str, Any], field: str) -> None:
    with pytest.raises(PlanError) as refused:
        mine(viewer, **fields)

    assert refused.value.subject == field


def test_pending_deliveries_of_a_deactivated_channel_are_cancelled(viewer: User) -> None:
    channel = mine(viewer)
    waiting = notify.write(channel, "host.unfit", "s", {})

    channels.change(channel, by=viewer, active=False)

    waiting.refresh_from_db()
    assert (waiting.state, waiting.error) == ("failed", "the channel was switched off")
    for act in (lambda: channels.send_test(channel, by=viewer), lambda: channels.retry(waiting, by=viewer)):
        with pytest.raises(PlanError, match="is switched off"):
            act()


def test_a_deactivated_user_gets_no_notification(viewer: User) -> None:
    mine(viewer)
    User.objects.filter(pk=viewer.pk).update(is_active=False)

    notify.notify("host.unfit", "s", {}, about=[])

    assert not Delivery.objects.exists()


def test_pages_set_up_try_and_switch_off(client: Client, admin: User) -> None:
    client.force_login(admin)
    fields = {"name": "chat", "address": URL, "events": ["host.unfit", "campaign.failed"]}

    made = client.post(reverse("channel_add", args=["webhook"]), fields).content.decode()
    channel = Channel.objects.get()
    assert decrypt(channel.secret_encrypted) in made
    again = client.get(reverse("channel_detail", args=[channel.pk])).content.decode()
    assert decrypt(channel.secret_encrypted) not in again

    client.post(reverse("channel_action", args=[channel.pk, "test"]))
    delivery = Delivery.objects.get()
    Delivery.objects.update(state="failed", next_try_at=None, error="<b>refused</b>")
    log = client.get(reverse("channel_detail", args=[channel.pk])).content.decode()
    assert "&lt;b&gt;refused" in log and reverse("delivery_retry", args=[delivery.pk]) in log
    client.post(reverse("delivery_retry", args=[delivery.pk]))
    delivery.refresh_from_db()
    assert delivery.state == "pending"

    client.post(reverse("channel_action", args=[channel.pk, "switch-off"]))
    channel.refresh_from_db()
    assert not channel.active


def test_a_page_shows_the_error_beside_the_field(client: Client, admin: User) -> None:
    client.force_login(admin)

    answer = client.post(reverse("channel_add", args=["webhook"]), {"name": "x", "address": "http://8.8.8.8/"})

    assert answer.status_code == 422
    assert "is not in an allowed network" in answer.context["form"].errors["address"][0]


def test_the_path_of_a_webhook_is_shown_to_admins_only(admin: User, viewer: User) -> None:
    channel, _ = hooked(admin)
    page = Client()
    page.force_login(viewer)

    listed = page.get(reverse("channel_list")).content.decode()
    shown = browser(viewer).get(f"/api/v1/channels/{channel.pk}/").json()

    assert "secret-part" not in listed and "http://127.0.0.1:9/…" in listed
    assert shown["address"] == "http://127.0.0.1:9/…" and "secret_encrypted" not in shown
    assert browser(admin).get(f"/api/v1/channels/{channel.pk}/").json()["address"] == URL


def test_a_chat_is_an_admin_s_and_its_address_stays_out_of_the_audit_log(admin: User, tuner: User) -> None:
    url = "http://127.0.0.1:9/services/secret-part"
    with pytest.raises(RoleError):
        channels.create(by=tuner, name="team", kind="chat", address=url, events=[])

    channel, _ = channels.create(by=admin, name="team", kind="chat", address=url, events=[])

    assert not Channel.objects.editable_by(tuner).filter(pk=channel.pk).exists()
    assert "secret-part" not in str(list(AuditEntry.objects.values_list("after", flat=True)))


def matrix(by: User, **changed: Any) -> Channel:
    details = {"room": "!a:example.org", "access_token": "syt_secret"} | changed
    return channels.create(by=by, name="room", kind="matrix", address=MATRIX, details=details, events=[])[0]


def test_a_user_cannot_flood_a_mail_address(viewer: User) -> None:
    victims = [mine(viewer, name=f"victim {n}", address="victim@example.org") for n in range(channels.MOST_OWN)]
    for _ in range(channels.MOST_TESTS):
        channels.send_test(victims[0], by=viewer)

    with pytest.raises(PlanError, match="tested 10 times within an hour"):
        channels.send_test(victims[0], by=viewer)
    with pytest.raises(PlanError, match="you have 20 channels of this kind"):
        mine(viewer, name="one more", address="victim@example.org")


def test_room_and_topic_of_a_channel_are_shown_to_admins_only(admin: User, viewer: User) -> None:
    channel = matrix(admin, room="!secret-room:example.org")
    path = f"/api/v1/channels/{channel.pk}/"

    seen = [browser(viewer).get(path).json(), *browser(viewer).get("/api/v1/channels/").json()["results"]]

    assert [each["details"] for each in seen] == [{}, {}]
    assert browser(admin).get(path).json()["details"] == {"room": "!secret-room:example.org"}


def test_an_entered_secret_is_encrypted_and_in_no_response(client: Client, admin: User, viewer: User) -> None:
    client.force_login(admin)
    fields = {"name": "room", "address": MATRIX, "details.room": "!a:example.org", "details.access_token": "syt_secret"}
    client.post(reverse("channel_add", args=["matrix"]), fields)
    channel = Channel.objects.get()
    address = reverse("channel_detail", args=[channel.pk])

    page = client.get(address).content.decode()
    saved = client.post(address, fields | {"details.room": "!b:example.org", "details.access_token": ""})
    read = browser(admin).get(f"/api/v1/channels/{channel.pk}/").json()

    channel.refresh_from_db()
    assert channel.decrypt_secret() == "syt_secret" and "syt_secret" not in channel.secret_encrypted
    assert "!a:example.org" in page and saved.status_code == 302
    assert (read["details"], read["secret"]) == ({"room": "!b:example.org"}, "")
    recorded = str(list(AuditEntry.objects.values_list("before", "after")))
    assert "syt_secret" not in page + recorded + json.dumps(read)


@pytest.mark.parametrize(
    ("changed", "field", "message"),
    [
        ({"room": "#alias:example.org"}, "details.room", "is not a room ID"),
        ({"room": " "}, "details.room", "Room ID is missing"),
        ({"access_token": ""}, "details.access_token", "Access token is missing"),
        ({"colour": "red"}, "details.colour", "matrix has no such field"),
    ],
)
def test_an_invalid_detail_names_its_field(admin: User, changed: dict[str, str], field: str, message: str) -> None:
    with pytest.raises(PlanError, match=message) as refused:
        matrix(admin, **changed)

    assert refused.value.subject == field
    assert not Channel.objects.exists()


@pytest.mark.parametrize("token", ["syt_sécret", "syt\nX-Admin: 1", "syt secret"])
def test_a_secret_that_no_header_can_hold_is_refused(admin: User, token: str) -> None:
    with pytest.raises(PlanError, match="Access token has characters that cannot be sent") as refused:
        matrix(admin, access_token=token)

    assert refused.value.subject == "details.access_token" and token not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "topic", "field"),
    [
        ("http://127.0.0.1:9/alerts", "alerts", "address"),
        ("http://127.0.0.1:9/?auth=x", "alerts", "address"),
        ("http://127.0.0.1:9/", "a/b", "details.topic"),
        ("http://127.0.0.1:9/", "t" * 65, "details.topic"),
    ],
)
def test_an_invalid_ntfy_topic_or_address_is_refused(admin: User, address: str, topic: str, field: str) -> None:
    with pytest.raises(PlanError) as refused:
        channels.create(by=admin, name="phones", kind="ntfy", address=address, details={"topic": topic}, events=[])

    assert refused.value.subject == field


def test_an_optional_secret_can_be_left_out_entered_and_removed(client: Client, admin: User) -> None:
    client.force_login(admin)
    fields = {"name": "phones", "address": "http://127.0.0.1:9/", "details.topic": "alerts", "details.access_token": ""}
    client.post(reverse("channel_add", args=["ntfy"]), fields)
    channel = Channel.objects.get()
    address = reverse("channel_detail", args=[channel.pk])

    moved = client.post(address, fields | {"address": "http://127.0.0.1:10/"})
    client.post(address, fields | {"address": "http://127.0.0.1:10/", "details.access_token": "tk_secret"})
    channel.refresh_from_db()
    entered = channel.decrypt_secret()
    kept = client.post(address, fields)
    browser(admin).patch(f"/api/v1/channels/{channel.pk}/", {"details": {"access_token": ""}})

    channel.refresh_from_db()
    assert (moved.status_code, entered, channel.secret_encrypted) == (302, "tk_secret", "")
    assert kept.status_code == 422 and channel.address == "http://127.0.0.1:10/"


def test_a_page_shows_the_error_of_a_detail_beside_its_field(client: Client, admin: User) -> None:
    client.force_login(admin)
    fields = {"name": "room", "address": MATRIX, "details.room": "#a:example.org", "details.access_token": "syt"}

    answer = client.post(reverse("channel_add", args=["matrix"]), fields)

    assert "is not a room ID" in answer.context["form"].errors["details.room"][0]
    assert "syt" not in answer.content.decode()


def test_a_stored_secret_is_not_sent_to_another_server(admin: User) -> None:
    """Otherwise an admin could read the secret that another one entered."""
    channel = matrix(admin)

    with pytest.raises(PlanError, match="only to the address it was entered for") as refused:
        channels.change(channel, by=admin, address="http://127.0.0.1:10/")
    channels.change(channel, by=admin, address="http://127.0.0.1:10/", details={"access_token": "other"})

    assert refused.value.subject == "details.access_token"
    channel.refresh_from_db()
    assert (channel.address, channel.decrypt_secret()) == ("http://127.0.0.1:10/", "other")


def test_the_api_sets_up_a_channel_with_details(admin: User) -> None:
    api = browser(admin)
    details = {"room": "!a:example.org", "access_token": "syt_secret"}

    made = api.post("/api/v1/channels/", {"name": "room", "kind": "matrix", "address": MATRIX, "details": details})
    key = made.json()["id"]
    changed = api.patch(f"/api/v1/channels/{key}/", {"details": {"room": "!b:example.org"}})
    moved = api.patch(f"/api/v1/channels/{key}/", {"address": "http://127.0.0.1:10/"})

    assert (made.status_code, made.json()["details"]) == (201, {"room": "!a:example.org"})
    assert (changed.status_code, changed.json()["details"]) == (200, {"room": "!b:example.org"})
    assert (moved.status_code, moved.json()["field"]) == (400, "details.access_token")


def test_users_cannot_change_channels_of_other_users(viewer: User) -> None:
    other = mine(make_user(Role.TUNER), name="theirs")
    delivery = notify.write(other, "test", "s", {})
    page = Client()
    page.force_login(viewer)

    assert page.get(reverse("channel_detail", args=[other.pk])).status_code == 403
    assert page.post(reverse("channel_action", args=[other.pk, "switch-off"])).status_code == 403
    assert page.post(reverse("delivery_retry", args=[delivery.pk])).status_code == 404
    assert browser(viewer).patch(f"/api/v1/channels/{other.pk}/", {"active": False}).status_code == 404
    assert browser(viewer).post(f"/api/v1/deliveries/{delivery.pk}/retry/").status_code == 404


def test_the_api_sets_up_and_changes_a_channel(viewer: User, admin: User) -> None:
    api = browser(viewer)
    refused = api.post("/api/v1/channels/", {"name": "x", "kind": "webhook", "address": URL})
    made = api.post(
        "/api/v1/channels/", {"name": "me", "kind": "mail", "address": "v@example.org", "events": ["host.unfit"]}
    )
    key = made.json()["id"]

    changed = api.patch(f"/api/v1/channels/{key}/", {"events": [], "kind": "webhook"}).json()
    tested = api.post(f"/api/v1/channels/{key}/test/").json()

    assert refused.status_code == 403 and made.status_code == 201
    assert (changed["events"], changed["kind"]) == ([], "mail")
    assert (tested["state"], tested["kind"]) == ("pending", "test")
    assert [row["id"] for row in api.get(f"/api/v1/deliveries/?channel={key}").json()["results"]] == [tested["id"]]
    taken = api.post("/api/v1/channels/", {"name": "me", "kind": "mail", "address": "v@example.org"})
    assert (taken.status_code, taken.json()["field"]) == (400, "name")
