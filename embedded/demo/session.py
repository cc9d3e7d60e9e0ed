"""The demo: start the stack, run a campaign on this machine, and compare the machine with its state before."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from embedded import admin
from embedded.demo import campaign, machine
from embedded.demo.client import Client
from embedded.stack import Stack, default_state
from embedded.supervisor import Stopped, Supervisor


class Phases:
    """The duration of each phase in seconds, in the order of their starts."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the duration of the `with` block to the phase `name`."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - begun

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.seconds.items())
        return f"wall time {sum(self.seconds.values()):.1f} s: {parts}"


def start(stack: Stack, phases: Phases) -> None:
    """Start the stack with all migrations, and wait until it answers."""
    with phases.phase("stores"):
        stack.start_stores()
    with phases.phase("migrate"):
        stack.migrate()
    with phases.phase("server"):
        stack.start_server()


def main(once: bool) -> int:
    """Return 0 on success. Without `once`, serve until Ctrl-C, which counts as success."""
    before, phases = machine.changeable_values(), Phases()
    print(f"this machine before:\n{machine.describe(before)}")
    try:
        status = _stack(once, phases)
    finally:
        changed = machine.differences(before, machine.changeable_values())
        print("this machine afterwards: as before" if not changed else f"CHANGED on this machine: {'; '.join(changed)}")
    return status or int(bool(changed))


def _stack(once: bool, phases: Phases) -> int:
    with Supervisor(default_state()) as supervisor:
        machine.offer_tools(supervisor.state)
        stack = Stack(supervisor)
        print("starting PostgreSQL, Valkey and the server", flush=True)
        start(stack, phases)
        table, url = _campaign(stack, phases)
        again = "  (`make up` serves it again)" if once else ""
        print(f"\n{campaign.report(table)}\n\n{url}{again}\n{phases}", flush=True)
        status = 0 if campaign.succeeded(table) else 1
        return status if once else _serve(supervisor)


def _campaign(stack: Stack, phases: Phases) -> tuple[dict[str, Any], str]:
    """Run the recipe through the API on this machine. Returns its result table, and the address of its page."""
    with phases.phase("host"):
        client = Client(stack.base_url, admin.token(stack))
        host = campaign.register(client, stack.loopback)
        print(f"{host['name']}: {campaign.say_level(host)}\nrecipe {campaign.RECIPE}:", flush=True)
    with phases.phase("runs"):
        ended = campaign.run(client, host, stack.supervisor.check)
    with phases.phase("results"):
        table = client.get(f"campaigns/{ended['id']}/results/")
    return table, f"{stack.base_url}/campaigns/{ended['id']}/"


def _serve(supervisor: Supervisor) -> int:
    print("serving; press Ctrl-C to stop everything", flush=True)
    try:
        supervisor.serve()
    except Stopped:
        return 0
