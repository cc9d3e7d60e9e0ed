"""Odd facts are refused, or the recipes and all pages of the host take them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from itertools import zip_longest
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from agents.wire.protocol import canonical
from apps.campaigns import recipes
from apps.hosts.access import fact_shapes, replies
from apps.hosts.models import Host
from common.errors import HostError, PlanError
from tests.hostile.lies import HONEST
from tests.rows.factories import make_host
from tests.servers import machine

Facts = dict[str, Any]
UNEXPECTED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
GONE = object()
ODD: list[Any] = [None, 0, -1, 2**49, 2**62, True, "", "odd", [], [7], {}, {"odd": 7}, GONE]


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of each value, also of lists and objects; of a list only its first item."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, each in value.items():
            yield from leaves(each, (*path, name))
    elif isinstance(value, list) and value:
        yield from leaves(value[0], (*path, 0))


def changed(facts: Facts, path: tuple[str | int, ...], odd: Any) -> Facts:
    """A copy of the facts with another value at this path, or without it."""
    whole = copy.deepcopy(facts)
    inner: Any = whole
    for name in path[:-1]:
        inner = inner[name]
    if odd is GONE:
        del inner[path[-1]]
    else:
        inner[path[-1]] = odd
    return whole


@cache
def accepted() -> list[tuple[str, str, Facts]]:
    """(section, what is odd in it, the facts) for each change that the server accepts and stores."""
    found, honest = dict[bytes, tuple[str, str, Facts]](), machine.facts()
    for path in leaves(honest):
        for odd in ODD:
            what = f"{'.'.join(map(str, path))} = {'nothing' if odd is GONE else odd!r}"
            try:
                facts = replies.answer("db1", "facts", changed(honest, path, odd))
            except HostError as refused:
                assert len(str(refused)) < 1000, what
            else:
                found.setdefault(canonical(facts), (str(path[0]), what, facts))
    return [each for each in found.values() if each[2] != honest]


def combined() -> Iterator[tuple[str, Facts]]:
    """The same, with one change of each section at once."""
    by_section: dict[str, list[tuple[str, Any]]] = {}
    for section, what, facts in accepted():
        by_section.setdefault(section, []).append((what, facts.get(section, GONE)))
    for changes in zip_longest(*by_section.values()):
        odd = dict(zip(by_section, changes, strict=True))
        facts = machine.facts(**{section: change[1] for section, change in odd.items() if change})
        yield (
            ", ".join(change[0] for change in changes if change),
            {section: value for section, value in facts.items() if value is not GONE},
        )


@pytest.mark.thorough
def test_each_recipe_takes_each_accepted_fact_or_says_why_not() -> None:
    """A missing section of the facts, or a null in it, raised in the recipe that needs it."""
    uses: list[Callable[[Any, Facts], Any]] = [recipes.factors, recipes.steps, recipes.dataset]
    wrong = []
    for _, what, facts in accepted():
        known = facts | {"directories": ["/srv/pg/clusters"]}
        for name, recipe in recipes.catalogue().items():
            try:
                for use in uses:
                    with suppress(PlanError):
                        use(recipe, known)
            except UNEXPECTED as error:
                wrong.append(f"{what}, {name}: {type(error).__name__}: {error}")

    assert not wrong, "\n".join(wrong)


def failures(client: Client, addresses: list[str]) -> list[str]:
    """Those of the addresses that a server would answer with status 500."""
    client.raise_request_exception = False
    return [address for address in addresses if client.get(address).status_code >= 500]


def pages(host: Host) -> list[list[str]]:
    """Addresses of pages that show facts of this host or use them, in rows. Only recipes differ between the rows."""
    detail, new = reverse("host_detail", args=[host.name]), reverse("campaign_new")
    return [
        [detail, f"{new}?host={host.pk}&recipe={name}", reverse("recipe_hours", args=[name, host.pk])]
        for name in recipes.catalogue()
    ]


@pytest.mark.django_db
@pytest.mark.thorough
def test_no_accepted_fact_makes_a_page_of_the_host_fail(admin_client: Client) -> None:
    host = make_host("odd", facts=machine.facts())
    rows = pages(host)
    assert not [failure for row in rows for failure in failures(admin_client, row)]
    wrong = []

    for number, (what, facts) in enumerate(combined()):
        host.facts_history.update(data=facts)
        row = [*rows[number % len(rows)], *([reverse("host_list")] if number % 10 == 0 else [])]
        wrong += [f"{failure}\n    with {what}" for failure in failures(admin_client, row)]

    assert not wrong, "\n".join(wrong)


MOUNT = machine.facts()["file_systems"][0]
INSTALLATION = machine.facts()["postgresql"][0]


@pytest.mark.parametrize(
    ("section", "odd"),
    [
        ("clusters", machine.CLUSTER | {"data_dir": "/tmp/mine", "major": None}),
        ("clusters", machine.CLUSTER | {"data_dir": "/tmp/mine", "found_by": [0] * 300_000}),
        ("file_systems", MOUNT | {"mounted_on": "/home/mine/mnt", "type": "fuse." + "x" * 4000}),
        ("postgresql", INSTALLATION | {"bin_dir": "/home/mine/bin", "major": 1001}),
        ("postgresql", INSTALLATION | {"bin_dir": "/home/mine/bin", "major": 10**30}),
        ("postgresql", INSTALLATION | {"bin_dir": "/home/mine/bin", "version": "1." * 151}),
    ],
)
def test_a_row_that_another_account_of_the_host_can_malform_is_left_out(section: str, odd: dict[str, Any]) -> None:
    """The host must not become unreachable by that, and its queued runs must not wait for ever."""
    honest = machine.facts()[section]

    facts = replies.answer("db1", "facts", machine.facts(**{section: [odd, *honest]}))

    assert facts[section] == honest


@pytest.mark.parametrize("section", fact_shapes.OPEN_LISTS)
def test_a_list_that_another_account_of_the_host_can_lengthen_is_cut(section: str) -> None:
    """Any account can start thousands of clusters, and mount thousands of file systems."""
    row = machine.facts()[section][0]
    _, most = fact_shapes.OPEN_LISTS[section]

    facts = replies.answer("db1", "facts", machine.facts(**{section: [row] * 20_000}))

    assert facts[section] == [row] * most


def test_parameters_of_odd_clusters_and_of_very_many_are_left_out() -> None:
    """Any account can start a cluster that reports anything."""
    honest = HONEST["parameters"][0]
    odd = [honest | {"settings": {"work_mem": 7}}, honest | {"settings": {"work_mem": {"a": [0] * 300_000}}}]

    reported = replies.answer("db1", "parameters", [*odd, *[honest] * 200])

    assert reported == [honest] * replies.MAX_QUERIED
