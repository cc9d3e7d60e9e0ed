"""The account `admin` of a stack, for the browser and for the demo's requests."""

from __future__ import annotations

from pathlib import Path

from embedded import paths
from embedded.stack import Stack

ADMIN = "admin"


def exists(stack: Stack) -> bool:
    """Return whether an earlier start created the account."""
    return _token_file(stack).exists()


def token(stack: Stack) -> str:
    """Return the API token of `admin`. The first call creates the account and prints its password once."""
    if not exists(stack):
        print(stack.manage("create_admin", ADMIN).strip(), flush=True)
        issued = stack.manage("create_admin", ADMIN, "--token", "365").strip()
        paths.write_private(_token_file(stack), issued.split()[-1])
    return _token_file(stack).read_text()


def print_new_password(stack: Stack) -> None:
    """Replace the password of `admin`, if the old one is lost."""
    print(stack.manage("create_admin", ADMIN, "--reset").strip(), flush=True)


def _token_file(stack: Stack) -> Path:
    return stack.state / "token"
