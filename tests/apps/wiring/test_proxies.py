"""The client's address behind a proxy, in sessions, the access log and the lock of logins."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from apps.accounts.models import Session, User
from apps.middleware.proxies import client_of, networks

PROXY, CLIENT = "172.18.0.1", "203.0.113.9"


@pytest.fixture
def trusted(settings: Any) -> None:
    settings.TRUSTED_PROXIES = networks("PROVING_TRUSTED_PROXIES", ["172.18.0.0/16", "fd00::/8"])


def session_address(remote: str, admin: User, **headers: str) -> str | None:
    """What the list of one's sessions shows after a login from `remote`."""
    form = {"username": admin.username, "password": "correct horse battery"}
    answer = Client(REMOTE_ADDR=remote, headers=headers).post("/login/", form)
    assert answer.status_code == 302
    return Session.objects.get().address


def test_a_session_shows_the_client_that_a_trusted_proxy_names(admin: User, trusted: None) -> None:
    assert session_address(PROXY, admin, **{"X-Forwarded-For": f"10.1.1.1, {CLIENT}"}) == CLIENT


def test_forwarded_headers_of_other_clients_are_ignored(admin: User, trusted: None) -> None:
    assert session_address(CLIENT, admin, **{"X-Forwarded-For": "10.1.1.1"}) == CLIENT


def test_without_trusted_proxies_forwarded_headers_are_ignored(admin: User) -> None:
    assert session_address(PROXY, admin, **{"X-Forwarded-For": CLIENT}) == PROXY


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        (f"10.1.1.1, {CLIENT}, 172.18.0.7", CLIENT),
        ("172.18.0.9", "172.18.0.9"),
        ("2001:db8::7, fd00::2", "2001:db8::7"),
        (f"{CLIENT}, nonsense", PROXY),
        ("", PROXY),
    ],
)
def test_the_last_address_that_is_not_a_proxy_is_the_client(trusted: None, forwarded: str, client: str) -> None:
    assert client_of(PROXY, forwarded) == client


def test_https_is_accepted_only_from_a_trusted_proxy(trusted: None, settings: Any, db: None) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.SESSION_COOKIE_SECURE = True
    schemes = {
        remote: Client(REMOTE_ADDR=remote, headers={"X-Forwarded-Proto": "https"}).get("/login/").wsgi_request.scheme
        for remote in (PROXY, CLIENT)
    }

    assert schemes == {PROXY: "https", CLIENT: "http"}


def test_the_access_log_of_gunicorn_reads_the_same_address(admin: User, trusted: None) -> None:
    answer = Client(REMOTE_ADDR=PROXY, headers={"X-Forwarded-For": CLIENT}).get("/login/")

    assert answer.wsgi_request.environ["REMOTE_ADDR"] == CLIENT


def test_metrics_without_a_token_are_refused_behind_a_proxy(db: None, trusted: None) -> None:
    answer = Client(REMOTE_ADDR=PROXY, headers={"X-Forwarded-For": "127.0.0.1"}).get("/metrics")

    assert answer.status_code == 401


def test_a_refused_scrape_names_its_address_and_what_to_do(db: None) -> None:
    message = Client(REMOTE_ADDR=PROXY).get("/metrics").content.decode()

    assert message == (
        f"{PROXY}, as seen by the server, is not this machine: set PROVING_METRICS_TOKEN and send it as"
        " Authorization: Bearer TOKEN\n"
    )


def test_an_invalid_network_is_named() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"PROVING_TRUSTED_PROXIES contains 'nginx': use networks such as"):
        networks("PROVING_TRUSTED_PROXIES", ["10.0.0.0/8", "nginx"])
