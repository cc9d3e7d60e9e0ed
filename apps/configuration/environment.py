"""Reads environment variables for apps/settings.py. Secrets come from a variable or a file, and are checked first."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

import environ
from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured

# Values in documents and example files, which are public.
EXAMPLES = frozenset(
    [
        "admin",
        "change-me",
        "change_me",
        "changeme",
        "choose",
        "dummy",
        "example",
        "insecure",
        "new",
        "old",
        "pass",
        "passw0rd",
        "password",
        "postgres",
        "proving",
        "redis",
        "secret",
        "test",
        "the_token",
        "todo",
        "token",
    ]
)
EXAMPLE_PREFIXES = ("django-insecure-", "change-me", "changeme", "replace-me", "your-")


class Environment(environ.Env):  # type: ignore[misc]  # it has no types
    """environ.Env with secrets. An empty variable counts as unset: compose passes those on."""

    def secret(self, name: str, *, default: str | None = None) -> str:
        """Return the value of NAME, or the content of the file NAME_FILE. ImproperlyConfigured names the variable and
        the rule that it breaks, never the value."""
        value, origin = self._read(name)
        if not value:
            if default is None:
                raise ImproperlyConfigured(f"{name} is not set: set it, or set {name}_FILE to the name of a file")
            return default
        check_secret(origin, value)
        return value

    def keys(self, name: str) -> list[str]:
        """Return one or more Fernet keys, separated by commas or, in a file, by line breaks."""
        value, origin = self._read(name)
        keys = [key.strip() for key in value.replace("\n", ",").split(",") if key.strip()]
        if not keys:
            raise ImproperlyConfigured(f"{name} is not set: set one Fernet key, or several with the newest first")
        for number, key in enumerate(keys, 1):
            which = f"key {number} of {origin}" if len(keys) > 1 else origin
            check_secret(which, key)
            _check_fernet(which, key)
        return keys

    def secret_url(self, name: str, *, default: str | None = None) -> str:
        """Return a URL. If it contains a password, it is checked like any other secret."""
        value, origin = self._read(name)
        if not value:
            return self.secret(name, default=default)
        _check_characters(origin, value)
        if "#" in value:
            raise ImproperlyConfigured(f"{origin} contains a #, which ends a URL: write it as %23")
        password = urlsplit(value).password
        if password:
            check_secret(f"the password in {origin}", unquote(password))
        return value

    def _read(self, name: str) -> tuple[str, str]:
        """Return the value and the name of its variable."""
        value, file = os.environ.get(name, ""), os.environ.get(f"{name}_FILE", "")
        if value and file:
            raise ImproperlyConfigured(f"{name} and {name}_FILE are both set: set only one of them")
        if not file:
            return value, name
        try:
            value = Path(file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ImproperlyConfigured(f"{name}_FILE is {file!r}, which cannot be read: {error}") from error
        if not value:
            raise ImproperlyConfigured(f"{name}_FILE is {file!r}, which is empty: write the secret to it")
        return value, f"{name}_FILE"


def check_secret(name: str, value: str) -> None:
    """Raise ImproperlyConfigured if `value` is a comment, contains whitespace or is a well-known example."""
    _check_characters(name, value)
    plain = value.lower()
    if plain in EXAMPLES or plain.startswith(EXAMPLE_PREFIXES):
        raise ImproperlyConfigured(f"{name} is an example from the documentation: generate your own secret")
    if len(set(plain)) == 1:
        raise ImproperlyConfigured(f"{name} repeats a single character: generate a random secret")


def _check_characters(name: str, value: str) -> None:
    if value.startswith("#"):
        raise ImproperlyConfigured(
            f"{name} begins with #, so it is a comment: in .env, write comments on separate lines"
        )
    if any(character.isspace() for character in value):
        raise ImproperlyConfigured(f"{name} contains whitespace: remove spaces, tabs and line breaks")


def _check_fernet(name: str, key: str) -> None:
    try:
        Fernet(key)
    except ValueError as error:
        raise ImproperlyConfigured(
            f"{name} is not a Fernet key: 32 random bytes in url-safe base64. Generate one with: python3 -c "
            "'import base64, secrets; print(base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())'"
        ) from error
