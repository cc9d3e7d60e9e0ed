"""Tokens from the command line, against a server that listens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apps.accounts.models import ApiToken, Role, Team, User
from tests.cli.program import Program

pytestmark = pytest.mark.thorough


@pytest.fixture
def logged_in(proving: Program, tmp_path: Path) -> Program:
    """Its token is in the file, not in the environment."""
    program = Program(tmp_path / "logged-in")
    program.run("login", proving.url, "--token", proving.token)
    return program


def test_a_limited_token_is_created_and_only_its_secret_is_on_stdout(
    proving: Program, people: dict[Role, User]
) -> None:
    team = Team.objects.create(name="storage")
    limits = ("--scope", "campaigns", "--scope", "hosts", "--team", "storage", "--network", "127.0.0.0/8")

    done = proving.run("token", "create", "nightly", "--days", "1", *limits)

    assert done.returncode == 0, done.stderr
    token = ApiToken.objects.get(name="nightly")
    assert ApiToken.hash(done.stdout.strip()) == token.digest
    assert (token.scopes, token.team, token.networks) == (["campaigns", "hosts"], team, ["127.0.0.0/8"])
    assert "nightly: viewer, campaigns, hosts, only in team" in done.stderr


def test_the_list_shows_permits_and_last_use(proving: Program) -> None:
    text = proving.run("token", "ls").stdout

    assert "tuner, all actions" in text
    assert "127.0.0.1" in text


def test_a_rotation_without_a_name_replaces_the_stored_token(logged_in: Program, proving: Program) -> None:
    done = logged_in.run("token", "rotate", "--overlap", "0")

    secret = done.stdout.strip()
    config = json.loads((logged_in.home / ".config" / "proving" / "config.json").read_text())
    assert (done.returncode, config["token"]) == (0, secret)
    assert logged_in.run("whoami").returncode == 0
    assert proving.run("whoami").returncode == 4  # the old value


def test_a_token_in_the_environment_is_rotated_and_no_file_is_written(proving: Program) -> None:
    done = proving.run("token", "rotate")

    assert done.returncode == 0
    assert not (proving.home / ".config").exists()
    assert proving.run("whoami").returncode == 0  # the overlap


def test_a_token_is_revoked_by_its_name(proving: Program) -> None:
    proving.run("token", "create", "nightly", "--days", "1")

    assert proving.run("token", "revoke", "nightly").returncode == 0
    assert not ApiToken.objects.filter(name="nightly").exists()


def test_a_refusal_names_the_scope_that_is_needed(proving: Program) -> None:
    proving.token = proving.run("token", "create", "reader", "--days", "1", "--scope", "read").stdout.strip()

    done = proving.run("token", "create", "more")

    assert done.returncode == 4
    assert "the token has the scope read; no scope permits this" in done.stderr
    assert "scopes read" in proving.run("whoami").stdout


@pytest.mark.parametrize(("is_member", "shown"), [(True, "storage"), (False, "{id}")])
def test_whoami_shows_the_team_of_a_limited_token_even_to_a_user_who_is_not_a_member(
    proving: Program, people: dict[Role, User], is_member: bool, shown: str
) -> None:
    team = Team.objects.create(name="storage")
    if is_member:
        team.memberships.create(user=people[Role.TUNER], role=Role.TUNER)
    limits = ("--days", "1", "--team", "storage")
    proving.token = proving.run("token", "create", "limited", *limits).stdout.strip()

    assert f"only in team {shown.format(id=team.pk)}," in proving.run("whoami").stdout


def test_an_unknown_team_is_refused_with_the_existing_ones(proving: Program) -> None:
    Team.objects.create(name="storage")

    done = proving.run("token", "create", "t", "--team", "network")

    assert done.returncode == 2
    assert "accepted: storage" in done.stderr
