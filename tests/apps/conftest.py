"""What the tests of the server share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import override_settings

from apps.accounts.models import Role, User
from tests.factories import make_user


@pytest.fixture(autouse=True)
def quick_passwords() -> Iterator[None]:
    """A password is hashed slowly on purpose; here nobody attacks it."""
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@pytest.fixture
def viewer(db: None) -> User:
    return make_user(Role.VIEWER)


@pytest.fixture
def operator(db: None) -> User:
    return make_user(Role.OPERATOR)


@pytest.fixture
def tuner(db: None) -> User:
    return make_user(Role.TUNER)
