"""Keyset pagination: each row once, with equal keys, empty lists, and rows that are added or removed."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import timedelta

import pytest
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.web import keyset
from common.errors import PlanError
from tests.rows.factories import browser, make_user

pytestmark = pytest.mark.django_db

NOW = timezone.now()


def people(*logins: int | None) -> list[str]:
    """Users of whom each logged in so many hours ago, or never."""
    for number, hours in enumerate(logins):
        at = None if hours is None else NOW - timedelta(hours=hours)
        User.objects.create(username=f"u{number}", last_login=at)
    return [f"u{number}" for number in range(len(logins))]


def walk(order: Sequence[str], size: int) -> list[list[str]]:
    """The pages from the first to the last, each also read backwards."""
    pages, cursor, before = [], "", None
    while True:
        page = keyset.page(User.objects.all(), order, size, cursor)
        if before is not None:
            assert [row.pk for row in keyset.page(User.objects.all(), order, size, page.previous).rows] == before
        assert bool(page.previous) == (before is not None)
        pages.append([row.username for row in page.rows])
        before, cursor = [row.pk for row in page.rows], page.next
        if not cursor:
            return pages


ORDERS = [
    ["username"],
    ["-pk"],
    ["role", "pk"],
    ["-role", "-pk"],
    ["role", "-pk"],
    ["last_login", "pk"],
    ["-last_login", "-pk"],
    ["-last_login", "pk"],
    ["role", "-last_login", "username"],
]


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_pages_are_the_whole_list_cut(order: list[str], size: int) -> None:
    people(3, None, 1, 3, None, 3, 2)

    pages = walk(order, size)

    assert [name for page in pages for name in page] == [row.username for row in User.objects.order_by(*order)]
    assert {len(page) for page in pages[:-1]} <= {size}


def test_an_empty_list_has_one_page() -> None:
    page = keyset.page(User.objects.all(), ["pk"], 5)

    assert (page.rows, page.previous, page.next, page.all) == ([], "", "", True)


def test_the_last_page_that_is_full_has_no_next_one() -> None:
    people(1, 2, 3, 4)

    first = keyset.page(User.objects.all(), ["pk"], 2)
    last = keyset.page(User.objects.all(), ["pk"], 2, first.next)

    assert (len(last.rows), last.next) == (2, "")


def test_a_cursor_is_valid_after_its_row_is_deleted() -> None:
    people(1, 2, 3, 4)
    first = keyset.page(User.objects.all(), ["username"], 2)

    User.objects.filter(username="u1").delete()

    assert [row.username for row in keyset.page(User.objects.all(), ["username"], 2, first.next).rows] == ["u2", "u3"]


def test_a_row_that_comes_before_the_place_moves_no_other() -> None:
    people(1, 2, 3, 4)
    first = keyset.page(User.objects.all(), ["username"], 2)

    User.objects.create(username="a-new-one")

    assert [row.username for row in keyset.page(User.objects.all(), ["username"], 2, first.next).rows] == ["u2", "u3"]


def test_a_page_takes_one_query() -> None:
    from django.db import connection

    people(1, 2, 3)
    cursor = keyset.page(User.objects.all(), ["pk"], 1).next

    with CaptureQueriesContext(connection) as captured:
        keyset.page(User.objects.all(), ["pk"], 1, cursor)

    assert len(captured) == 1 and "OFFSET" not in captured[0]["sql"]


@pytest.mark.parametrize(
    "cursor", ["x", "\u00e4", "W10", "bnVsbA", "WyI-IixbInBrIl0sWyJ4Il1d", "WyI_IixbInBrIl0sWzFdXQ"]
)
def test_an_invalid_cursor_is_refused_with_what_to_do(cursor: str) -> None:
    with pytest.raises(PlanError, match="is not a cursor of this list") as refused:
        keyset.page(User.objects.all(), ["pk"], 1, cursor)

    assert (refused.value.subject, "omit it" in refused.value.hint) == ("cursor", True)


def test_a_cursor_of_another_order_is_refused() -> None:
    people(1, 2)
    cursor = keyset.page(User.objects.all(), ["username"], 1).next

    with pytest.raises(PlanError):
        keyset.page(User.objects.all(), ["-username"], 1, cursor)


def test_the_links_between_pages_of_the_api_have_the_parameters_of_the_request() -> None:
    viewer = make_user(Role.ADMIN, "ada")
    people(1, 2, 3, 4)
    client = browser(viewer)

    first = client.get("/api/v1/users/?ordering=-username&page_size=2").json()
    second = client.get(first["next"]).json()
    third = client.get(second["next"]).json()

    assert first.keys() == {"next", "previous", "results"}
    names = [[row["username"] for row in page["results"]] for page in (first, second, third)]
    assert names == [["u3", "u2"], ["u1", "u0"], ["ada"]]
    assert (first["previous"], third["next"]) == (None, None)
    assert client.get(second["previous"]).json()["results"] == first["results"]


def test_the_api_refuses_an_invalid_cursor_with_a_hint() -> None:
    answer = browser(make_user(Role.ADMIN)).get("/api/v1/users/?cursor=nonsense")

    assert (answer.status_code, answer.json()["field"]) == (400, "cursor")
    assert "omit it" in answer.json()["hint"]


@pytest.mark.parametrize("page", ["campaigns/?cursor=nonsense", "timeline/?cursor=nonsense"])
def test_an_invalid_position_of_a_page_is_404(page: str) -> None:
    answer = browser(make_user()).get(f"/{page}")

    assert answer.status_code == 404


def test_a_cursor_with_a_nul_is_refused(db: None) -> None:
    cursor = base64.urlsafe_b64encode(b'[">",["username","pk"],["\\u0000",1]]').decode()

    with pytest.raises(PlanError, match="is not a cursor of this list"):
        keyset.page(User.objects.all(), ["username", "pk"], 1, cursor)
