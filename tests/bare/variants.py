"""The ways in which a stranger runs the tests: as which account, in which directory, with CI or without."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.bare.command import run
from tests.bare.outcome import Outcome, read
from tests.bare.roots import ACCOUNT

CHECKOUT = Path(__file__).resolve().parents[2]
BUNDLE = "checkout.bundle"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The checkout may belong to the user who called sudo.
GIT = ("git", "-c", f"safe.directory={CHECKOUT}", "-C", str(CHECKOUT))
# Mount, PID, IPC and UTS namespaces. The network stays, because packages have to be installed.
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts")
# The first process of the PID namespace. Ctrl-C does not end it, so that it waits for the tests. A root changed by
# chroot would refuse the user namespaces in which PostgreSQL runs as root.
ENTER = """
set -e
root=$1 account=$2
shift 2
mount --rbind "$root" "$root"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
cd "$root"
pivot_root . .
umount --lazy .
cd /
set +e
setpriv --reuid="$account" --regid="$account" --init-groups "$@"
exit $?
"""
# The README's command in a fresh clone.
TEST = """
git -c advice.detachedHead=false clone --quiet "$1" "$2" && cd "$2" && shift 2 && python3 --version && make test "$@"
"""


@dataclass(frozen=True)
class Variant:
    """An account and the directory of its clone."""

    title: str
    account: str
    clone: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_ci(self) -> bool:
        return "CI" in self.environment

    def test(self, root: Path, arguments: str, log: Path) -> Outcome:
        """Clone this checkout's commit in a root file system, and run `make test` there."""
        _bundle(root)
        began = time.monotonic()
        command = ["sh", "-c", TEST, "sh", f"/{BUNDLE}", self.clone, *([f"ARGS={arguments}"] if arguments else [])]
        code = run(enter(root, self.account, *command), log, env=self._environment(), is_shown=True)
        return read(code, time.monotonic() - began, log.read_text(errors="replace"))

    def _environment(self) -> dict[str, str]:
        """That of a new login, with this machine's proxies."""
        proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
        home = str(Path(self.clone).parent)
        account = {"PATH": PATH, "HOME": home, "USER": self.account, "LOGNAME": self.account, "SHELL": "/bin/bash"}
        return {**proxies, **account, **self.environment}


VARIANTS = {
    "private": Variant("root, below a directory that only root may enter", "root", "/root/proving-ground"),
    "public": Variant("root, below a directory that all may enter", "root", "/srv/proving-ground"),
    "user": Variant("an ordinary user", ACCOUNT, f"/home/{ACCOUNT}/proving-ground"),
    "ci": Variant("root, with CI=true", "root", "/srv/proving-ground", {"CI": "true"}),
}


def enter(root: Path, account: str, *command: str) -> list[str | Path]:
    """Arguments that run a command in a root file system, as this account, in its own namespaces."""
    return [*NAMESPACES, "sh", "-c", ENTER, "sh", root, account, *command]


def _bundle(root: Path) -> None:
    """Put the commit that is checked out, with its history, into the root: its git clones it from there."""
    command: list[str | Path] = [*GIT, "bundle", "create", "--quiet", root / BUNDLE, "HEAD", "--tags"]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=600)
