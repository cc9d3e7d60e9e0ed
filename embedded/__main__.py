"""python -m embedded: run a command with PostgreSQL and Valkey."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from embedded.errors import StackError
from embedded.stack import Stack
from embedded.supervisor import STOPPERS, Stopped, Supervisor

USAGE_ERROR = 2


def run(command: list[str]) -> int:
    """Runs the command with both servers in a directory of their own, which goes away afterwards; its exit status."""
    state = Path(tempfile.mkdtemp(prefix="proving-"))
    try:
        with Supervisor(state) as supervisor:
            stack = Stack(supervisor, durable=False)
            stack.start_stores()
            return _foreground(command, {**os.environ, **stack.environment()})
    finally:
        shutil.rmtree(state, ignore_errors=True)


def _foreground(command: list[str], env: dict[str, str]) -> int:
    """In our own process group, so that it keeps the terminal and a Ctrl-C reaches it as well as us."""
    child = subprocess.Popen(command, env=env)
    try:
        return child.wait()
    except Stopped as stopped:
        if str(stopped) != "SIGINT":
            child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(10)
        raise


def parse(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m embedded", description=__doc__)
    commands = parser.add_subparsers(dest="verb", required=True)
    runner = commands.add_parser("run", help="start PostgreSQL and Valkey, run a command with them, stop them")
    runner.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """The exit status: the command's own, 1 when the stack failed, 128 + n after signal n."""
    asked = parse(argv)
    command = [word for i, word in enumerate(asked.command) if not (i == 0 and word == "--")]
    if not command:
        print("run what? e.g. python -m embedded run -- python -m pytest", file=sys.stderr)
        return USAGE_ERROR
    try:
        return run(command)
    except StackError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except Stopped as stopped:
        return 128 + next(sig for sig in STOPPERS if sig.name == str(stopped))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
