"""The demo: the whole stack, a real campaign on this machine, and the machine as it was before."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from embedded import commands, machine
from embedded.stack import Stack, default_state
from embedded.supervisor import Stopped, Supervisor


class Phases:
    """How long each part took, in seconds of wall time, in the order in which they began."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the time until the block is left to `name`."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - begun

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.seconds.items())
        return f"wall time {sum(self.seconds.values()):.1f} s: {parts}"


def start(stack: Stack, phases: Phases) -> None:
    """The stack, migrated and answering."""
    with phases.phase("stores"):
        stack.start_stores()
    with phases.phase("migrate"):
        stack.manage(*commands.MIGRATE[1:])
    with phases.phase("server"):
        stack.start_server()


def main(once: bool) -> int:
    """0 when all went well. Without `once` it serves until Ctrl-C, which is a good end as well."""
    before, phases = machine.host_state(), Phases()
    print(f"this machine before:\n{machine.describe(before)}")
    status = _stack(once, phases)
    changed = machine.differences(before, machine.host_state())
    print("this machine afterwards: as before" if not changed else "CHANGED on this machine: " + "; ".join(changed))
    return status or int(bool(changed))


def _stack(once: bool, phases: Phases) -> int:
    with Supervisor(default_state()) as supervisor:
        machine.offer_tools(supervisor.state)
        stack = Stack(supervisor)
        start(stack, phases)
        print(f"{stack.base_url}  {phases}", flush=True)
        return 0 if once else _serve(supervisor)


def _serve(supervisor: Supervisor) -> int:
    print("serving; Ctrl-C stops all of it", flush=True)
    try:
        supervisor.serve()
    except Stopped:
        return 0
