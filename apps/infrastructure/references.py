"""Secrets by reference: what a file or a variable holds when it is used, such as file:/run/secrets/hosts/bench.

Anything that writes files can be the backend: HashiCorp Vault's agent, Kubernetes, systemd, Docker. The operator lists
the sources in PROVING_SECRET_SOURCES, because an admin can send what a reference names to a server of their own.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from common.errors import HostError, PlanError

LARGEST = 64 * 1024
LONGEST = 500
OURS = "PROVING_"
VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
HINT = "accepted: file:/PATH or env:NAME"
NEVER = ("/", "/proc", "/sys", "/dev")


@dataclass(frozen=True)
class Sources:
    """Directories and prefixes of variables that references may name, and the files that they never may."""

    directories: tuple[Path, ...] = ()
    prefixes: tuple[str, ...] = ()
    own_files: tuple[Path, ...] = ()

    def __str__(self) -> str:
        return ", ".join([*(f"file:{each}/" for each in self.directories), *(f"env:{each}" for each in self.prefixes)])


def sources(name: str, values: Sequence[str], environment: Mapping[str, str]) -> Sources:
    """The sources in a variable such as file:/run/secrets/hosts,env:BENCH_. ImproperlyConfigured names the entry that
    would open more than secrets of hosts."""
    directories, prefixes = [], []
    for value in (each.strip() for each in values):
        kind, _, rest = value.partition(":")
        directory = f"/{os.path.normpath(rest).lstrip('/')}"
        if kind == "file" and rest.startswith("/") and directory not in NEVER:
            directories.append(Path(directory))
        elif kind == "env" and re.fullmatch(VARIABLE, rest) and not _overlaps_ours(rest):
            prefixes.append(rest)
        else:
            hint = f"use file:/DIRECTORY, or env:PREFIX with a prefix other than {OURS}"
            raise ImproperlyConfigured(f"{name} contains {value!r}: {hint}")
    own = [Path(file) for key, file in environment.items() if file and key.startswith(OURS) and key.endswith("_FILE")]
    return Sources(tuple(directories), tuple(prefixes), tuple(own))


def _overlaps_ours(prefix: str) -> bool:
    return prefix.startswith(OURS) or OURS.startswith(prefix)


def check(field: str, reference: str) -> None:
    """PlanError that names the field, unless the operator allows the reference. Reads nothing."""
    problem = _problem(reference)
    if problem:
        allowed = str(settings.SECRET_SOURCES)
        hint = f"allowed: {allowed}" if allowed else "the operator allows none: PROVING_SECRET_SOURCES is not set"
        raise PlanError(field, f"{reference[:LONGEST]!r} {problem}", hint=hint)


def read(reference: str) -> str:
    """The secret, without a newline at its end. HostError names the reference and the cause, never the secret."""
    if problem := _problem(reference):
        raise HostError(reference, problem, hint=f"allowed: {settings.SECRET_SOURCES or 'none'}")
    kind, _, rest = reference.partition(":")
    try:
        content = _read_variable(rest) if kind == "env" else _read_file(Path(rest))
        text = content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise HostError(reference, "is not UTF-8 text", hint="check what writes it") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise HostError(reference, f"cannot be read: {reason}", hint="each process of the server reads it") from error
    if not text or "\0" in text:
        raise HostError(reference, "is empty" if not text else "contains a NUL", hint="check what writes it")
    return text


def _problem(reference: str) -> str:
    """Why the reference is not allowed; "" if it is."""
    kind, _, rest = reference.partition(":")
    known: Sources = settings.SECRET_SOURCES
    if len(reference) > LONGEST or (kind, bool(re.fullmatch(VARIABLE, rest))) == ("env", False):
        return f"is not a reference ({HINT})"
    if kind == "env":
        return "" if rest.startswith(known.prefixes) and not rest.startswith(OURS) else "is not an allowed variable"
    if kind != "file" or not rest.startswith("/") or os.path.normpath(rest) != rest or "\0" in rest:
        return f"is not a reference ({HINT})"
    return "" if _is_inside(Path(rest), known.directories) else "is not in an allowed directory"


def _is_inside(path: Path, directories: Sequence[Path]) -> bool:
    return any(path != each and path.is_relative_to(each) for each in directories)


def _read_variable(name: str) -> bytes:
    value = os.environb.get(name.encode())
    if value is None:
        raise OSError("the variable is not set")
    return value


def _read_file(path: Path) -> bytes:
    """Kubernetes and Vault exchange symbolic links inside their directory; none may lead out of it."""
    known: Sources = settings.SECRET_SOURCES
    try:
        real = path.resolve(strict=True)
    except RuntimeError as error:
        raise OSError("symbolic links lead to each other") from error
    if not _is_inside(real, [each.resolve() for each in known.directories]):
        raise OSError("a symbolic link leads out of the allowed directories")
    if real in [each.resolve() for each in known.own_files]:
        raise OSError("the file is a secret of the server itself")
    with os.fdopen(os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is not a regular file")
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise OSError(f"it is larger than {LARGEST // 1024} KiB")
    return content
