"""psql, which runs the script of a capture. Whoever administers a database has it, and it reads the same passwords and
services as always; a driver of our own would be another dependency, and another description of what is read."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from proving.errors import CliError, UsageError

SCRIPT = Path(__file__).with_name("capture.sql")
SPARE_S = 600  # for both snapshots
# As the server's reader of captures accepts them.
MOST_BYTES = 32 << 20
_URI = re.compile(r"postgres(?:ql)?://", re.IGNORECASE)
_PASSWORD = re.compile(r"(?:^|(?<=\s))password\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s\\]|\\.)*)", re.DOTALL)


def capture(dsn: str, *, seconds: float, secret: Sequence[str], values: bool) -> bytes:
    """What the script writes. CliError with the words of PostgreSQL where it fails."""
    program = shutil.which("psql")
    if not program:
        raise CliError(
            "psql is not installed",
            accepted="install the client programs of PostgreSQL, or run the script "
            "of `proving twin script` where psql is",
        )
    wrong = next((each for each in secret if each.count(".") != 2 or "," in each), None)
    if wrong is not None:
        raise UsageError(f"{wrong!r} is not a column", field="--secret", value=wrong, accepted="schema.table.column")
    where, password = without_password(dsn)
    given = {"seconds": f"{seconds:g}", "secret": ",".join(secret), "values": str(int(values))}
    variables = [part for name, value in given.items() for part in ("-v", f"{name}={value}")]
    argv = [program, "-XAtqw", *variables, "-f", str(SCRIPT), "-d", where]
    with tempfile.TemporaryFile() as out:
        done = _run(argv, {"PGPASSWORD": password} if password else {}, out, seconds + SPARE_S)
        if done.returncode:
            raise _failure(done.stderr)
        out.seek(0)
        found: bytes = out.read(MOST_BYTES + 1)
    if len(found) > MOST_BYTES:
        raise CliError(f"the capture is larger than {MOST_BYTES >> 20} MiB")
    return found


def without_password(dsn: str) -> tuple[str, str]:
    """The connection string without its password, and the password: arguments of a process are visible to all users."""
    if _URI.match(dsn):
        parts = urlsplit(dsn)
        user, at, hosts = parts.netloc.rpartition("@")
        name, _, password = user.partition(":")
        options = parse_qsl(parts.query, keep_blank_values=True)
        others = urlencode([(key, value) for key, value in options if key != "password"])
        clean = parts._replace(netloc=f"{name}{at}{hosts}", query=others)
        return urlunsplit(clean), dict(options).get("password", unquote(password))
    found = _PASSWORD.search(dsn)
    if not found:
        return dsn, ""
    value = found[1][1:-1] if found[1].startswith("'") else found[1]
    return dsn[: found.start()] + dsn[found.end() :], re.sub(r"\\(.)", r"\1", value)


def _run(argv: list[str], env: dict[str, str], out: IO[bytes], limit_s: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CliError(f"psql did not end within {limit_s:g} s", accepted="capture again") from error


def _failure(stderr: str) -> CliError:
    """PostgreSQL's error, and its hint as what to do next."""
    lines = [re.sub(r"^psql:\S*?:\d+: ", "", line) for line in stderr.splitlines() if line.strip()]
    hint = next((line.partition(":")[2].strip() for line in lines if line.startswith("HINT:")), "")
    message = next(
        (line for line in lines if "ERROR:" in line or "error:" in line), lines[0] if lines else "psql failed"
    )
    return CliError(re.sub(r"^(psql: )?(error|ERROR):\s*", "", message), accepted=hint)
