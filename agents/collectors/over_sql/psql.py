"""One psql on two pipes for the samples of a run and the state of its data: starting another one takes 20 ms.

Each wait has a limit: if the server does not answer, samples are lost, but the run continues.
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

END = b"."  # after the output of a query, never a line of JSON
ENDED = "psql has ended; its stderr is in the files of the run"
ARGV = ("-X", "-A", "-t", "-q", "-w", "-v", "ON_ERROR_STOP=1", "-f", "-")
END_S = 2.0
CHUNK = 1 << 16


class Psql:
    """A started psql. Its methods raise NotAvailable once it has ended."""

    def __init__(self, system: System, child: Child, database: str = "") -> None:
        self._system, self._child, self._received, self.database = system, child, b"", database
        self._due = 0  # lines that were requested and not received
        self._early: list[bytes] = []  # those that were received before they were read

    @property
    def pid(self) -> int:
        return self._child.pid

    def ask(self, statements: str, lines: int = 0) -> None:
        """Send statements that return this number of lines, without waiting for them."""
        self._due += lines
        assert self._child.popen.stdin is not None  # noqa: S101 - for the type checker
        try:
            self._child.popen.stdin.write(statements.encode() + b"\n")
            self._child.popen.stdin.flush()
        except (OSError, ValueError) as error:  # a ValueError after `close`
            raise NotAvailable(ENDED) from error

    def answer(self, limit_s: float) -> Any:
        """The next line of output, parsed as JSON; None if it does not arrive within `limit_s`."""
        line = self.line(limit_s)
        return None if line is None else json.loads(line)

    def line(self, limit_s: float) -> Optional[bytes]:
        """The next line of output; None if it does not arrive within `limit_s`."""
        if self._early:
            return self._early.pop(0)
        line = self._next(limit_s)
        self._due -= line is not None and self._due > 0
        return line

    def _next(self, limit_s: float) -> Optional[bytes]:
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
        if self._child.popen.stdout.closed:
            raise NotAvailable(ENDED)
        fd = self._child.popen.stdout.fileno()
        ready = select.poll()  # select() refuses descriptors above 1023
        ready.register(fd, select.POLLIN)
        if not ready.poll(limit_s * 1000):
            return False
        data = os.read(fd, CHUNK)
        if not data:
            raise NotAvailable(ENDED)
        self._received += data
        return True

    def need(self, statements: str, limit_s: float) -> Any:
        """Send statements, one of which returns JSON, and wait for it. NotAvailable after `limit_s`."""
        self.ask(statements, 1)
        reply = self.answer(limit_s)
        if reply is None:
            raise NotAvailable(f"PostgreSQL did not answer within {limit_s:g} s")
        return reply

    def value(self, query: str, limit_s: float) -> Any:
        """The value of a query's only row, as JSON; None without a row. TimeoutError if a line takes longer than
        `limit_s`."""
        self.ask(f"{query}\n;\n\\echo {END.decode()}")
        while self._due:
            self._early.append(self._needed(limit_s))
            self._due -= 1
        lines = list(iter(lambda: self._needed(limit_s), END))
        return json.loads(b"\n".join(lines)) if any(lines) else None

    def is_responding(self, limit_s: float) -> bool:
        """Whether the server answers in this session."""
        try:
            return bool(self.value("select 1", limit_s) == 1)
        except (NotAvailable, TimeoutError):
            return False

    def _needed(self, limit_s: float) -> bytes:
        line = self._next(limit_s)
        if line is None:
            raise TimeoutError(f"PostgreSQL did not answer within {limit_s:g} s")
        return line

    def kill(self) -> None:
        """End psql at once, although it waits for the server."""
        self._child.popen.kill()

    def close(self) -> None:
        """End psql by closing its input, or kill it if it does not end."""
        popen = self._child.popen
        for pipe in (popen.stdin, popen.stdout):
            assert pipe is not None  # noqa: S101 - for the type checker
            _close(pipe)
        if self._child.wait(END_S) is None:
            self.kill()
            self._child.wait(END_S)


def _close(pipe: Any) -> None:
    try:
        pipe.close()
    except BrokenPipeError:
        # Unsent statements no longer matter, but the descriptor must be closed.
        return
