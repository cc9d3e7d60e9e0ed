"""Compose and buildx for a machine whose Debian has no packages of them: the programs of Debian 13's packages."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.lab.machines.image import mirrors
from tests.session.needs import DEBIAN_KEYRING

RELEASE = "trixie"
PACKAGES = {"docker-compose": "docker-compose", "docker-buildx": "docker-buildx"}


def unpack(folder: Path) -> None:
    """Put the plugins into this folder. Nothing is installed on this machine: apt works in a directory of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="plugins.") as name:
        work = Path(name)
        work.chmod(0o755)  # apt downloads as a user of its own
        for package in download(work, PACKAGES):
            subprocess.run(["dpkg-deb", "--extract", package, work / "root"], check=True, timeout=120)
        for program in PACKAGES.values():
            (source,) = work.glob(f"root/usr/lib*/docker/cli-plugins/{program}")
            (folder / program).write_bytes(source.read_bytes())
            (folder / program).chmod(0o755)


def download(work: Path, packages: Iterable[str]) -> list[Path]:
    """Files of these packages of Debian, in a directory that the account of apt can enter."""
    mirror, _ = mirrors()
    (work / "sources.list").write_text(f"deb [signed-by={DEBIAN_KEYRING}] {mirror} {RELEASE} main\n")
    (work / "lists" / "partial").mkdir(parents=True)
    options = {
        "Dir::Etc::SourceList": work / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": work / "lists",
        "Dir::Cache": work / "cache",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "--quiet=2", *(f"--option={name}={value}" for name, value in options.items())]
    subprocess.run([*apt, "update"], check=True, timeout=600)
    subprocess.run([*apt, "download", *packages], cwd=work, check=True, timeout=600)
    return sorted(work.glob("*.deb"))
