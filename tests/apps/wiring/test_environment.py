"""The server refuses to start with a published example as a secret, and reads secrets from files."""

from __future__ import annotations

import base64
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured

from apps import process
from apps.configuration import stores
from apps.configuration.environment import Environment

ROOT = Path(__file__).resolve().parents[3]
KEY = base64.urlsafe_b64encode(bytes(range(32))).decode()  # the same in each worker: it is part of a test's name
STRONG = "x7-Qm2vRk9_TzB4nLw8sYc1DfHj6GpE0aUoIiXtNqSrVbMyKZeJ"
env = Environment()


def settings(monkeypatch: pytest.MonkeyPatch, **variables: str) -> dict[str, Any]:
    """The server's settings, loaded again with these variables."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return runpy.run_path(str(ROOT / "apps" / "settings.py"))


@pytest.mark.parametrize(
    ("variable", "value", "rule"),
    [
        ("PROVING_SECRET_KEY", "# python3 -c 'import secrets; print(secrets.token_urlsafe(50))'", "begins with #"),
        ("PROVING_SECRET_KEY", "python3 -c 'import secrets; print(secrets.token_urlsafe(50))'", "contains whitespace"),
        ("PROVING_SECRET_KEY", "django-insecure-" + STRONG, "is an example"),
        ("PROVING_SECRET_KEY", STRONG[:20], "is too weak"),
        ("PROVING_SSH_KEYS", "# python3 -c 'import base64'", "begins with #"),
        ("PROVING_SSH_KEYS", "new,old", "key 1 of PROVING_SSH_KEYS is an example"),
        ("PROVING_SSH_KEYS", f"{KEY},{KEY[:-2]}", "key 2 of PROVING_SSH_KEYS is not a Fernet key"),
        ("PROVING_METRICS_TOKEN", "THE_TOKEN", "is an example"),
        ("PROVING_METRICS_TOKEN", "a token", "contains whitespace"),
        ("PROVING_DATABASE_PASSWORD", "# letters and digits", "begins with #"),
        ("PROVING_DATABASE_URL", "postgres://proving:secret@db:5432/proving", "the password in PROVING_DATABASE_URL"),
        ("PROVING_DATABASE_URL", "postgres://proving:# letters@db:5432/proving", "contains whitespace"),
        ("PROVING_DATABASE_URL", "mysql://db/proving", "begins with none of postgres://"),
        ("PROVING_BROKER_URL", "amqp://db", "begins with none of redis://"),
        ("PROVING_CACHE_URL", "redis://:#likewise@redis:6379/9", "contains a #, which ends a URL: write it as %23"),
        ("PROVING_EMAIL_URL", "smtp+tls://user:changeme@mail.example.org:587", "the password in PROVING_EMAIL_URL"),
        ("PROVING_OTLP_ENDPOINT", "https://user:sesame@otel:4318", "contains a user or password"),
        ("PROVING_OTLP_HEADERS", "authorization=Bearer sesame", "contains whitespace"),
        ("PROVING_OTLP_HEADERS", "a=1,Bearer-sesame", "header 2 of PROVING_OTLP_HEADERS has no ="),
        ("PROVING_CA_BUNDLE", "/nowhere/ca.pem", "which contains no CA certificates"),
    ],
)
def test_an_invalid_secret_stops_the_start_and_is_not_printed(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, rule: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match=re.escape(rule)) as refused:
        settings(monkeypatch, **{variable: value})

    assert variable in str(refused.value)
    assert variable == "PROVING_CA_BUNDLE" or value not in str(refused.value)


def test_every_secret_may_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {
        "PROVING_SECRET_KEY": STRONG,
        "PROVING_SSH_KEYS": f"{KEY}\n{Fernet.generate_key().decode()}",
        "PROVING_METRICS_TOKEN": "kZ3-u8_pQ",
        "PROVING_OTLP_HEADERS": "authorization=Bearer%20kZ3-u8_pQ",
        "PROVING_DATABASE_URL": "postgres://proving@db/proving",
        "PROVING_DATABASE_PASSWORD": "p@ss/w:rd",
        "PROVING_BROKER_URL": "redis://redis:6379/0",
        "PROVING_CACHE_URL": "redis://redis:6379/9",
        "PROVING_REDIS_PASSWORD": "r@d/s",
    }
    for name, value in secrets.items():
        (tmp_path / name).write_text(value + "\n")
        monkeypatch.delenv(name, raising=False)

    read = settings(monkeypatch, **{f"{name}_FILE": str(tmp_path / name) for name in secrets})

    assert (read["SECRET_KEY"], read["METRICS_TOKEN"]) == (STRONG, "kZ3-u8_pQ")
    assert read["OTLP_HEADERS"] == {"authorization": "Bearer kZ3-u8_pQ"}
    assert read["SSH_KEYS"] == secrets["PROVING_SSH_KEYS"].split()
    assert read["DATABASES"]["default"]["PASSWORD"] == "p@ss/w:rd"
    assert read["CELERY_BROKER_URL"] == "redis://:r%40d%2Fs@redis:6379/0"
    assert read["CACHES"]["default"]["LOCATION"] == "redis://:r%40d%2Fs@redis:6379/9"


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read"), ("\n", "is empty"), ("# a comment", "A_SECRET_FILE begins with #")],
)
def test_a_file_without_a_secret_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "secret").write_text(content)
    monkeypatch.setenv("A_SECRET_FILE", str(tmp_path / "secret"))

    with pytest.raises(ImproperlyConfigured, match=rf"A_SECRET_FILE.*{message}|{message}"):
        env.secret("A_SECRET")


@pytest.mark.parametrize(("seconds", "url"), [("0", ""), ("60", "http://otel:4318/v1/metrics")])
def test_metrics_are_sent_to_the_collector_of_traces_if_there_is_an_interval(
    monkeypatch: pytest.MonkeyPatch, seconds: str, url: str
) -> None:
    variables = {"PROVING_OTLP_ENDPOINT": "http://otel:4318", "PROVING_OTLP_METRICS_EVERY_S": seconds}
    read = settings(monkeypatch, **variables)

    assert (read["OTLP_ENDPOINT"], read["OTLP_METRICS_URL"]) == ("http://otel:4318/v1/traces", url)


def test_a_variable_and_its_file_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", STRONG)
    monkeypatch.setenv("A_SECRET_FILE", "/run/secrets/a")

    with pytest.raises(ImproperlyConfigured, match="A_SECRET and A_SECRET_FILE are both set"):
        env.secret("A_SECRET")


def test_two_passwords_for_one_store_are_refused() -> None:
    with pytest.raises(
        ImproperlyConfigured, match="PROVING_DATABASE_PASSWORD is set and PROVING_DATABASE_URL contains"
    ):
        stores.database("postgres://proving:one@db/proving", "two", "", "test")
    with pytest.raises(ImproperlyConfigured, match="PROVING_REDIS_PASSWORD is set and PROVING_CACHE_URL contains"):
        stores.redis_url("PROVING_CACHE_URL", "redis://:one@redis/9", "two", "")


@pytest.mark.parametrize(
    ("argv", "kind"),
    [
        (["/venv/gunicorn/__main__.py", "apps.wsgi", "--workers=2"], "web"),
        (["/venv/bin/gunicorn", "apps.wsgi"], "web"),
        (["/venv/celery/__main__.py", "--app=apps.celery", "worker", "--queues=celery"], "worker"),
        (["/venv/celery/__main__.py", "--app=apps.celery", "worker", "--queues=runs"], "dispatcher"),
        (["/venv/bin/celery", "--app=apps.celery", "beat"], "beat"),
        (["manage.py", "migrate", "--noinput"], "migrate"),
        (["-c"], "python"),
        ([], "python"),
    ],
)
def test_the_kind_of_a_process_follows_from_its_arguments(argv: list[str], kind: str) -> None:
    assert process.kind(argv) == kind
