"""A running server, and the program with a token of each role."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import Role, User
from tests.cli.program import Program
from tests.rows.factories import issue_token, make_user


@pytest.fixture
def people(transactional_db: None) -> dict[Role, User]:
    return {role: make_user(role, f"a-{role.value}") for role in Role}


@pytest.fixture
def program(live_server: Any, people: dict[Role, User], tmp_path: Path) -> Callable[..., Program]:
    """program(role) -> one that has a token in its environment."""

    def make(role: Role = Role.TUNER) -> Program:
        _, secret = issue_token(people[role], "cli", role)
        return Program(tmp_path / role.value, live_server.url, secret)

    return make


@pytest.fixture
def proving(program: Callable[..., Program]) -> Program:
    """A tuner's."""
    return program()
