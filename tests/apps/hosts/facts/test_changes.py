"""Changes of a host's facts, and which of them make runs incomparable."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from apps.hosts.facts import changes
from tests.servers import machine


def edited(path: str, value: Any, facts: dict[str, Any] | None = None) -> dict[str, Any]:
    """The facts of a host with one of them changed; a number in the path is a place in a list, None removes."""
    whole = deepcopy(facts or machine.facts())
    *way, last = path.split("/")
    inner: Any = whole
    for name in way:
        inner = inner[int(name)] if isinstance(inner, list) else inner[name]
    if value is None:
        del inner[int(last) if isinstance(inner, list) else last]
    else:
        inner[int(last) if isinstance(inner, list) else last] = value
    return whole


def line(change: changes.FactChange) -> str:
    return f"{change.path}: {change.was} -> {change.now}"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("boot_id", "b2"),
        ("memory/available_kb", 1),
        ("memory/free_kb", 1),
        ("numa/nodes/1/free_kb", 7),
        ("huge_pages/sizes/0/free", 12),
        ("huge_pages/sizes/0/surplus", 3),
        ("huge_pages/sizes/0/free_per_node", {"0": 12, "1": 0}),
        ("file_systems/0/free_kb", 5),
        ("clusters/0/pid", 4242),
        ("clusters/0/found_by", ["debian"]),
        ("unread", {"network": "ValueError"}),
    ],
)
def test_a_fact_that_changes_by_itself_creates_no_version(path: str, value: Any) -> None:
    assert changes.lasting(edited(path, value)) == changes.lasting(machine.facts())
    assert changes.between(machine.facts(), edited(path, value)) == []


@pytest.mark.parametrize(
    ("path", "value", "description"),
    [
        ("memory/total_kb", 131_600_000, "memory.total_kb: 65800000 -> 131600000"),
        ("kernel/release", "6.12.57-amd64", "kernel.release: 6.12.48-amd64 -> 6.12.57-amd64"),
        ("kernel/cmdline", "quiet mitigations=off", "kernel.cmdline: quiet -> quiet mitigations=off"),
        ("cpus/online", "0-7", "cpus.online: 0-15 -> 0-7"),
        (
            "cpus/frequency/policies/0/governor",
            "powersave",
            "cpus.frequency.policies.0-15.governor: performance -> powersave",
        ),
        ("cpus/frequency/boost", False, "cpus.frequency.boost: yes -> no"),
        ("firmware/bios_version", "2.22.1", "firmware.bios_version: 2.21.0 -> 2.22.1"),
        ("firmware/microcode", "0x2007007", "firmware.microcode: 0x2007006 -> 0x2007007"),
        ("numa/nodes/1/mem_kb", 1, "numa.nodes.1.mem_kb: 33000000 -> 1"),
        ("huge_pages/sizes/0/total", 64, "huge_pages.sizes.2048.total: 0 -> 64"),
        ("transparent_huge_pages/enabled", "always", "transparent_huge_pages.enabled: madvise -> always"),
        ("sysctls/vm.swappiness", "10", "sysctls.vm.swappiness: 60 -> 10"),
        ("block_devices/1/scheduler", "none", "block_devices.sda.scheduler: mq-deadline -> none"),
        ("file_systems/1/options", ["rw"], "file_systems./srv/pg.options: rw, noatime -> rw"),
        ("postgresql/0/version", "17.7", "postgresql./usr/lib/postgresql/17/bin.version: 17.6 -> 17.7"),
        ("clusters/0/running", False, "clusters./var/lib/postgresql/17/main.running: yes -> no"),
        ("limits/cpu_quota", 2, "limits.cpu_quota: nothing -> 2"),
    ],
)
def test_a_lasting_change_creates_a_version_and_separates_runs(path: str, value: Any, description: str) -> None:
    after = edited(path, value)

    assert [(line(each), each.weighty) for each in changes.between(machine.facts(), after)] == [(description, True)]


@pytest.mark.parametrize(
    ("path", "value", "name"),
    [
        ("hostname", "bench-02", "hostname"),
        ("python", "3.13.6", "python"),
        ("os/pretty", "Debian GNU/Linux 13.2 (trixie)", "os.pretty"),
        ("network/0/speed_mbit", 10_000, "network.eno1.speed_mbit"),
        ("sysctls/net.core.somaxconn", "1024", "sysctls.net.core.somaxconn"),
        ("clusters/0/port", 5433, "clusters./var/lib/postgresql/17/main.port"),
        ("tools/psql/version", "17.7", "tools.psql.version"),
        ("tools/fio", None, "tools.fio"),
    ],
)
def test_minor_changes_are_listed_but_runs_stay_comparable(path: str, value: Any, name: str) -> None:
    changed = changes.between(machine.facts(), edited(path, value))

    assert [each.path for each in changed] == [name]
    assert changes.weighty(machine.facts(), edited(path, value)) == []


def test_a_device_is_identified_by_its_name_at_any_position() -> None:
    before = machine.facts()
    after = edited("block_devices", list(reversed(before["block_devices"])), before)

    assert changes.between(before, after) == []


def test_a_device_that_is_gone_is_one_change_and_moves_no_other() -> None:
    before = machine.facts()

    changed = changes.between(before, edited("block_devices/0", None, before))

    assert [(each.path, each.after) for each in changed] == [("block_devices.nvme0n1", None)]


def test_loop_devices_and_clusters_started_by_hand_are_not_lasting_facts() -> None:
    before = machine.facts()
    loop = {"name": "loop7", "kb": 1024, "scheduler": "none"}
    tried = {"data_dir": "/data/adhoc", "name": "/data/adhoc", "running": True, "found_by": ["process"], "unit": ""}

    after = edited("block_devices", [*before["block_devices"], loop], before)
    after = edited("clusters", [*before["clusters"], tried], after)

    assert changes.between(before, after) == []


def test_a_cluster_that_a_service_runs_is_found_by_its_process() -> None:
    before = machine.facts()
    service = {"data_dir": "/nvme/pg", "running": True, "found_by": ["process"], "unit": "postgresql-16.service"}

    after = edited("clusters", [*before["clusters"], service], before)

    assert [each.path for each in changes.between(before, after)] == ["clusters./nvme/pg"]


def test_facts_that_an_older_agent_lacks_leave_runs_comparable() -> None:
    after = machine.facts()
    before = {name: after[name] for name in ("cpus", "memory", "kernel", "sysctls")}
    before["kernel"] = {"release": after["kernel"]["release"]}

    assert "kernel.cmdline" in [each.path for each in changes.between(before, after)]
    assert changes.weighty(before, after) == []


def test_a_governor_of_some_of_the_cpus_is_seen_although_their_rows_split() -> None:
    before = machine.facts()
    policy = before["cpus"]["frequency"]["policies"][0]
    split = [{**policy, "cpus": "0-7"}, {**policy, "cpus": "8-15", "governor": "powersave"}]

    assert changes.weighty(before, edited("cpus/frequency/policies", split, before))


@pytest.mark.parametrize("path", ["memory/total_kb", "numa/nodes/0/mem_kb"])
@pytest.mark.parametrize(("share", "weighty"), [(0.98, False), (1.02, False), (0.9, True)])
def test_memory_that_differs_by_a_few_percent_leaves_runs_comparable(path: str, share: float, weighty: bool) -> None:
    before = machine.facts()
    size = before["memory"]["total_kb"] if path == "memory/total_kb" else before["numa"]["nodes"][0]["mem_kb"]

    changed = changes.between(before, edited(path, int(size * share), before))

    assert [each.weighty for each in changed] == [weighty]


def test_a_sentence_names_the_first_changes_and_counts_the_others() -> None:
    before = machine.facts()
    after = before
    for path, value in (("kernel/release", "7.0"), ("cpus/online", "0"), ("memory/total_kb", 1), ("memory/swap_kb", 1)):
        after = edited(path, value, after)

    sentence = changes.change_warning("run 4", "run 5", changes.weighty(before, after))

    assert sentence == (
        "The host changed between run 4 and run 5: cpus.online 0-15 → 0, kernel.release 6.12.48-amd64 → 7.0, "
        "memory.swap_kb 0 → 1 and 1 more. Runs before and after a change are not directly comparable."
    )
