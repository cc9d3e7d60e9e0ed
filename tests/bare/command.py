"""A command whose output is logged, and which does not outlive this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

LIMIT_S = 3600.0
INTERRUPTED_S = 60.0  # tests restore what they changed on this machine


def run(argv: Iterable[str | Path], log: Path, *, env: Mapping[str, str] | None = None, is_shown: bool = False) -> int:
    """Append the output to the log, and return the exit code. Ctrl-C interrupts the command, and waits for its end."""
    command = ["setpriv", "--pdeathsig=KILL", *map(str, argv)]
    with (
        log.open("a", buffering=1) as file,
        subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C in a terminal reaches this process alone, like a signal that is sent to it
        ) as process,
    ):
        limit = threading.Timer(LIMIT_S, _kill, [process])
        limit.start()
        try:
            for line in process.stdout or ():
                file.write(line)
                if is_shown:
                    sys.stdout.write(line)
                    sys.stdout.flush()
        except BaseException:
            file.write(_interrupt(process))
            raise
        finally:
            limit.cancel()
    return process.returncode


def _interrupt(process: subprocess.Popen[str]) -> str:
    """The rest of its output."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        return process.communicate(timeout=INTERRUPTED_S)[0]
    except (subprocess.TimeoutExpired, KeyboardInterrupt):  # Ctrl-C once more does not wait
        _kill(process)
        return ""


def _kill(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
