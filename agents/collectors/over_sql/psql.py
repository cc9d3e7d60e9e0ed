"""One psql on two pipes for as long as a step takes: starting one each second would cost more than the samples.

Every statement returns one line of JSON. Each wait has a limit: a server that does not answer costs samples, never the
run.
"""

from __future__ import annotations

import json
import os
import select
from typing import TYPE_CHECKING, Any, Optional

from ..base import NotAvailable

if TYPE_CHECKING:
    from ...host.system import System
    from ...records.processes import Child

ARGV = ("-X", "-A", "-t", "-q", "-w", "-v", "ON_ERROR_STOP=1", "-f", "-")
END_S = 2.0
CHUNK = 1 << 16


class Psql:
    """A conversation with a started psql; NotAvailable when it has ended."""

    def __init__(self, system: System, child: Child) -> None:
        self._system, self._child, self._received = system, child, b""

    @property
    def pid(self) -> int:
        return self._child.pid

    def ask(self, statements: str) -> None:
        """Send statements of which exactly one answers."""
        assert self._child.popen.stdin is not None  # noqa: S101 - for the type checker
        try:
            self._child.popen.stdin.write(statements.encode() + b"\n")
            self._child.popen.stdin.flush()
        except OSError as error:
            raise NotAvailable("psql has ended; its stderr is in the output of the step") from error

    def answer(self, limit_s: float) -> Any:
        """The next answer; None when it does not come within `limit_s`."""
        line = self.line(limit_s)
        return None if line is None else json.loads(line)

    def line(self, limit_s: float) -> Optional[bytes]:
        """The next line of output; None when it does not come within `limit_s`."""
        deadline = self._system.mono() + limit_s
        while True:
            line, newline, rest = self._received.partition(b"\n")
            if newline:
                self._received = rest
                return line
            if not self._receive(max(0.0, deadline - self._system.mono())):
                return None

    def _receive(self, limit_s: float) -> bool:
        assert self._child.popen.stdout is not None  # noqa: S101 - for the type checker
        fd = self._child.popen.stdout.fileno()
        ready = select.poll()  # select() refuses descriptors above 1023
        ready.register(fd, select.POLLIN)
        if not ready.poll(limit_s * 1000):
            return False
        data = os.read(fd, CHUNK)
        if not data:
            raise NotAvailable("psql has ended; its stderr is in the output of the step")
        self._received += data
        return True

    def need(self, statements: str, limit_s: float) -> Any:
        """Ask and wait; NotAvailable when the server takes longer than `limit_s`."""
        self.ask(statements)
        reply = self.answer(limit_s)
        if reply is None:
            raise NotAvailable(f"PostgreSQL did not answer within {limit_s:g} s")
        return reply

    def close(self) -> None:
        """Its end of input ends psql; one that does not hear is killed."""
        popen = self._child.popen
        for pipe in (popen.stdin, popen.stdout):
            assert pipe is not None  # noqa: S101 - for the type checker
            _close(pipe)
        if self._child.wait(END_S) is None:
            popen.kill()
            self._child.wait(END_S)


def _close(pipe: Any) -> None:
    try:
        pipe.close()
    except BrokenPipeError:
        # What could not be sent no longer matters; the descriptor is closed all the same.
        return
