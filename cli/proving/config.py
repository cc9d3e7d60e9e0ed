"""The address of the server and the token, from the environment or from a file that only its owner can read."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from proving.errors import LoginError, UsageError

HINT = "proving login URL, or set PROVING_URL and PROVING_TOKEN"


@dataclass(frozen=True)
class Login:
    """`url` has no slash at its end."""

    url: str
    token: str


def file() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "proving" / "config.json"


def load() -> Login:
    """Return the stored login. LoginError without one. The token of the file is only sent to the server of the file."""
    stored = _stored_login()
    url = os.environ.get("PROVING_URL", "").rstrip("/") or (stored.url if stored else "")
    token = os.environ.get("PROVING_TOKEN", "") or (stored.token if stored and stored.url == url else "")
    if not url or not token:
        raise LoginError(f"no token for {url}" if url else "not logged in", accepted=HINT)
    return Login(valid_url(url), token)


def _stored_login() -> Login | None:
    path = file()
    if not path.exists():
        return None
    if path.stat().st_mode & 0o077:
        raise LoginError(f"other users may read {path}, which contains a token", accepted=f"chmod 600 {path}")
    try:
        return Login(**json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise LoginError(
            f"{path} cannot be read: {error}", accepted="run proving login URL to write it again"
        ) from error


def save(login: Login) -> Path:
    """Replace the file atomically. Returns its path."""
    path = file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        json.dump(asdict(login), stream)
    new.replace(path)
    return path


def replace_token(old: str, new: str) -> Path | None:
    """The path of the file in which `new` replaces `old`; None if the file does not contain `old`."""
    stored = _stored_login()
    return save(Login(stored.url, new)) if stored and stored.token == old else None


def patience_s() -> float:
    """Return how long to retry while the server does not answer."""
    text = os.environ.get("PROVING_PATIENCE_S", "10")
    try:
        return float(text)
    except ValueError as error:
        raise UsageError("not a number", field="PROVING_PATIENCE_S", value=text, accepted="seconds") from error


def valid_url(url: str) -> str:
    if not url.startswith(("https://", "http://")):
        raise UsageError("not the address of a server", field="URL", value=url, accepted="https://HOST or http://HOST")
    return url.rstrip("/")
