"""Every recipe on hosts of many kinds: planned, or refused with the missing requirement."""

from __future__ import annotations

from typing import Any

import pytest

from agents.facts import full
from agents.host.system import System
from apps.accounts.models import User
from apps.campaigns import recipes, services
from apps.campaigns.design.before_start import previews
from apps.campaigns.library import recipe_hosts
from apps.campaigns.recipes.levels import GENERATORS
from apps.hosts.models import Host
from common.errors import PlanError
from embedded.servers.postgres import bin_dir
from tests.rows.factories import make_host
from tests.servers import machine

pytestmark = pytest.mark.django_db

GB = 1024 * 1024
TOOLS = {name: {"path": f"/usr/bin/{name}", "version": ""} for name in ("taskset", "fio", "numactl", "strace")}
OLDER = {**machine.facts()["postgresql"][0], "bin_dir": "/usr/lib/postgresql/16/bin", "version": "16.9", "major": 16}


def large() -> dict[str, Any]:
    """64 cpus on four nodes, 512 GB, two versions of PostgreSQL."""
    cpus = machine.facts()["cpus"] | {"allowed": "0-63", "online": "0-63"}
    cpus["topology"] = [
        {"cpu": c, "socket": c // 32, "core": c % 32, "node": c // 16, "siblings": str(c)} for c in range(64)
    ]
    nodes = [{"id": n, "cpus": f"{16 * n}-{16 * n + 15}", "mem_kb": 128 * GB} for n in range(4)]
    memory = {"total_kb": 512 * GB, "available_kb": 500 * GB, "free_kb": 400 * GB, "swap_kb": 0}
    thp = {"enabled": ["always", "madvise", "never"], "shmem_enabled": ["always", "never"]}
    return machine.facts(
        cpus=cpus,
        numa={"nodes": nodes, "distances": [[10] * 4] * 4},
        memory=memory,
        transparent_huge_pages={"enabled": "madvise", "choices": thp},
        postgresql=[*machine.facts()["postgresql"], OLDER],
        tools=TOOLS,
    )


def two_nodes() -> dict[str, Any]:
    """A virtual machine of four cpus and two nodes, on one disk, with one PostgreSQL and pages of one size."""
    nodes = [{"id": n, "cpus": f"{2 * n}-{2 * n + 1}", "mem_kb": GB} for n in range(2)]
    cpus = machine.facts()["cpus"] | {"allowed": "0-3", "online": "0-3"}
    cpus["topology"] = [
        {"cpu": c, "socket": c // 2, "core": c % 2, "node": c // 2, "siblings": str(c)} for c in range(4)
    ]
    disk = machine.facts()["block_devices"][1]
    part = {"name": "sda1", "kb": 9 * GB, "holders": [], "mounted_on": ["/"]}
    return machine.facts(
        cpus=cpus,
        numa={"nodes": nodes, "distances": [[10, 20], [20, 10]]},
        memory={"total_kb": 2 * GB, "available_kb": 1_800_000, "free_kb": GB, "swap_kb": 0},
        huge_pages={"default_kb": 2048, "sizes": [machine.facts()["huge_pages"]["sizes"][0]]},
        transparent_huge_pages={},
        block_devices=[disk | {"partitions": [part]}],
        file_systems=[
            {"mounted_on": "/", "device": "/dev/sda1", "type": "ext4", "options": [], "kb": 9 * GB, "free_kb": 6 * GB}
        ],
        tools=TOOLS,
    )


BOOTS: dict[str, Any] = {"level": "root", "may_reboot": True, "supervisor": "systemd"}
STANDBYS = "'ANY 1 [(][*][)]' is not possible"  # its hint: choose hosts for standbys
LACKING: dict[str, dict[str, str]] = {
    "large": {"synchronous-replication": STANDBYS, "tpcc-replicated": STANDBYS},
    "two nodes": {
        "synchronous-replication": STANDBYS,
        "tpcc-replicated": STANDBYS,
        "huge-page-size": "only huge pages of 2MB",
        "huge-pages-1g": "kernel_command_line.hugepages",  # the number or the size, whichever level is first
        "postgresql-version": "PostgreSQL 17.6 alone",
        "transparent-huge-pages": "no transparent huge pages",
    },
}


@pytest.mark.parametrize("name", list(recipes.texts()))
@pytest.mark.parametrize(
    ("kind", "facts"), [("large", large()), ("two nodes", two_nodes())], ids=["large", "two nodes"]
)
def test_a_recipe_is_planned_or_names_what_the_host_lacks(
    kind: str, facts: dict[str, Any], name: str, operator: User
) -> None:
    host, lacking = make_host(facts=facts, **BOOTS), LACKING[kind].get(name, "")

    if lacking:
        with pytest.raises(PlanError, match=lacking) as refused:
            services.create_from_recipe(by=operator, host=host, recipe=name)
        assert refused.value.hint
    else:
        campaign = services.create_from_recipe(by=operator, host=host, recipe=name)
        planned = previews.preview(campaign)
        assert planned.seconds > 0 and len(planned.runs) >= 3


@pytest.mark.parametrize("name", ["cpu-isolation", "huge-pages-1g", "mitigations"])
def test_a_recipe_that_boots_the_host_needs_the_consent_of_an_admin(name: str, operator: User) -> None:
    host = make_host(facts=large(), **{**BOOTS, "may_reboot": False})

    with pytest.raises(PlanError, match="must not be restarted by campaigns"):
        services.create_from_recipe(by=operator, host=host, recipe=name)


def test_a_core_is_isolated_with_all_of_its_threads_and_never_that_of_cpu_0() -> None:
    shared, isolated = GENERATORS["isolated_cpus"](machine.facts())

    pinned = {"settings.cpu_affinity.server": "7", "settings.cpu_affinity.client": "0-6,8-14"}
    assert shared == ("cpu 7", {"skew_tick": 0, **pinned})
    assert isolated == ("cpu 7, isolated", dict.fromkeys(("isolcpus", "nohz_full", "rcu_nocbs"), "7,15") | pinned)
    with pytest.raises(PlanError, match="no second core that could be isolated"):
        GENERATORS["isolated_cpus"](machine.facts(cpus={**machine.facts()["cpus"], "allowed": "0,8"}))


@pytest.mark.parametrize("name", list(recipes.texts()))
def test_a_recipe_on_this_machine_is_planned_or_refused_with_a_reason(name: str) -> None:
    host = make_host(level="root", facts=here() | {"level": "root"})

    try:
        planned = recipe_hosts.preview(recipes.get(name), host)
    except PlanError as refused:
        expected = (
            "must not be restarted",
            "this host has",
            "has no scheduler",
            "is not installed on",
            "'ANY 1 (*)' is not possible",
        )
        assert any(phrase in refused.message for phrase in expected) and refused.hint
    else:
        assert planned.runs


def here() -> dict[str, Any]:
    """Facts of this machine from the agent."""
    return full(System(), [str(bin_dir())])


def labels(name: str, facts: dict[str, Any]) -> list[str]:
    return [label for label, _ in GENERATORS[name](facts)]


def on(**changes: Any) -> dict[str, Any]:
    return machine.facts(directories=["/srv/pg/clusters"], **changes)


def test_sizes_of_shared_buffers_halve_from_the_largest_possible() -> None:
    laptop = on(memory={"total_kb": 16 * GB, "available_kb": 16 * GB})

    assert labels("shared_buffers", laptop) == [
        *("13GB", "8GB", "4GB", "2GB", "1GB", "512MB", "256MB", "128MB", "64MB", "32MB", "16MB", "8MB", "4MB", "2MB"),
        *("1MB", "512kB", "256kB", "128kB"),
    ]


def test_no_size_is_more_than_huge_pages_could_have() -> None:
    busy = on(memory={"total_kb": 16 * GB, "available_kb": 5 * GB})

    assert labels("shared_buffers", busy)[:2] == ["4GB", "2GB"]
    assert labels("shared_buffers", on(limits={"memory_max_kb": GB}))[:2] == ["896MB", "512MB"]


@pytest.mark.parametrize(
    ("facts", "scale"),
    [
        (on(memory={"total_kb": 16 * GB, "available_kb": GB}), 1272),
        (on(memory={"total_kb": 512 * GB, "available_kb": GB}), 5090),
        (
            on(
                memory={"total_kb": 16 * GB},
                file_systems=[{"mounted_on": "/", "device": "x", "type": "x", "free_kb": 6 * GB}],
            ),
            159,
        ),
    ],
)
def test_the_table_has_the_size_of_memory_within_the_limits_of_pgbench(facts: dict[str, Any], scale: int) -> None:
    own = recipes.dataset(recipes.get("cache-split"), facts)

    assert own == {"kind": "pgbench", "options": {"scale": scale}}


def test_clients_are_multiples_of_the_cpus() -> None:
    assert labels("clients", on()) == ["1 client", "8 clients", "16 clients", "32 clients", "64 clients", "128 clients"]
    one = on(cpus={"allowed": "3", "topology": []})
    assert labels("clients", one) == ["1 client", "2 clients", "4 clients", "8 clients"]
    huge = on(cpus={"allowed": "0-511", "topology": []})
    assert labels("clients", huge)[-1] == "900 clients"


def test_memory_and_cpus_are_whole_and_halved() -> None:
    laptop = on(memory={"total_kb": 16 * GB}, cpus={"allowed": "0-2", "topology": []})

    assert GENERATORS["memory_limits"](laptop) == [("all memory", "max"), ("half: 8GB", "8GB")]
    assert GENERATORS["cpu_limits"](laptop) == [("all cpus", "max"), ("half: 1.5 cpus", "1.5")]


@pytest.mark.parametrize(
    ("about", "hint"),
    [
        ({"controllers": [], "legacy": ["memory"], "problem": ""}, "its memory controller is in version 1; boot with"),
        ({"controllers": [], "legacy": [], "problem": "mounted read-only"}, "mounted read-only"),
        ({}, "check the host again"),
    ],
)
def test_a_host_without_the_controller_cannot_be_made_smaller(about: dict[str, Any], hint: str) -> None:
    with pytest.raises(PlanError, match="this host has no memory controller") as refused:
        GENERATORS["memory_limits"](on(cgroup=about))

    assert refused.value.hint.startswith(hint)


def test_wal_sizes_are_at_most_a_quarter_of_the_free_space() -> None:
    def free(kb: int) -> dict[str, Any]:
        return on(file_systems=[{"mounted_on": "/", "device": "x", "type": "x", "free_kb": kb}])

    assert labels("wal_sizes", free(600 * GB)) == ["1GB", "4GB", "16GB", "64GB"]
    assert labels("wal_sizes", free(17 * GB)) == ["1GB", "4GB"]
    assert labels("wal_sizes", free(GB)) == ["1GB"]


def test_the_device_is_that_of_the_cluster_directory() -> None:
    on_partition = machine.facts(directories=["/var/lib/x"])

    assert labels("schedulers", on()) == ["none", "mq-deadline"]
    assert labels("schedulers", on_partition) == ["mq-deadline", "none"]
    assert labels("read_ahead", on()) == ["128kB", "none", "1MB", "4MB"]


def test_a_volume_has_the_scheduler_of_the_disk_that_holds_it() -> None:
    nvme = {**on()["block_devices"][0], "mounted_on": [], "holders": ["dm-0"]}
    volume = {**nvme, "name": "dm-0", "scheduler": "", "schedulers": [], "holders": [], "mounted_on": ["/srv/pg"]}

    assert labels("schedulers", on(block_devices=[volume, nvme])) == ["none", "mq-deadline"]
    with pytest.raises(PlanError, match="dm-0 has no scheduler"):
        labels("schedulers", on(block_devices=[volume]))


def test_a_file_system_without_a_device_has_nothing_to_schedule() -> None:
    with pytest.raises(PlanError, match="is on tmpfs on tmpfs, which has no visible block device"):
        labels("schedulers", machine.facts(directories=["/dev/shm/clusters"]))


def test_the_levels_are_the_installed_versions_of_postgresql(operator: User) -> None:
    host = make_host(level="root", facts=large())

    campaign = services.create_from_recipe(by=operator, host=host, recipe="postgresql-version", repetitions=1)

    runs = previews.preview(campaign).runs
    servers = {run.cell["PostgreSQL"]: run.spec["target"]["bin_dir"] for run in runs}
    assert servers == {"PostgreSQL 16.9": OLDER["bin_dir"], "PostgreSQL 17.6": machine.BIN_DIR}


@pytest.fixture
def host() -> Host:
    return make_host(level="root", facts=machine.facts(clusters=[{**machine.CLUSTER, "running": True}]))


@pytest.mark.parametrize(
    ("path", "value", "target", "message"),
    [
        ("target.bin_dir", "/opt/pg", {}, "/opt/pg of"),
        ("target.data_dir", "/data", {}, "'/data' cannot be set by a factor"),
        ("target.bin_dir", 15, {}, "15 cannot be set by a factor"),
        ("target.bin_dir", machine.BIN_DIR, {"data_dir": machine.CLUSTER["data_dir"]}, "only a private cluster"),
    ],
)
def test_a_factor_can_vary_only_the_programs_of_a_private_cluster(
    host: Host, operator: User, path: str, value: Any, target: dict[str, str], message: str
) -> None:
    factor = {"name": "server", "levels": [{"label": "one", "set": {path: value}}]}

    with pytest.raises(PlanError, match=message):
        services.create_from_recipe(by=operator, host=host, recipe="cpu-scaling", factors=[factor], target=target)
