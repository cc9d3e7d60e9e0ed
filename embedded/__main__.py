"""python -m embedded: run the stack on this machine, from the packages of this checkout only."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from embedded import paths
from embedded.errors import StackError
from embedded.supervisor import STOPPERS, Stopped, Supervisor

USAGE_ERROR = 2
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
# In the output of PostgreSQL, Valkey and manage.py. PostgreSQL adds the hint when a file system took a part of a page.
FULL_MESSAGES = (*map(os.strerror, FULL), "Check free disk space")


def run(command: list[str]) -> int:
    """Run the command with PostgreSQL and Valkey in a temporary directory. Returns its exit status."""
    from embedded.temporary import TemporaryStack

    state = Path(tempfile.mkdtemp(prefix="proving-"))
    try:
        with Supervisor(state) as supervisor:
            stack = TemporaryStack(supervisor)
            stack.start_stores()
            return _foreground(supervisor, command, {**os.environ, **stack.environment()})
    finally:
        paths.remove(state)


def _foreground(supervisor: Supervisor, command: list[str], env: dict[str, str]) -> int:
    """Run the command in this process group, so that it has the terminal and gets Ctrl-C."""
    if shutil.which(command[0]) is None:
        raise StackError(f"unknown command {command[0]}")
    child = subprocess.Popen(command, env=env)
    try:
        while (code := child.poll()) is None:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)  # a process ended: the command, a server, an orphan
            supervisor.check(child.pid)
        return code if code >= 0 else 128 - code
    except Stopped as stopped:
        if str(stopped) != "SIGINT":
            child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(10)
        raise


def up(new_password: bool) -> int:
    """Run the whole stack until Ctrl-C. The first start creates the account `admin`; `new_password` replaces its
    password."""
    from embedded import admin
    from embedded.stack import Stack, default_state

    with Supervisor(default_state()) as supervisor:
        stack = Stack(supervisor)
        stack.start()
        if new_password and admin.exists(stack):
            admin.print_new_password(stack)
        admin.token(stack)
        print(f"{stack.base_url}  log in as {admin.ADMIN}; Ctrl-C stops it", flush=True)
        try:
            supervisor.serve()
        except Stopped:
            return 0


def demo(once: bool) -> int:
    """See embedded/demo/session.py."""
    from embedded.demo import session

    return session.main(once)


def clean() -> int:
    """Delete all state of up and demo. StackError while a supervisor uses it."""
    state = paths.CHECKOUT / "var"
    if state.exists():
        with Supervisor(state):  # takes the lock, and ends processes of a killed supervisor
            pass
        paths.remove(state)
    return 0


def parse(argv: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m embedded", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    runner = verbs.add_parser("run", help="start PostgreSQL and Valkey, run a command with them, stop them")
    runner.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")
    server = verbs.add_parser("up", help="start the whole stack and serve until Ctrl-C")
    server.add_argument("--new-password", action="store_true", help="print a new password of admin; the old one ends")
    demonstration = verbs.add_parser("demo", help="start the stack and run a campaign on this machine")
    demonstration.add_argument("--once", action="store_true", help="exit after the result table")
    verbs.add_parser("clean", help="remove all state of up and demo")
    return parser.parse_args(argv)


def dispatch(options: argparse.Namespace) -> int:
    """Run one verb. Returns its exit status."""
    if options.verb == "run":
        command = options.command[1:] if options.command[:1] == ["--"] else options.command
        if command:
            return run(command)
        print("a command is missing, e.g. python -m embedded run -- python -m pytest", file=sys.stderr)
        return USAGE_ERROR
    if options.verb == "demo":
        return demo(options.once)
    return up(options.new_password) if options.verb == "up" else clean()


def _full(error: OSError | StackError, verb: str) -> str:
    """Return what a full disk means, and what to do; "" if `error` has another cause."""
    from embedded.stack import default_state

    where = tempfile.gettempdir() if verb == "run" else default_state()
    if isinstance(error, OSError):
        where, reason = error.filename or where, error.strerror if error.errno in FULL else ""
    else:
        reason = _full_message(str(error))
    advice = "free some space there (df -h, df -i), then start again: nothing is lost"
    return f"cannot write {where}: {reason}; {advice}" if reason else ""


def _full_message(output: str) -> str:
    """Return the first line in which a server or a command says that the disk is full; "" if there is none."""
    lines = (line for line in output.splitlines() if any(message in line for message in FULL_MESSAGES))
    return re.sub(r".* failed with \d+: ", "", next(lines, "")).strip()


def main(argv: list[str]) -> int:
    """Return the exit status: that of the verb, 1 if the stack failed, 128 + n after signal n."""
    options = parse(argv)
    try:
        return dispatch(options)
    except StackError as error:
        print(f"error: {_full(error, options.verb) or error}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno not in FULL:
            raise
        print(f"error: {_full(error, options.verb)}", file=sys.stderr)
        return 1
    except Stopped as stopped:
        return 128 + next(sig for sig in STOPPERS if sig.name == str(stopped))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
