"""A user outside a private team requests every address with the keys of its objects, and learns nothing."""

from __future__ import annotations

import pytest
from django.urls import resolve

from apps.accounts.models import Role
from tests.apps.accounts.test_api_roles import ALL
from tests.apps.walls import worlds
from tests.apps.walls.worlds import Answer, Request, Worlds
from tests.documents import permissions


@pytest.fixture
def two(db: None) -> Worlds:
    return worlds.begin()


def not_hidden(requests: list[Request], answers: dict[Request, Answer]) -> list[tuple[str, int]]:
    """Successful requests that name an object of the private team: those with 404 in docs/reference/permissions.md.
    Invalid requests, and those that need a role in the instance, get 400 and 403 whatever exists."""
    of_pages = {each.name: each for each in permissions.endpoints()}
    of_api = {(each.url_name, each.method): each for each in ALL}
    wrong = []
    for request in requests:
        match = resolve(request.url.partition("?")[0])
        endpoint = of_api.get((match.view_name, request.method)) or of_pages.get(match.view_name)
        status = answers[request][0]
        if endpoint and not request.is_of_others and permissions.names_object_of_team(endpoint) and status < 400:
            wrong.append((f"{request.method} {request.url}", status))
    return wrong


@pytest.mark.thorough
def test_responses_to_a_stranger_are_those_of_a_server_without_the_private_team(two: Worlds) -> None:
    without = worlds.ask(two.strangers[Role.TUNER], two.requests)
    two.add_private_team()

    with_it = worlds.ask(two.strangers[Role.TUNER], two.requests)

    assert len(two.requests) > 400
    assert not_hidden(two.requests, with_it) == []
    assert [
        (f"{request.method} {request.url}", *worlds.first_difference(without[request], with_it[request]))
        for request in two.requests
        if with_it[request] != without[request]
    ] == []
