"""Run the script of a capture with psql.

DBAs have psql, and it finds passwords and services as usual. A driver would be another dependency, and its
statements would be harder to review."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO
from urllib.parse import unquote

from proving.errors import CliError, UsageError

SCRIPT = Path(__file__).with_name("capture.sql")
SPARE_S = 600  # for both transactions
# The limit of readers/twin/capture.py.
MOST_BYTES = 32 << 20
_URI = re.compile(r"postgres(?:ql)?://", re.IGNORECASE)
_CREDENTIALS = re.compile(r"(\w+://[^:@/]*):([^@/]*)(?=@)")
_PASSWORD = re.compile(r"(?:^|(?<=\s))password\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s\\]|\\.)*)", re.DOTALL)


def capture(dsn: str, *, seconds: float, secret: Sequence[str], values: bool) -> bytes:
    """The output of the script. Raises CliError with PostgreSQL's message if it fails."""
    program = shutil.which("psql")
    if not program:
        raise CliError(
            "psql is not installed",
            accepted="install the client programs of PostgreSQL, or run the script "
            "that `proving twin script` prints on a machine with psql",
        )
    invalid = next((each for each in secret if each.count(".") != 2 or "," in each), None)
    if invalid is not None:
        raise UsageError(
            f"{invalid!r} is not a column", field="--secret", value=invalid, accepted="schema.table.column"
        )
    database, password = without_password(dsn)
    variables = {"seconds": f"{seconds:g}", "secret": ",".join(secret), "values": str(int(values))}
    options = [option for name, value in variables.items() for option in ("-v", f"{name}={value}")]
    argv = [program, "-XAtqw", *options, "-f", str(SCRIPT), "-d", database]
    with tempfile.TemporaryFile() as out:
        process = _run(argv, {"PGPASSWORD": password} if password else {}, out, seconds + SPARE_S)
        if process.returncode:
            raise _failure(process.stderr)
        out.seek(0)
        raw: bytes = out.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise CliError(f"the capture is larger than {MOST_BYTES >> 20} MiB")
    return raw


def without_password(dsn: str) -> tuple[str, str]:
    """Return the connection string without its password, and the password: all users can see the arguments of a
    process.

    A URI is parsed like in libpq: a password may contain # and ?, and + is not a space."""
    if _URI.match(dsn):
        return _uri_without_password(dsn)
    match = _PASSWORD.search(dsn)
    if not match:
        return dsn, ""
    value = match[1][1:-1] if match[1].startswith("'") else match[1]
    return dsn[: match.start()] + dsn[match.end() :], re.sub(r"\\(.)", r"\1", value)


def _uri_without_password(uri: str) -> tuple[str, str]:
    password = ""
    match = _CREDENTIALS.match(uri)
    if match:
        uri, password = match[1] + uri[match.end() :], unquote(match[2])
    base, mark, query = uri.partition("?")
    options = query.split("&")
    others = [option for option in options if unquote(option.partition("=")[0]) != "password"]
    for option in options:
        if option not in others:
            password = unquote(option.partition("=")[2])
    return base + mark * bool(others) + "&".join(others), password


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
    """PostgreSQL's error; its hint is the next step."""
    lines = [re.sub(r"^psql:\S*?:\d+: ", "", line) for line in stderr.splitlines() if line.strip()]
    hint = next((line.partition(":")[2].strip() for line in lines if line.startswith("HINT:")), "")
    message = next(
        (line for line in lines if "ERROR:" in line or "error:" in line), lines[0] if lines else "psql failed"
    )
    return CliError(re.sub(r"^(psql: )?(error|ERROR):\s*", "", message), accepted=hint)
