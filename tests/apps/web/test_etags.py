"""ETags: unchanged objects are not sent again, and concurrent changes are not overwritten."""

from __future__ import annotations

import pytest

from apps.accounts.models import User
from apps.hosts.models import Host
from tests.rows.factories import browser, make_host


@pytest.fixture
def host(admin: User) -> Host:
    return make_host("db1")


def url(host: Host) -> str:
    return f"/api/v1/hosts/{host.pk}/"


def test_an_unchanged_object_is_not_sent_again(viewer: User, host: Host) -> None:
    client = browser(viewer)
    first = client.get(url(host))

    again = client.get(url(host), HTTP_IF_NONE_MATCH=first["ETag"])

    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    Host.objects.update(port=2222)
    changed = client.get(url(host), HTTP_IF_NONE_MATCH=first["ETag"])
    assert (changed.status_code, changed.json()["port"]) == (200, 2222)


def test_a_change_of_the_version_that_was_read_is_accepted(admin: User, host: Host) -> None:
    client = browser(admin)
    tag = client.get(url(host))["ETag"]

    changed = client.patch(url(host), {"port": 2222}, HTTP_IF_MATCH=tag)

    assert (changed.status_code, changed.json()["port"]) == (200, 2222)


def test_a_change_of_a_row_that_another_user_has_changed_is_412(admin: User, host: Host) -> None:
    client = browser(admin)
    tag = client.get(url(host))["ETag"]
    client.patch(url(host), {"port": 2222})

    refused = client.patch(url(host), {"port": 22}, HTTP_IF_MATCH=tag)

    assert (refused.status_code, refused.json()["field"]) == (412, "If-Match")
    assert refused["Content-Type"] == "application/problem+json"
    assert refused["ETag"] == client.get(url(host))["ETag"] != tag
    host.refresh_from_db()
    assert host.port == 2222


def test_a_removal_is_conditional_too(admin: User, host: Host) -> None:
    client = browser(admin)

    assert client.delete(url(host), HTTP_IF_MATCH='"other"').status_code == 412
    assert client.delete(url(host), HTTP_IF_MATCH=client.get(url(host))["ETag"]).status_code == 204


def test_a_deleted_row_is_404_and_the_role_is_checked_first(admin: User, viewer: User, host: Host) -> None:
    assert browser(admin).patch("/api/v1/hosts/999999/", {}, HTTP_IF_MATCH="*").status_code == 404
    tag = browser(viewer).get(url(host))["ETag"]
    assert browser(viewer).patch(url(host), {"port": 1}, HTTP_IF_MATCH=tag).status_code == 403
    assert browser(admin).patch(url(host), {"port": 1}, HTTP_IF_MATCH="*").status_code == 200


def test_pages_have_no_etag(viewer: User) -> None:
    assert not browser(viewer).get("/hosts/").has_header("ETag")
