"""Pages of lists, as the program walks through them."""

from __future__ import annotations

from proving.client import Client
from proving.config import Login
from tests.cli.program import Program
from tests.rows.factories import make_host


def test_every_page_is_requested_from_the_configured_server(proving: Program) -> None:
    names = [make_host(f"db{n}").name for n in range(5)]

    # The server tells addresses by the name that it was asked by; the token goes to the one that was logged in to.
    with Client(Login(proving.url, proving.token)) as client:
        rows = [row["name"] for row in client.rows("hosts/", ordering="name", page_size=2)]
        first = [row["name"] for row in client.rows("hosts/", 3, ordering="name", page_size=2)]

        assert client._here("http://elsewhere/api/v1/hosts/?cursor=x").host == "localhost"

    assert (rows, first) == (names, names[:3])
