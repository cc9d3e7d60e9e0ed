"""agent rpc|run|boot|guard|status|install|uninstall|version: the program that is pushed to a host."""

from __future__ import annotations

import sys

if sys.version_info < (3, 9):
    sys.exit("proving-ground agent: this host's python3 is %d.%d; 3.9 or later is needed" % sys.version_info[:2])

import argparse
import os
from pathlib import Path

HAND_OVER_S = 10.0  # who looks whether a run is alive holds the lock for a moment


def agent_id() -> str:
    """sha256 of the zipapp that runs; of sources, "source"."""
    program = sys.argv[0]
    if not os.path.isfile(program) or program.endswith(".py"):
        return "source"
    import hashlib

    return hashlib.sha256(Path(program).read_bytes()).hexdigest()


VERBS = {
    "rpc": "answer requests on stdin",
    "run": "execute one submitted run (for systemd)",
    "boot": "restore persistent settings before services start (for systemd)",
    "guard": "restore what interrupted runs left, continue after a planned restart, and report the actions",
    "status": "active supervisor and known runs",
    "install": "install the systemd units",
    "uninstall": "remove them",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="agent", description="Runs PostgreSQL benchmarks and restores the host")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name, help_text in VERBS.items():
        verb = verbs.add_parser(name, help=help_text)
        verb.add_argument("--spool", type=Path, required=True, help="directory of jobs")
        if name == "run":
            verb.add_argument("--run", required=True, help="uuid of the job")
    verbs.add_parser("version", help="protocol, sha256, version and commit of this agent")
    args = parser.parse_args()
    if args.verb != "version":
        _check_spool(args.spool)
    {"rpc": _rpc, "run": _run, "version": _version}.get(args.verb, _console)(args)


def _check_spool(spool: Path) -> None:
    from .errors import Failure
    from .host import policy
    from .host.system import System

    try:
        policy.check_spool(System(), str(spool.absolute()))
    except Failure as failure:
        sys.exit(f"{failure.message}; {failure.hint}")


def _rpc(args: argparse.Namespace) -> None:
    from .rpc import main as serve

    serve(args.spool.absolute(), agent_id())


def _run(args: argparse.Namespace) -> None:
    from .host.system import System
    from .records.spool import Spool
    from .run.session import Session

    spool = Spool(args.spool.absolute(), System())
    if spool.wait_host(HAND_OVER_S) is None:
        sys.exit("another run is using this host")
    Session(spool, spool.need(args.run), agent_id()).execute()


def _console(args: argparse.Namespace) -> None:
    from . import console

    getattr(console, args.verb)(args.spool.absolute(), agent_id())


def _version(args: argparse.Namespace) -> None:
    from . import version
    from .wire import protocol

    built = f"version {version.VERSION or 'unknown'} commit {version.COMMIT or 'unknown'}"
    sys.stdout.write(f"protocol {protocol.VERSION} agent {agent_id()} {built}\n")


if __name__ == "__main__":
    main()
