"""A request that is sent again is done once."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import override_settings
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart
from django.utils import timezone
from rest_framework.test import APIClient

from apps.accounts.models import ApiToken, IdempotentRequest, Role, User
from apps.campaigns.models import Campaign
from apps.results.models import Import
from apps.web import idempotency
from tests.rows.factories import browser, make_campaign, make_user, script

BODY = {"name": "again"}


@pytest.fixture
def url(tuner: User) -> str:
    """Where each request makes one more campaign."""
    return f"/api/v1/campaigns/{make_campaign(by=tuner).pk}/clone/"


def post(user: User, url: str, body: Any = BODY, key: str = "k-1") -> Any:
    return browser(user).post(url, body, HTTP_IDEMPOTENCY_KEY=key)


def made() -> int:
    return Campaign.objects.filter(name=BODY["name"]).count()


def test_the_same_request_again_gives_the_same_status_and_body_and_does_nothing(tuner: User, url: str) -> None:
    first, second = post(tuner, url), post(tuner, url)

    assert (first.status_code, second.status_code) == (201, 201)
    assert second.content == first.content
    assert second["Content-Type"] == first["Content-Type"] == "application/json"
    assert (first.get("Idempotent-Replayed"), second["Idempotent-Replayed"]) == (None, "true")
    assert made() == 1


def test_a_token_and_the_browser_of_a_user_are_the_same_user(tuner: User, url: str) -> None:
    post(tuner, url)

    assert script(tuner).post(url, BODY, HTTP_IDEMPOTENCY_KEY="k-1")["Idempotent-Replayed"] == "true"


def test_a_refusal_is_repeated_as_well(tuner: User, url: str) -> None:
    first, second = (post(tuner, url, {"repetitions": 0}) for _ in range(2))

    assert (second.status_code, second["Content-Type"]) == (400, "application/problem+json")
    assert (second.json(), second["Idempotent-Replayed"]) == (first.json(), "true")


def test_another_body_with_the_same_key_is_422(tuner: User, url: str) -> None:
    post(tuner, url)

    refused = post(tuner, url, BODY | {"repetitions": 4})

    assert (refused.status_code, refused.json()["field"]) == (422, "Idempotency-Key")
    assert refused["Content-Type"] == "application/problem+json"
    assert made() == 1


def test_a_key_belongs_to_its_user_and_its_address(tuner: User, url: str) -> None:
    post(tuner, url)
    post(make_user(Role.OPERATOR), url)
    post(tuner, f"/api/v1/campaigns/{make_campaign(by=tuner).pk}/clone/")

    assert made() == 3


def test_without_a_key_each_request_is_done(tuner: User, url: str) -> None:
    for _ in range(2):
        browser(tuner).post(url, BODY)

    assert made() == 2
    assert not IdempotentRequest.objects.exists()


@pytest.mark.parametrize("key", ["", "x" * 256, "täglich"])
def test_an_invalid_key_is_400(tuner: User, url: str, key: str) -> None:
    assert post(tuner, url, key=key).json()["field"] == "Idempotency-Key"
    assert made() == 0


def test_a_secret_is_shown_once_and_not_stored(tuner: User) -> None:
    first, second = (post(tuner, "/api/v1/tokens/", {"name": "ci", "role": "viewer"}).json() for _ in range(2))

    assert first["secret"].startswith("pg_")
    assert second == first | {"secret": ""}
    assert first["secret"].encode() not in bytes(IdempotentRequest.objects.get().body)
    assert ApiToken.objects.filter(name="ci").count() == 1


@pytest.mark.parametrize(
    ("request_data", "field"),
    [
        (("/api/v1/users/", {"username": "vera", "email": "vera@example.org", "role": "viewer"}), "link"),
        (("/api/v1/feed/", {}), "address"),
    ],
)
def test_a_secret_link_is_shown_once_and_not_stored(admin: User, request_data: Any, field: str) -> None:
    first, second = (post(admin, *request_data).json() for _ in range(2))

    assert first[field].startswith("http")
    assert second == first | {field: ""}
    assert first[field].encode() not in bytes(IdempotentRequest.objects.get().body)


def test_after_a_day_the_key_is_free_again(tuner: User, url: str) -> None:
    post(tuner, url)
    IdempotentRequest.objects.update(created_at=timezone.now() - timedelta(hours=24))
    post(tuner, url)

    assert made() == 2


def test_keys_older_than_a_day_are_deleted(tuner: User, url: str) -> None:
    post(tuner, url, key="old")
    IdempotentRequest.objects.update(created_at=timezone.now() - timedelta(hours=24))
    post(tuner, url, key="new")

    idempotency.forget()

    assert [row.key for row in IdempotentRequest.objects.all()] == ["new"]


def test_while_the_first_is_being_done_the_second_is_409(tuner: User, url: str) -> None:
    post(tuner, url)
    IdempotentRequest.objects.update(status=None)

    refused = post(tuner, url)

    assert (refused.status_code, refused["Retry-After"]) == (409, "1")
    IdempotentRequest.objects.update(created_at=timezone.now() - timedelta(minutes=10))
    assert post(tuner, url).status_code == 201, "whoever had it died long ago"


@pytest.mark.django_db(transaction=True)
def test_of_requests_at_once_one_is_done() -> None:
    user, codes = make_user(Role.TUNER), list[int]()
    url, clients = f"/api/v1/campaigns/{make_campaign(by=user).pk}/clone/", [script(user) for _ in range(6)]

    def ask(client: APIClient) -> None:
        codes.append(client.post(url, BODY, HTTP_IDEMPOTENCY_KEY="k").status_code)
        connection.close()

    threads = [threading.Thread(target=ask, args=[client]) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(codes) <= {201, 409} and 201 in codes
    assert made() == 1


def test_a_role_that_was_refused_may_try_again(viewer: User, url: str) -> None:
    assert post(viewer, url).status_code == 403
    User.objects.filter(pk=viewer.pk).update(role=Role.TUNER)

    assert post(viewer, url).status_code == 201


def test_an_unknown_token_is_401_and_remembers_nothing(db: None) -> None:
    answer = APIClient().post("/api/v1/pins/", {}, HTTP_IDEMPOTENCY_KEY="k", HTTP_AUTHORIZATION="Bearer pg_guessed")

    assert (answer.status_code, IdempotentRequest.objects.exists()) == (401, False)


@override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=100)
def test_a_body_that_is_too_large_is_413(tuner: User, url: str) -> None:
    refused = post(tuner, url, {"name": "x" * 200})

    assert (refused.status_code, refused["Content-Type"]) == (413, "application/problem+json")


def upload(user: User, text: bytes, name: str = "t.csv", boundary: str = "") -> Any:
    """Of one file, with a key."""
    body, kind = {"files": SimpleUploadedFile(name, text)}, MULTIPART_CONTENT
    if boundary:
        kind = f"multipart/form-data; boundary={boundary}"
    sent = encode_multipart(boundary or BOUNDARY, body)
    return browser(user).generic("POST", "/api/v1/imports/", sent, kind, HTTP_IDEMPOTENCY_KEY="k-1")


def test_an_upload_that_is_sent_again_is_done_once_with_any_boundary(operator: User) -> None:
    first, second = upload(operator, b"policy,good\na,1\n"), upload(operator, b"policy,good\na,1\n", boundary="other")

    assert (first.status_code, second.status_code) == (201, 201)
    assert (second.content, second["Idempotent-Replayed"]) == (first.content, "true")
    assert first.json()["count"] == 1, "whoever told it apart has left it to be read"


@pytest.mark.parametrize("other", [{"text": b"policy,good\na,2\n"}, {"text": b"policy,good\na,1\n", "name": "u.csv"}])
def test_another_upload_of_the_same_length_is_422(operator: User, other: dict[str, Any]) -> None:
    upload(operator, b"policy,good\na,1\n")

    refused = upload(operator, **other)

    assert (refused.status_code, refused.json()["field"]) == (422, "Idempotency-Key")
    assert Import.objects.count() == 1


def test_a_form_that_cannot_be_read_is_400_and_leaves_the_key_free(operator: User) -> None:
    broken = browser(operator).generic(
        "POST", "/api/v1/imports/", b"--x", "multipart/form-data", HTTP_IDEMPOTENCY_KEY="k-1"
    )

    assert (broken.status_code, broken["Content-Type"]) == (400, "application/problem+json")
    assert upload(operator, b"policy,good\na,1\n").status_code == 201
