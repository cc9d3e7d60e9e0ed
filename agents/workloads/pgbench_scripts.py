"""Errors that pgbench reports for its scripts, without a server: it parses all of them before it connects."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Iterator, Optional

from ..errors import PlanFailure, WorkloadFailure
from ..host import owned
from . import pgbench_options
from .base import Context, Options

if TYPE_CHECKING:
    from ..run.bench import Bench

# pgbench: error: /tmp/x/script.sql:2: syntax error in command "set"; before 13 without the first words
_COMPLAINT = re.compile(r"^(?:pgbench: )?(?:error: |fatal: )?(?:.*\.sql:(?P<line>\d+): )?(?P<words>.*)", re.DOTALL)
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")


def version(program: str, bench: Bench) -> int:
    """Return the program's major version."""
    shown = bench.run([program, "--version"], {})
    match = _VERSION.search(shown.stdout)
    if not match:
        raise WorkloadFailure(f"{program} does not report its version: {shown.stdout or shown.stderr}")
    return int(match.group(1))


def write(options: Options, directory: Path) -> None:
    """Write each custom script to a file that the load generator's account can read."""
    for name, text, _ in pgbench_options.texts(options):
        owned.create(directory / f"{name}.sql", text.encode(), mode=0o644)


def complaints(options: Options, program: str, bench: Bench) -> Iterator[PlanFailure]:
    """Yield the errors of each script, because pgbench stops at the first one; if none, those of all scripts together.

    pgbench gets a directory without a socket. If it fails to connect there, it has found no errors.
    """
    with tempfile.TemporaryDirectory(prefix="proving-ground-scripts-") as name:
        directory = Path(name)
        directory.chmod(0o711)  # pgbench may run as another account than ours
        write(options, directory)
        mode = options.get("mode", "simple")
        any_refused = False
        for script, _, _ in pgbench_options.texts(options):
            message = _objection([program, "-n", "-M", mode, "-f", f"{directory}/{script}.sql"], directory, bench)
            if message is not None:
                any_refused = True
                yield _complaint(script, message)
        context = Context(program, str(directory), str(directory))
        message = None if any_refused else _objection(pgbench_options.argv(options, context), directory, bench)
        if message is not None:
            yield _complaint("", message)


def _objection(argv: list[str], directory: Path, bench: Bench) -> Optional[str]:
    """The error that pgbench reports before it connects, or None."""
    shown = bench.run(argv, {"PGHOST": str(directory), "PGDATABASE": "postgres"})
    if f"{directory}/.s.PGSQL." in shown.stderr:
        return None
    return shown.stderr.replace(f"{directory}/", "").strip() or f"it ended with exit code {shown.code}"


def _complaint(script: str, message: str) -> PlanFailure:
    match = _COMPLAINT.match(message)
    line = int(match["line"]) if match and match["line"] else None
    first_line = (match["words"] if match else message).partition("\n")[0]
    where = f"script {script}" + (f", line {line}" if line else "") + ": " if script else ""
    return PlanFailure(f"{where}{first_line}", "correct it in the workload", script=script, line=line, said=message)
