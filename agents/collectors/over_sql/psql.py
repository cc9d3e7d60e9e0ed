"""One psql on two pipes for a whole step: starting one each second would cost more than the samples.

Each answer is one line. Each wait has a limit: if the server does not answer, samples are lost, but the run continues.
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
    """A started psql. Its methods raise NotAvailable once it has ended."""

    def __init__(self, system: System, child: Child) -> None:
        self._system, self._child, self._received = system, child, b""

    @property
    def pid(self) -> int:
        return self._child.pid

    def ask(self, statements: str) -> None:
        """Send statements, without waiting for answers."""
        assert self._child.popen.stdin is not None  # noqa: S101 - for the type checker
        try:
            self._child.popen.stdin.write(statements.encode() + b"\n")
            self._child.popen.stdin.flush()
        except OSError as error:
            raise NotAvailable("psql has ended; its stderr is in the output of the step") from error

    def answer(self, limit_s: float) -> Any:
        """The next line of output, parsed as JSON; None if it does not arrive within `limit_s`."""
        line = self.line(limit_s)
        return None if line is None else json.loads(line)

    def line(self, limit_s: float) -> Optional[bytes]:
        """The next line of output; None if it does not arrive within `limit_s`."""
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
        """Send statements, one of which returns JSON, and wait for it. NotAvailable after `limit_s`."""
        self.ask(statements)
        reply = self.answer(limit_s)
        if reply is None:
            raise NotAvailable(f"PostgreSQL did not answer within {limit_s:g} s")
        return reply

    def close(self) -> None:
        """End psql by closing its input, or kill it if it does not end."""
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
        # Unsent statements no longer matter, but the descriptor must be closed.
        return
