"""Someone who reads the database, or a backup of it, finds no secret that works."""

from __future__ import annotations

import time

import pyotp
from django.conf import settings
from django.db import connection
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role, User
from apps.accounts.notices import channels
from apps.accounts.second_factor import factors
from apps.accounts.tokens.lifecycle import issue_token
from apps.decisions.timeline.feed import renew_feed
from apps.hosts import services
from apps.hosts.access import signing
from apps.hosts.usage import remote_servers
from apps.infrastructure import vault
from tests.rows import populate
from tests.rows.factories import browser

OF_SERVER = {"addresses": ["db.example.com"], "user": "loader", "sslmode": "require"}


def session_of(user: User) -> str:
    client = Client()
    client.post(reverse("login"), {"username": user.username, "password": populate.PASSWORD})
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def secrets_of_every_kind(user: User, admin: User) -> dict[str, str]:
    """The secrets that users, scripts and hosts use, as they use them."""
    remote_servers.register(populate.host(), "shop", by=admin, password="s3cret-of-loader", **OF_SERVER)
    _, webhook = channels.create(by=admin, name="w", kind="webhook", address="http://127.0.0.1:9/", events=[])
    identity = services.create_identity("key", by=admin)
    app = factors.begin(admin)
    codes = factors.confirm(admin, pyotp.TOTP(app).at(int(time.time())), session_key=None)
    body, once = {"name": "by a script", "days": 1}, {"HTTP_IDEMPOTENCY_KEY": "k"}
    return {
        "password": populate.PASSWORD,
        "session": session_of(user),
        "token": issue_token(user, "nightly", Role.OPERATOR)[1],
        "token in a stored response": browser(user).post("/api/v1/tokens/", body, **once).json()["secret"],
        "feed": renew_feed(by=user).split("/")[2],
        "password of a remote server": "s3cret-of-loader",
        "webhook": webhook,
        "SSH key": vault.decrypt(identity.private_key_encrypted).splitlines()[2],
        "key that signs agents": vault.decrypt(signing.current_key().private_key_encrypted).splitlines()[2],
        "authenticator app": app,
        "recovery code": codes[0],
    }


def stored() -> str:
    """Each row of each table, as PostgreSQL prints it."""
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        cursor.execute(" UNION ALL ".join(f'SELECT "{table}"::text FROM "{table}"' for table in tables))
        return "\n".join(row for (row,) in cursor.fetchall())


def test_no_table_has_a_secret_that_works(db: None) -> None:
    secrets = secrets_of_every_kind(populate.user(Role.OPERATOR, "olga"), populate.user(Role.ADMIN, "ada"))

    text = stored()

    assert "olga" in text and "shop" in text
    assert all(len(secret) >= 8 for secret in secrets.values()), "too short to be found"
    forms = {kind: (secret, secret.replace("-", ""), secret.encode().hex()) for kind, secret in secrets.items()}
    assert [kind for kind, each in forms.items() if any(form in text for form in each)] == []
