"""The whole stack with this machine as its host, for tests that need the separate processes that users have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from embedded.demo import campaign
from embedded.demo.client import Client
from embedded.stack import Stack
from embedded.supervisor import Supervisor
from embedded.temporary import TemporaryStack
from tests.servers import remote


@dataclass
class Ground:
    """A running stack, a client with an admin's token, and this machine registered and checked."""

    stack: Stack
    client: Client
    host: dict[str, Any]

    @property
    def supervisor(self) -> Supervisor:
        return self.stack.supervisor


@contextmanager
def prepare() -> Iterator[Ground]:
    """A stack of its own, ended on the way out."""
    with remote.short_dir() as state, Supervisor(state) as supervisor:
        stack = TemporaryStack(supervisor)
        stack.start()
        token = stack.manage("create_admin", "ada", "--token", "1").split()[-1]
        client = Client(stack.base_url, token)
        yield Ground(stack, client, campaign.register(client, stack.loopback))
