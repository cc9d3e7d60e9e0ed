"""PostgreSQL's parameters as a given `postgres` knows them, without a running server and before anything is touched."""

from __future__ import annotations

from typing import Mapping

from ..errors import HostFailure, Unplannable
from ..host.system import System
from ..records.processes import environment

# A server without data: it reads no files of users, checks its arguments, prints one value and ends.
_NOWHERE = {"config_file": "/dev/null", "data_directory": "/", "hba_file": "/dev/null", "ident_file": "/dev/null"}


def contexts(system: System, bin_dir: str) -> dict[str, str]:
    """Name -> context (postmaster, sighup, user, ...) of what `postgres --describe-config` lists: all but developers'
    options and what extensions add."""
    shown = system.run_found([f"{bin_dir}/postgres", "--describe-config"], env=environment(""))
    if shown.code:
        raise HostFailure(f"{bin_dir}/postgres --describe-config failed: {shown.stderr.strip()}")
    rows = (line.split("\t") for line in shown.stdout.splitlines())
    return {row[0]: row[1] for row in rows if len(row) > 1}


def check(system: System, bin_dir: str, conf: Mapping[str, str]) -> None:
    """Unplannable when this PostgreSQL does not know a parameter, or refuses its value: unknown unit, out of range,
    fixed at build. An extension's parameters (with a dot) are known only to the running server."""
    own = {name: value for name, value in conf.items() if "." not in name}
    if not own or not _refusal(system, bin_dir, own):
        return
    for name, value in own.items():
        message = _refusal(system, bin_dir, {name: value})
        if message:
            raise _unplannable(system, bin_dir, name, value, message)
    raise Unplannable("postgresql", own, "parameters that are consistent", _refusal(system, bin_dir, own))


def _refusal(system: System, bin_dir: str, conf: Mapping[str, str]) -> str:
    """The server's own words about these values, "" when it takes them all."""
    options = [part for name, value in {**_NOWHERE, **conf}.items() for part in ("-c", f"{name}={value}")]
    # It runs as root only if -C is its first option.
    shown = system.run_found([f"{bin_dir}/postgres", "-C", next(iter(conf)), *options], env=environment(""))
    lines = [line.partition("] ")[2] or line for line in shown.stderr.splitlines()]
    parts = [line.partition(":")[2].strip() for line in lines if line.startswith(("FATAL", "HINT", "DETAIL"))]
    return ". ".join(part.rstrip(".") for part in parts) or shown.stderr.strip() if shown.code else ""


def _unplannable(system: System, bin_dir: str, name: str, value: str, message: str) -> Unplannable:
    field = f"postgresql.{name}"
    if not message.startswith("unrecognized"):
        return Unplannable(field, value, f"a value that this PostgreSQL accepts: {message}")
    from difflib import get_close_matches

    near = get_close_matches(name, contexts(system, bin_dir), n=3)
    hint = f"did you mean {', '.join(near)}?" if near else "see pg_settings"
    return Unplannable(field, value, f"parameters of the PostgreSQL in {bin_dir}", hint)
