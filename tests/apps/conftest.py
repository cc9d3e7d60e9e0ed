"""Fixtures of the server's tests."""

from __future__ import annotations

import pytest

from apps.accounts.models import Role, User
from tests.rows.factories import make_user


@pytest.fixture
def viewer(db: None) -> User:
    return make_user(Role.VIEWER)


@pytest.fixture
def operator(db: None) -> User:
    return make_user(Role.OPERATOR)


@pytest.fixture
def tuner(db: None) -> User:
    return make_user(Role.TUNER)
