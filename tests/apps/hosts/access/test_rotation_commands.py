"""The commands in docs/operations/production.md that renew referenced secrets, run as they are written."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from apps.hosts.access import keys
from apps.hosts.models import Identity
from apps.infrastructure import references

pytestmark = [pytest.mark.fast, pytest.mark.needs("sshd")]
DOCUMENT = Path(__file__).parents[4] / "docs" / "operations" / "production.md"


def commands(*words: str) -> list[str]:
    """The command of each row of the table whose first column begins with the words."""
    rows = re.findall(r"^\| ([^|]+) \| `([^`]+)` ", DOCUMENT.read_text(), re.MULTILINE)
    return [command for word in words for secret, command in rows if secret.startswith(word)]


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Path:
    """What lies beside docker-compose.yml: the CA's key, and the directory of references."""
    (tmp_path / "secrets" / "hosts").mkdir(parents=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "ca"], check=True)
    settings.SECRET_SOURCES = references.sources("SOURCES", [f"file:{tmp_path}/secrets/hosts"], {})
    return tmp_path


def run(folder: Path, command: str, typed: str = "") -> None:
    subprocess.run(["bash", "-ec", command], cwd=folder, input=typed, text=True, check=True)


def test_key_and_certificate_are_renewed(folder: Path) -> None:
    key = f"file:{folder}/secrets/hosts/bench"
    identity = Identity(name="bench", private_key_from=key, certificate_from=f"{key}-cert.pub")
    pair, certificate = commands("a referenced SSH key", "the certificate of an SSH key")

    run(folder, pair)
    first = keys.login(identity)
    run(folder, certificate)
    second = keys.login(identity)
    run(folder, pair)
    third = keys.login(identity)

    assert first.certificate and second.certificate and third.certificate
    assert first.certificate.principals == ("proving",) and first.private_key == second.private_key
    assert third.private_key != first.private_key and third.certificate.text != first.certificate.text
    assert not list(folder.glob("new*"))


def test_a_password_is_renewed(folder: Path) -> None:
    (command,) = commands("a referenced password")

    run(folder, command, "first\n")
    run(folder, command, "second\n")

    assert references.read(f"file:{folder}/secrets/hosts/shop") == "second"
    assert (folder / "secrets" / "hosts" / "shop").stat().st_mode & 0o077 == 0
