"""Messages of the demo when it fails."""

from __future__ import annotations

from typing import Any, cast

import pytest

from embedded.demo import campaign
from embedded.demo.client import Client
from embedded.errors import StackError


class UnfitHost:
    """The API of a server whose host has failed its health check."""

    host: dict[str, Any] = {
        "id": 1,
        "check_requested_at": None,
        "state": "unfit",
        "state_reason": "free space for /srv/pg: 165 MiB, needs at least 1,024 MiB",
    }

    def post(self, path: str) -> dict[str, Any]:
        return self.host

    def get(self, path: str) -> dict[str, Any]:
        return self.host


def test_a_host_that_is_not_ready_ends_the_demo_with_its_reason_and_the_next_step() -> None:
    with pytest.raises(StackError) as error:
        campaign.wait_for_check(cast(Client, UnfitHost()), UnfitHost.host)

    assert str(error.value) == (
        "this-machine is not ready: free space for /srv/pg: 165 MiB, needs at least 1,024 MiB; "
        "fix this, then run `make demo` again"
    )
