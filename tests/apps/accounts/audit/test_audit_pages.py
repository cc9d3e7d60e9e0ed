"""The audit log on its pages: filters, pagination, CSV."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.accounts.services import audit
from tests.rows import populate


@pytest.fixture
def people(client: Client, db: None) -> tuple[User, User]:
    ada, olga = populate.user(Role.ADMIN, "ada"), populate.user(Role.OPERATOR, "olga")
    client.force_login(ada)
    audit(ada, "host.add", "bench-01", after={"address": "10.0.0.1"})
    audit(olga, "campaign.start", "Scaling", after={"runs": 6})
    audit(None, "host.unfit", "bench-01", after={"reason": "the disk is full"})
    return ada, olga


TODAY, TOMORROW = "TODAY", "TOMORROW"  # days of the moment of the test: it may have been collected before midnight


def of_now(filters: dict[str, str]) -> dict[str, str]:
    now = timezone.now()
    days = {TODAY: f"{now:%Y-%m-%d}", TOMORROW: f"{now + timedelta(days=1):%Y-%m-%d}"}
    return {name: days.get(value, value) for name, value in filters.items()}


@pytest.mark.parametrize(
    ("filters", "actions"),
    [
        ({}, ["host.unfit", "campaign.start", "host.add"]),
        ({"person": "olga"}, ["campaign.start"]),
        ({"person": "system"}, ["host.unfit"]),
        ({"action": "host."}, ["host.unfit", "host.add"]),
        ({"target": "scal"}, ["campaign.start"]),
        ({"since": TODAY, "until": TODAY}, ["host.unfit", "campaign.start", "host.add"]),
        ({"since": TOMORROW}, []),
        ({"person": "ada", "action": "campaign."}, []),
    ],
)
def test_each_filter_narrows_it_on_the_page_in_the_api_and_in_the_file(
    client: Client, people: Any, filters: dict[str, str], actions: list[str]
) -> None:
    filters = of_now(filters)
    page = client.get(reverse("audit_log"), filters)
    api = client.get("/api/v1/audit/", filters).json()
    file = b"".join(client.get(reverse("audit_csv"), filters).streaming_content).decode()  # type: ignore[attr-defined]

    assert [entry.action for entry in page.context["entries"]] == actions
    assert [entry["action"] for entry in api["results"]] == actions
    assert [row["action"] for row in csv.DictReader(io.StringIO(file))] == actions


def test_values_are_shown_whole_and_not_as_python(client: Client, people: Any) -> None:
    settings = {"postgresql": {"shared_buffers": "2GB", "jit": False}, "reboot": None, "labels": ["oltp", "rack=b2"]}
    audit(people[0], "profile.revise", "big", after={"settings": settings, "note": "x" * 300 + " the end"})

    html = client.get(reverse("audit_log")).content.decode()

    assert "settings.postgresql.shared_buffers: 2GB" in html
    assert "settings.postgresql.jit: no" in html
    assert "settings.reboot: none" in html
    assert "settings.labels: oltp, rack=b2" in html
    assert "x the end" in html and "{&#x27;" not in html


def test_a_formula_in_the_file_is_disarmed(client: Client, people: Any) -> None:
    audit(people[0], "profile.create", "=HYPERLINK(1)")

    answer = client.get(reverse("audit_csv"))

    assert "'=HYPERLINK(1)" in b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    assert answer.headers["Content-Disposition"].startswith("attachment")


def test_an_invalid_day_is_reported(client: Client, people: Any) -> None:
    refused = client.get(reverse("audit_log"), {"since": "yesterday"})

    page = refused.content.decode()
    assert refused.status_code == 404
    assert "is not a date. Accepted: a date such as 2026-01-31." in page and "There is no page" not in page
    refused = client.get("/api/v1/audit/", {"since": "yesterday"})
    assert (refused.status_code, refused.json()["field"]) == (400, "since")


def test_a_long_log_comes_in_pages(client: Client, people: Any) -> None:
    for number in range(150):
        audit(people[0], "host.check", f"bench-{number}")

    first = client.get(reverse("audit_log"))
    second = client.get(reverse("audit_log"), {"cursor": first.context["pages"].next})

    assert (len(first.context["entries"]), len(second.context["entries"])) == (100, 53)


def test_only_admins_read_it(client: Client, people: Any) -> None:
    client.force_login(people[1])

    assert client.get(reverse("audit_log")).status_code == 403
    assert client.get("/api/v1/audit/").status_code == 403
