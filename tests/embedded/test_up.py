"""`make up` on a fresh clone: its output is enough to log in, also after the password was lost."""

from __future__ import annotations

import re
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from embedded import __main__ as program
from embedded import stack
from embedded.servers.postgres import RUNTIME_USER
from embedded.supervisor import Stopped, Supervisor


def logs_in(url: str, password: str) -> bool:
    """Whether the login form, as a browser sends it, accepts `admin` with this password."""
    browser = build_opener(HTTPCookieProcessor(CookieJar()))
    with browser.open(f"{url}/login/") as form:
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form.read().decode())
    assert token
    fields = {"csrfmiddlewaretoken": token[1], "username": "admin", "password": password}
    with browser.open(f"{url}/login/", urlencode(fields).encode()) as page:
        return not page.url.endswith("/login/")


def start_web(of: stack.Stack) -> None:
    """All of the server that a login needs."""
    of.manage("runtime_role", RUNTIME_USER, stdin=of.postgres.runtime_password)
    of.supervisor.start(of.web)


def test_up_prints_an_account_the_first_time_and_another_password_on_request(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    passwords: list[str] = []
    accepted: list[list[bool]] = []

    def serve(_: Supervisor) -> None:
        *shown, address = capsys.readouterr().out.splitlines()
        passwords.extend(shown[-1:])
        accepted.append([logs_in(address.split()[0], password) for password in passwords])
        raise Stopped("SIGINT")

    monkeypatch.setattr(Supervisor, "serve", serve)
    monkeypatch.setattr(stack, "default_state", lambda: state)
    monkeypatch.setattr(stack.Stack, "start_server", start_web)

    for arguments in ([], ["--new-password"]):
        assert program.main(["up", *arguments]) == 0

    assert accepted == [[True], [False, True]]
