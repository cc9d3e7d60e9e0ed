"""Where the token is stored, which source overrides the others, and to which server it is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.ci import jobs
from apps.accounts.models import Role, User
from tests.cli.program import Program
from tests.servers.ci_platform import Platform, serve

pytestmark = pytest.mark.thorough


@pytest.fixture
def platform(proving: Program, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    with serve(settings, monkeypatch, audience=proving.url) as platform:
        yield platform


@pytest.fixture
def stranger(proving: Program, tmp_path: Path) -> Program:
    """Knows no server yet."""
    return Program(tmp_path / "stranger")


def test_login_keeps_address_and_token_for_its_owner_only(proving: Program, stranger: Program) -> None:
    done = stranger.run("login", proving.url + "/", stdin=proving.token + "\n")

    config = stranger.home / ".config" / "proving" / "config.json"
    assert (done.returncode, done.stderr) == (0, "")
    assert "a-tuner, tuner, until " in done.stdout
    assert json.loads(config.read_text()) == {"url": proving.url, "token": proving.token}
    assert config.stat().st_mode & 0o777 == 0o600
    assert stranger.json("whoami")["username"] == "a-tuner"


def test_login_follows_xdg(proving: Program, stranger: Program, tmp_path: Path) -> None:
    stranger.env["XDG_CONFIG_HOME"] = str(tmp_path / "elsewhere")

    answer = stranger.json("login", proving.url, "--token", proving.token)

    assert answer["file"] == str(tmp_path / "elsewhere" / "proving" / "config.json")


def test_a_wrong_token_is_not_stored(proving: Program, stranger: Program) -> None:
    done = stranger.run("login", proving.url, "--token", "pg_guessed")

    assert done.returncode == 4
    assert "error: unknown token" in done.stderr
    assert not (stranger.home / ".config").exists()


def test_the_environment_wins_over_the_file(proving: Program, stranger: Program) -> None:
    stranger.run("login", proving.url, "--token", proving.token)
    stranger.env["PROVING_TOKEN"] = "pg_other"

    assert stranger.run("whoami").returncode == 4


def test_a_stored_token_is_sent_to_no_other_server(proving: Program, stranger: Program) -> None:
    stranger.run("login", proving.url, "--token", proving.token)
    stranger.env["PROVING_URL"] = "http://127.0.0.1:9"

    done = stranger.run("whoami")

    assert (done.returncode, done.stderr.splitlines()[0]) == (4, "error: no token for http://127.0.0.1:9")


def test_a_file_that_others_may_read_is_refused(proving: Program, stranger: Program) -> None:
    stranger.run("login", proving.url, "--token", proving.token)
    config = stranger.home / ".config" / "proving" / "config.json"
    config.chmod(0o644)

    done = stranger.run("whoami")

    assert done.returncode == 4
    assert f"accepted: chmod 600 {config}" in done.stderr


def test_without_a_login_it_says_how(stranger: Program) -> None:
    done = stranger.run("hosts", "--json")

    assert done.returncode == 4
    assert json.loads(done.stderr)["error"]["accepted"].startswith("proving login URL")


def test_an_unreachable_server_exits_with_6(stranger: Program) -> None:
    stranger.env |= {"PROVING_URL": "http://127.0.0.1:9", "PROVING_TOKEN": "pg_x", "PROVING_PATIENCE_S": "1"}

    done = stranger.run("whoami")

    assert done.returncode == 6
    assert "http://127.0.0.1:9 does not answer" in done.stderr


def test_a_ci_job_exchanges_its_id_token(stranger: Program, proving: Program, platform: Platform) -> None:
    owner = User.objects.get(username="a-tuner")
    job = jobs.trust(owner, "nightly", Role.OPERATOR, issuer=platform.url, claims={"repository": "acme/shop"})
    stranger.env["PROVING_ID_TOKEN"] = platform.sign(aud=proving.url)

    done = stranger.run("login", proving.url, "--ci", str(job.pk))

    assert (done.returncode, done.stderr) == (0, "")
    assert stranger.json("whoami")["token"]["role"] == "operator"


def test_a_job_of_github_actions_requests_its_id_token(stranger: Program, proving: Program, platform: Platform) -> None:
    owner = User.objects.get(username="a-tuner")
    job = jobs.trust(owner, "nightly", Role.OPERATOR, issuer=platform.url, claims={"repository": "acme/shop"})
    stranger.env["ACTIONS_ID_TOKEN_REQUEST_URL"] = f"{platform.url}/github?api-version=2.0"
    stranger.env["ACTIONS_ID_TOKEN_REQUEST_TOKEN"] = "of-the-job"

    assert stranger.run("login", proving.url, "--ci", str(job.pk)).returncode == 0


def test_outside_of_a_ci_job_the_error_names_the_variable(stranger: Program, proving: Program) -> None:
    done = stranger.run("login", proving.url, "--ci", "7")

    assert done.returncode == 2 and "PROVING_ID_TOKEN" in done.stderr
