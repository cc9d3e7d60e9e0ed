"""The whole stack with this machine as its host, for faults that need separate processes to kill."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from embedded import campaign
from embedded.client import Client
from embedded.stack import Stack
from embedded.supervisor import Supervisor
from tests import remote


@dataclass
class Ground:
    """A running stack, a client with an admin's token, and this machine registered and checked."""

    stack: Stack
    client: Client
    host: dict

    @property
    def supervisor(self) -> Supervisor:
        return self.stack.supervisor


@pytest.fixture(scope="session")
def ground() -> Iterator[Ground]:
    with remote.short_dir() as state, Supervisor(state) as supervisor:
        stack = Stack(supervisor)
        stack.start()
        token = stack.manage("create_admin", "ada", "--token", "1").split()[-1]
        client = Client(stack.base_url, token)
        yield Ground(stack, client, campaign.register(client, stack.loopback))
