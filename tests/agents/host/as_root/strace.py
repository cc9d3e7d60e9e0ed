"""System calls of processes of root, parsed from the output of `strace -f -y`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

FORKS = ("clone", "clone3", "fork", "vfork")
OPENS = ("open", "openat", "openat2", "creat")
CHANGES = (
    "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "link", "linkat", "symlink",
    "symlinkat", "mknod", "mknodat", "truncate", "mount", "umount2", "chown", "lchown", "fchown", "fchownat", "chmod",
    "fchmod", "fchmodat",
)  # fmt: skip
IDENTITIES = ("setuid", "setreuid", "setresuid")
OPTIONS = ("-f", "-y", "-s", "4096", "-e", "trace=" + ",".join((*FORKS, *OPENS, *CHANGES, *IDENTITIES, "execve")))
WRITING = re.compile(r"\bO_(?:WRONLY|RDWR|CREAT|TRUNC)\b")


@dataclass(frozen=True)
class Open:
    """A file that root opened. The path is the kernel's own, with links resolved."""

    path: str
    follows: bool  # links, in the last part of the path
    directory: bool  # only to list it


@dataclass
class Trace:
    """Successful calls of processes whose effective user is root."""

    executed: set[str] = field(default_factory=set)
    read: set[Open] = field(default_factory=set)
    written: set[Open] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)  # whole calls


def of(path: Path) -> Trace:
    calls = list(_whole(path.read_text().splitlines()))
    parents = {child: pid for pid, call in calls for child in _child(call)}
    trace, users = Trace(), dict[str, int]()
    for pid, call in calls:
        user = users.setdefault(pid, users.get(parents.get(pid, ""), 0))
        name = call.partition("(")[0]
        if name in IDENTITIES and call.endswith("= 0"):
            users[pid] = _effective(name, call, user)
        elif user == 0:
            _note(trace, name, call)
    return trace


def _whole(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(pid, call) in the order in which calls began. strace prints a call in two parts if another one comes between."""
    begun: list[list[str]] = []
    open_calls: dict[str, list[str]] = {}
    for line in lines:
        pid, text = line.split(None, 1)
        if text.startswith("<... "):
            open_calls.pop(pid)[1] += re.sub(r"^<\.\.\. \w+ resumed>", "", text)
            continue
        row = [pid, text.removesuffix("<unfinished ...>")]
        begun.append(row)
        if row[1] != text:
            open_calls[pid] = row
    return ((pid, text) for pid, text in begun)


def _effective(name: str, call: str, before: int) -> int:
    """The effective user after a successful call; -1 leaves it unchanged."""
    users = re.findall(r"-?\d+", call.partition("(")[2].rpartition(")")[0])
    user = int(users[0 if name == "setuid" else 1])
    return before if user == -1 else user


def _child(call: str) -> Iterator[str]:
    if call.partition("(")[0] in FORKS and (made := re.search(r"\)\s+= (\d+)$", call)):
        yield made[1]


def _note(trace: Trace, name: str, call: str) -> None:
    done = re.search(r"\)\s+= \d+(?:<(.*)>)?$", call)
    if done is None:
        return
    if name == "execve":
        trace.executed.add(call.split('"')[1])
    elif name in OPENS:
        one = Open(done[1].removesuffix(" (deleted)"), "O_NOFOLLOW" not in call, "O_DIRECTORY" in call)
        (trace.written if WRITING.search(call) else trace.read).add(one)
    elif name in CHANGES:
        trace.changed.add(call)
