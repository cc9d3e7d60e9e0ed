"""Replies of a hostile host are refused with a reason, and no page fails."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from agents.host import cpulist
from agents.wire.protocol import canonical
from apps.hosts import contact
from apps.hosts.access import replies, shapes
from common.errors import HostError
from tests.hostile.lies import HONEST
from tests.rows.factories import make_host
from tests.servers import machine

HELLO: dict[str, Any] = HONEST["hello"] | {"epoch": 7, "sealed": ["11111111-2222-3333-4444-555555555555"], "wall": 1.0}
RECOVERED = {"run": "11111111-2222-3333-4444-555555555555", "state": "SEALED", "did": ["ended postgres"]}


def test_an_honest_hello_is_unchanged() -> None:
    assert replies.answer("db1", "hello", HELLO) == HELLO


@pytest.mark.parametrize("answer", [None, [], "hello", {}, 7])
def test_a_hello_of_another_kind_is_refused(answer: Any) -> None:
    with pytest.raises(HostError, match="invalid answer"):
        replies.answer("db1", "hello", answer)


@pytest.mark.parametrize("name", [name for name in HELLO if name not in ("busy", "recovered")])
@pytest.mark.parametrize("value", [None, "\0" * 3, "x" * 5000, -1, [1] * 20_000, {"a": 1}, float("nan"), True, "<b>"])
def test_a_field_of_another_type_is_refused_or_replaced(name: str, value: Any) -> None:
    try:
        answer = replies.answer("db1", "hello", HELLO | {name: value})
    except HostError:
        return
    assert isinstance(answer[name], type(HELLO[name])) or name in ("wall", "mono")
    assert len(str(answer[name])) < 100


@pytest.mark.thorough
def test_the_list_of_restored_runs_is_cut_to_the_limit_of_the_audit_log() -> None:
    endless = [RECOVERED | {"did": ["x" * 10_000] * 100, "more": "y" * 10_000}] * 1000

    recovered = replies.answer("db1", "hello", HELLO | {"recovered": endless})["recovered"]

    assert 1 < len(recovered) < replies.MAX_RECOVERED
    assert len(canonical(recovered)) < 1.1 * replies.MAX_RECOVERED_BYTES
    assert "more" not in recovered[0]


def test_honest_facts_are_unchanged() -> None:
    assert replies.answer("db1", "facts", machine.facts()) == machine.facts()


def _with_device(**changes: Any) -> dict[str, Any]:
    first, *others = machine.facts()["block_devices"]
    return {"block_devices": [first | changes, *others]}


def _with_pool(**changes: Any) -> dict[str, Any]:
    pages = machine.facts()["huge_pages"]
    first, *others = pages["sizes"]
    return {"huge_pages": {**pages, "sizes": [first | changes, *others]}}


@pytest.mark.parametrize(
    "unusual",
    [
        _with_pool(surplus=2**64 - 1, reserved=2**64 - 1, surplus_per_node={"0": 2**64 - 1}),  # below 0
        _with_device(mounted_on=[f"/srv/container{number}" for number in range(5000)]),
        _with_device(holders=[f"dm-{number}" for number in range(5000)]),
        {"kernel": machine.kernel(cmdline=" ".join(["memmap=1G!4G"] * 1000))},
    ],
    ids=["counter below 0", "mounts", "holders", "command line"],
)
def test_unusual_facts_of_honest_hosts_are_accepted(unusual: dict[str, Any]) -> None:
    """They made a host unreachable, and failed its runs."""
    accepted = replies.answer("db1", "facts", machine.facts(**unusual))

    assert accepted == shapes.storable(machine.facts(**unusual))


def _deep() -> Any:
    deep: Any = "end"
    for _ in range(100):
        deep = [deep]
    return deep


@pytest.mark.parametrize(
    "odd",
    [
        {"cpus": None},
        {"cpus": []},
        {"cpus": {**machine.facts()["cpus"], "online": "0-20000000"}},
        {"cpus": {**machine.facts()["cpus"], "online": ",".join(["0-65535"] * 1000)}},
        {"cpus": {**machine.facts()["cpus"], "topology": [{"cpu": "x"}]}},
        {"cpus": {**machine.facts()["cpus"], "topology": "none"}},
        {"numa": {"nodes": [7], "distances": []}},
        {"numa": {"nodes": [{"id": 0, "cpus": "0-65535", "mem_kb": 1}] * 17, "distances": []}},
        {"numa": {"nodes": [{"id": 0, "cpus": "0-99999999"}], "distances": []}},
        {"memory": {"total_kb": "much"}},
        {"memory": {}},
        {"clusters": ["main"]},
        {"clusters": {}},
        {"tools": []},
        {"policy": []},
        {"block_devices": [None]},
        {"hostname": 7},
        {"more": _deep()},
        {"more": [0] * 300_000},
    ],
    ids=lambda odd: str(odd)[:40],
)
def test_odd_facts_are_refused_with_a_message(odd: dict[str, Any]) -> None:
    with pytest.raises(HostError, match="invalid answer"):
        replies.answer("db1", "facts", machine.facts(**odd))


def test_lists_of_cpus_take_no_time_however_many_there_are() -> None:
    """The server made a set of each list, which takes 14 ms for 7 bytes."""
    many = [{"level": 1, "type": "Data", "kb": 32, "shared": ["0-65535"] * 1000}] * 100
    began = time.process_time()

    with pytest.raises(HostError, match="shared: 6,553,600,000 CPUs in lists, at most"):
        replies.answer("db1", "facts", machine.facts(cpus={**machine.facts()["cpus"], "caches": many}))

    assert time.process_time() - began < 10


def test_a_machine_whose_cpus_are_all_siblings_is_accepted() -> None:
    """Some virtual machines report no cores."""
    rows = [{"cpu": cpu, "socket": 0, "core": 0, "node": 0, "siblings": "0-1023"} for cpu in range(1024)]
    facts = machine.facts(cpus={**machine.facts()["cpus"], "topology": rows})

    assert replies.answer("db1", "facts", facts) == facts


def test_characters_that_a_database_refuses_are_replaced() -> None:
    facts = replies.answer("db1", "facts", machine.facts(hostname="a\0b", python="\ud800", boot_id="b1"))

    assert (facts["hostname"], facts["python"]) == ("a\N{REPLACEMENT CHARACTER}b", "\N{REPLACEMENT CHARACTER}")


def test_a_list_of_cpus_that_repeats_itself_is_bounded() -> None:
    with pytest.raises(ValueError, match="more than 65536"):
        cpulist.parse(",".join(["0-65535"] * 1000))


@pytest.mark.django_db
def test_one_host_with_odd_facts_leaves_the_list_of_hosts_alone(admin_client: Client) -> None:
    make_host("fine")
    odd = make_host("odd", facts={})
    contact.record_facts(odd, {"cpus": "none", "memory": {"total_kb": "much"}})  # stored before answers were checked

    page = admin_client.get(reverse("host_list"))

    assert page.status_code == 200
    assert "fine" in page.content.decode()
