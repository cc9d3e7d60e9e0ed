"""Root file systems with Python, git, make and nothing else: each built once, and copied for each session of tests."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bare.command import run
from tests.compose import plugins
from tests.compose.images import SCRIPTS
from tests.lab.machines.image import mirrors
from tests.lab.machines.lab import SBIN
from tests.servers import package_index

DIRECTORY = Path(os.environ.get("PROVING_BARE_DIR") or "/var/tmp/proving-bare").resolve()
# What the README asks for, and the CAs without which nothing can be downloaded.
PACKAGES = ("python3", "python3-venv", "git", "make", "ca-certificates")
ACCOUNT = "tester"
CAS = "etc/ssl/certs/ca-certificates.crt"
ESCAPED = re.compile(r"\\([0-7]{3})")  # a blank in a path of /proc/self/mountinfo
UBUNTU_KEYS = "usr/share/keyrings/ubuntu-archive-keyring.gpg"


class BareError(Exception):
    """A root file system cannot be built or removed; the message says why."""


@dataclass(frozen=True)
class System:
    """A distribution whose python3 has the wanted version."""

    name: str
    release: str
    is_ubuntu: bool = False


SYSTEMS = {
    "3.11": System("Debian 12", "bookworm"),
    "3.12": System("Ubuntu 24.04", "noble", is_ubuntu=True),
    "3.13": System("Debian 13", "trixie"),
}


def base_of(system: System) -> Path:
    """Where the root file system of this distribution is, if it was built with this recipe."""
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    return DIRECTORY / f"{system.release}-{recipe}"


def build(system: System, log: Path) -> None:
    """Build it, in place of one with another recipe."""
    log.write_text("")
    for outdated in DIRECTORY.glob(f"{system.release}-*"):
        remove(outdated)
    with temporary("build.") as root, temporary("keys.") as keys:
        source = _ubuntu(system, keys) if system.is_ubuntu else _debian(system)
        options = ["--variant=minbase", f"--include={','.join(PACKAGES)}", *source.options]
        # Mounts of a build end with its process, however it ends.
        _run(["unshare", "--mount", "debootstrap", *options, system.release, root, source.mirror, source.script], log)
        _run(["chroot", root, "useradd", "--create-home", "--shell=/bin/bash", ACCOUNT], log)
        for package in root.glob("var/cache/apt/archives/*.deb"):
            package.unlink()
        root.rename(base_of(system))


def _run(command: list[str | Path], log: Path) -> None:
    path = f"{os.environ.get('PATH', os.defpath)}:{SBIN}"
    if code := run(command, log, env={**os.environ, "PATH": path}):
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
        raise BareError(f"{tail}\nfailed with exit code {code}: {' '.join(map(str, command))} (log: {log})")


@dataclass(frozen=True)
class Source:
    """Where debootstrap gets a distribution from."""

    mirror: str
    script: Path
    options: tuple[str, ...] = ()


def _debian(system: System) -> Source:
    """The mirror that this machine's apt uses. An older debootstrap has no script for a newer release."""
    return Source(mirrors()[0], _script(system, "sid"))


def _ubuntu(system: System, work: Path) -> Source:
    """Without PROVING_UBUNTU_MIRROR, debootstrap's own mirror. The keys are in a package of Debian."""
    (package,) = plugins.download(work, ["ubuntu-keyring"])
    subprocess.run(["dpkg-deb", "--extract", package, work / "root"], check=True, timeout=120)
    options = (f"--keyring={work / 'root' / UBUNTU_KEYS}", "--components=main,universe")
    return Source(os.environ.get("PROVING_UBUNTU_MIRROR", ""), _script(system, "gutsy"), options)


def _script(system: System, other: str) -> Path:
    script = SCRIPTS / system.release
    return script if script.exists() else SCRIPTS / other


@contextmanager
def copy(base: Path) -> Iterator[Path]:
    """A copy of a root file system that reaches the network and the package index like this machine does."""
    with temporary("run.") as root:
        subprocess.run(["cp", "--archive", "--no-target-directory", base, root], check=True, timeout=600)
        for name in ("etc/resolv.conf", "etc/hosts"):
            (root / name).unlink(missing_ok=True)
            shutil.copy(Path("/") / name, root / name)
        settings = package_index.settings()
        if cas := package_index.trusted_cas():
            shutil.copy(cas, root / CAS)
            settings["cert"] = f"/{CAS}"
        (root / "etc/pip.conf").write_text(package_index.pip_conf(settings))
        yield root


@contextmanager
def temporary(prefix: str) -> Iterator[Path]:
    """An empty directory that all may enter, removed at the end unless it was renamed."""
    root = Path(tempfile.mkdtemp(prefix=prefix, dir=DIRECTORY))
    root.chmod(0o755)
    try:
        yield root
    finally:
        remove(root)


def remove_leftovers() -> None:
    """Remove what a killed session left behind."""
    for pattern in ("build.*", "run.*", "keys.*"):
        for root in DIRECTORY.glob(pattern):
            remove(root)


def remove(root: Path) -> None:
    """Delete a directory, but nothing that is mounted below it."""
    for point in reversed(mounts_below(root)):
        subprocess.run(["umount", point], check=False, timeout=60)
    # `rm --one-file-system` alone follows a bind mount of the same file system.
    if still := mounts_below(root):
        raise BareError(f"{root} is not removed, because {still[0]} is mounted: umount it, then remove {root}")
    if root.exists():
        subprocess.run(["rm", "--recursive", "--force", "--one-file-system", root], check=True, timeout=600)


def mounts_below(root: Path) -> list[Path]:
    """Mount points at or below a directory, in the order in which they were mounted."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [Path(ESCAPED.sub(lambda code: chr(int(code[1], 8)), line.split()[4])) for line in lines]
    return [point for point in points if point.is_relative_to(root.resolve())]
