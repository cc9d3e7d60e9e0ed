"""manage.py create_admin: the first admin's secret, printed once."""

from __future__ import annotations

from io import StringIO

import pytest
from django.contrib.auth import authenticate
from django.core.management import CommandError, call_command
from django.test import RequestFactory
from rest_framework.test import APIClient

from apps.accounts.models import AuditEntry, Role, User

pytestmark = pytest.mark.django_db


def create_admin(*args: str) -> str:
    out = StringIO()
    call_command("create_admin", *args, stdout=out, stderr=StringIO())
    return out.getvalue().strip()


def logs_in(name: str, password: str) -> bool:
    return authenticate(RequestFactory().post("/"), username=name, password=password) is not None


def test_the_printed_password_logs_an_admin_in() -> None:
    password = create_admin("ada")

    assert logs_in("ada", password)
    assert User.objects.get().role == Role.ADMIN
    assert set(AuditEntry.objects.values_list("action", flat=True)) == {"user.create_admin", "user.password"}


def test_the_printed_token_opens_the_api_as_admin() -> None:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {create_admin('ada', '--token', '2')}")

    assert client.get("/api/v1/me/").json()["role"] == "admin"
    assert not User.objects.get().has_usable_password()


def test_an_existing_user_is_left_alone() -> None:
    password = create_admin("ada")

    with pytest.raises(CommandError, match=r"'ada' exists.*--reset"):
        create_admin("ada")

    assert logs_in("ada", password)


def test_reset_gives_a_new_password() -> None:
    old = create_admin("ada")

    new = create_admin("ada", "--reset")

    assert logs_in("ada", new)
    assert not logs_in("ada", old)


def test_a_further_token_leaves_the_password_of_an_admin() -> None:
    password = create_admin("ada")

    create_admin("ada", "--token", "2")

    assert logs_in("ada", password)


def test_an_existing_user_cannot_become_admin_with_a_token(viewer: User) -> None:
    with pytest.raises(CommandError, match="exists"):
        create_admin(viewer.username, "--token", "2")


def test_a_bad_name_or_time_is_refused_and_nothing_is_left() -> None:
    with pytest.raises(CommandError, match="name"):
        create_admin("no good!")
    with pytest.raises(CommandError, match="366"):
        create_admin("ada", "--token", "9999")

    assert not User.objects.exists()
