"""Kernel settings on this machine: applied, proven and restored by the real agent."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from agents.host.sysctls import BY_NAME, KNOBS, nested
from agents.host.system import System
from agents.settings import SETTINGS
from agents.settings.base import current
from agents.settings.block_device import below
from agents.settings.cpu_power import latency
from tests.agents.driver import OK, Connection, Refused, of
from tests.session.needs import require

pytestmark = pytest.mark.usefixtures("put_back")
as_root = os.geteuid() == 0
SYSTEM = System()
Spec = Callable[..., dict[str, Any]]
THP = "/sys/kernel/mm/transparent_hugepage"
SYSCTLS = [
    "vm.dirty_background_bytes", "vm.dirty_background_ratio", "vm.dirty_bytes", "vm.dirty_ratio", "vm.swappiness",
    "vm.dirty_expire_centisecs", "vm.vfs_cache_pressure", "vm.overcommit_ratio", "vm.overcommit_kbytes",
    "vm.stat_interval", "vm.zone_reclaim_mode", "kernel.numa_balancing", "net.core.somaxconn", "net.ipv4.tcp_rmem",
]  # fmt: skip
FILES = [BY_NAME[name].path for name in SYSCTLS]
FILES += [f"{THP}/{name}" for name in ("shmem_enabled", "khugepaged/pages_to_scan")]


@pytest.fixture
def put_back(host_wide: None) -> Iterator[None]:
    """Fails the test if a setting of the host has changed, and restores it."""
    before = {path: current(SYSTEM, path) for path in FILES if SYSTEM.exists(path)}
    yield
    left = {path: current(SYSTEM, path) for path in before if current(SYSTEM, path) != before[path]}
    for path in left:
        if before[path] != "0":  # of a pair, the one that is set clears the other
            SYSTEM.write(path, before[path])
    assert left == {}


def spec_of(settings: dict[str, Any]) -> dict[str, Any]:
    """A run without PostgreSQL that lasts for a second."""
    return {
        "version": 1,
        "target": None,
        "settings": settings,
        "steps": [{"name": "settle", "kind": "wait", "options": {"seconds": 1}}],
        "collect": {"interval_s": 1, "sources": []},
    }


def spec_in(settings: dict[str, Any], directory: Path) -> dict[str, Any]:
    """A run whose data lie in `directory`."""
    options = {"rw": "read", "size": "1m", "runtime_s": 1, "directory": str(directory)}
    steps = [{"name": "io", "kind": "fio", "options": options}]
    return {**spec_of(settings), "steps": steps, "allowed_paths": [{"kind": "directory", "path": str(directory)}]}


def successful_events(agent: Connection, spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Events of a run that ended well; none below root, where it is refused as it must be."""
    if not as_root:
        with pytest.raises(Refused, match="level root"):
            agent.submit(spec)
        return []
    events = agent.events(agent.submit(spec))
    assert of(events, "outcome") == [OK]
    assert all(proof["ok"] for proof in of(events, "proof"))
    return events


def proven_values(events: list[dict[str, Any]], setting: str, phase: str) -> dict[str, Any]:
    return {proof["subject"]: proof["found"] for proof in of(events, "proof", setting=setting, phase=phase)}


def file(name: str) -> str:
    return BY_NAME[name].path


def other(name: str, *choices: int) -> int:
    """The first of these that the kernel does not have now."""
    return next(choice for choice in choices if str(choice) != current(SYSTEM, file(name)))


@pytest.mark.fast
@pytest.mark.proves("sysctl", where="here")
def test_sysctls_are_in_effect_before_and_after_the_load_and_restored(agent: Connection) -> None:
    rmem = ("4096 131072 16777216", "4096 131072 8388608")
    sysctls = {
        "vm.dirty_background_bytes": other("vm.dirty_background_bytes", 64 << 20, 65 << 20),
        "vm.dirty_bytes": other("vm.dirty_bytes", 250 << 20, 251 << 20),
        "vm.dirty_expire_centisecs": other("vm.dirty_expire_centisecs", 2900, 2800),
        "vm.swappiness": other("vm.swappiness", 10, 11),
        "vm.vfs_cache_pressure": other("vm.vfs_cache_pressure", 90, 91),
        "vm.overcommit_kbytes": other("vm.overcommit_kbytes", 8_000_000, 8_000_001),
        "vm.stat_interval": other("vm.stat_interval", 2, 3),
        "vm.zone_reclaim_mode": other("vm.zone_reclaim_mode", 1, 0),
        "kernel.numa_balancing": other("kernel.numa_balancing", 0, 1),
        "net.core.somaxconn": other("net.core.somaxconn", 1024, 1025),
        "net.ipv4.tcp_rmem": next(three for three in rmem if three != current(SYSTEM, file("net.ipv4.tcp_rmem"))),
    }
    before = {path: SYSTEM.read(path) for path in FILES}
    rivals = {BY_NAME[name].rival for name in sysctls} - {""}
    cleared = {file(name) for name in rivals if current(SYSTEM, file(name)) != "0"}

    events = successful_events(agent, spec_of({"sysctl": nested(sysctls)}))

    if not events:
        return
    shown = {file(name): str(value) for name, value in sysctls.items()}
    assert proven_values(events, "sysctl", "before") == proven_values(events, "sysctl", "after") == shown
    assert set(proven_values(events, "sysctl", "restored")) == {*shown, *cleared}
    assert {path: SYSTEM.read(path) for path in FILES} == before


def test_every_sysctl_of_the_list_that_this_kernel_has_can_be_planned(agent: Connection) -> None:
    known = agent.call("facts")["sysctls"]

    assert [knob.name for knob in KNOBS if SYSTEM.exists(knob.path) and knob.name not in known] == []


def test_discovered_values_fit_the_schema() -> None:
    for name in ("sysctl", "transparent_huge_pages", "cpu_power", "block_device"):
        discovered = SETTINGS[name].discover(SYSTEM)
        assert Draft202012Validator(types_of(SETTINGS[name].schema)).is_valid(discovered), (name, discovered)


def types_of(schema: Any) -> Any:
    """A schema without its ranges, because a host may have values outside of them."""
    if isinstance(schema, dict):
        return {key: types_of(value) for key, value in schema.items() if key not in ("minimum", "maximum")}
    return schema


@pytest.fixture
def loop(tmp_path: Path, host_wide: None) -> Iterator[str]:
    """The name of a loop device with a file system and a queue length that an admin has set."""
    require("root", "mkfs.ext4")
    image = tmp_path / "image"
    with image.open("wb") as empty:
        empty.truncate(64 << 20)
    name = tool("losetup", "--find", "--show", str(image)).removeprefix("/dev/")
    try:
        tool("mkfs.ext4", "-q", f"/dev/{name}")
        SYSTEM.write(f"/sys/block/{name}/queue/nr_requests", "64")
        yield name
    finally:
        subprocess.run(["losetup", "--detach", f"/dev/{name}"], check=True, timeout=30)


@pytest.fixture
def mounted(loop: str, open_dir: Path) -> Iterator[Path]:
    place = open_dir / "data"
    place.mkdir()
    tool("mount", f"/dev/{loop}", str(place))
    yield place
    tool("umount", str(place))


def tool(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=30).stdout.strip()


def queue(name: str) -> dict[str, str]:
    root = f"/sys/block/{name}/queue"
    files = ("scheduler", "nr_requests", "read_ahead_kb", "rq_affinity", "nomerges", "wbt_lat_usec")
    shown = {file: SYSTEM.text(f"{root}/{file}") for file in files}
    return {**shown, **{file: SYSTEM.text(f"{root}/iosched/{file}") for file in SYSTEM.names(f"{root}/iosched")}}


@pytest.mark.fast
@pytest.mark.proves("block_device", where="here")
def test_a_scheduler_is_restored_with_the_queue_that_an_admin_configured(agent: Connection, loop: str) -> None:
    SYSTEM.write(f"/sys/block/{loop}/queue/scheduler", "mq-deadline")
    SYSTEM.write(f"/sys/block/{loop}/queue/nr_requests", "64")
    SYSTEM.write(f"/sys/block/{loop}/queue/iosched/read_expire", "200")
    before = queue(loop)
    options = {"scheduler": "bfq", "nr_requests": 32, "read_ahead_kb": 512, "rq_affinity": 2, "nomerges": 2}

    events = successful_events(agent, spec_of({"block_device": {loop: options}}))

    root = f"/sys/block/{loop}/queue"
    for phase in ("before", "after"):
        assert proven_values(events, "block_device", phase) == {
            f"{root}/{file}": str(value) for file, value in options.items()
        }
    assert queue(loop) == before
    assert {f"{root}/iosched/read_expire", f"{root}/nr_requests"} <= set(
        proven_values(events, "block_device", "restored")
    )


@pytest.mark.needs("fio")
def test_data_means_the_device_below_the_directory(agent: Connection, loop: str, mounted: Path) -> None:
    before = queue(loop)

    events = successful_events(agent, spec_in({"block_device": {"data": {"scheduler": "mq-deadline"}}}, mounted))

    assert proven_values(events, "block_device", "before") == {f"/sys/block/{loop}/queue/scheduler": "mq-deadline"}
    assert queue(loop) == before


def test_a_directory_that_is_not_there_yet_is_on_the_device_of_its_parent(loop: str, mounted: Path) -> None:
    assert below(SYSTEM, str(mounted / "not/there/yet")) == loop


@pytest.mark.needs("fio")
def test_the_same_device_by_two_names_needs_the_same_values(agent: Connection, loop: str, mounted: Path) -> None:
    devices = {"data": {"scheduler": "bfq"}, loop: {"scheduler": "mq-deadline"}}

    (outcome,) = of(agent.events(agent.submit(spec_in({"block_device": devices}, mounted))), "outcome")

    assert outcome["outcome"] == "not_in_effect" and "keep one of them" in outcome["error"]["hint"]


@pytest.mark.needs("fio")
def test_a_directory_without_a_device_is_reported(agent: Connection) -> None:
    settings = {"block_device": {"data": {"scheduler": "none"}}}

    (outcome,) = of(agent.events(agent.submit(spec_in(settings, Path("/dev/shm")))), "outcome")

    assert (
        outcome["outcome"] == "not_in_effect"
        and "use the name of the device instead of data" in outcome["error"]["hint"]
    )


@pytest.mark.needs("root")
@pytest.mark.fast
@pytest.mark.proves("cpu_power", where="here")
def test_a_latency_holds_while_the_run_lasts_and_no_longer(agent: Connection) -> None:
    before = latency(SYSTEM)

    events = successful_events(agent, spec_of({"cpu_power": {"latency_us": 37}}))

    subject = "longest wake-up latency (us)"
    assert [proven_values(events, "cpu_power", phase)[subject] for phase in ("before", "after")] == [37, 37]
    assert latency(SYSTEM) == before != 37


@pytest.mark.needs("root")
@pytest.mark.proves("transparent_huge_pages", where="here")
def test_khugepaged_and_shared_memory_are_set_and_restored(agent: Connection) -> None:
    before = {path: SYSTEM.read(path) for path in FILES}
    shmem = {"never": "advise"}.get(current(SYSTEM, f"{THP}/shmem_enabled"), "never")
    scan = 1001 if current(SYSTEM, f"{THP}/khugepaged/pages_to_scan") == "1000" else 1000
    options = {"shmem_enabled": shmem, "khugepaged": {"pages_to_scan": scan}}

    events = successful_events(agent, spec_of({"transparent_huge_pages": options}))

    proofs = proven_values(events, "transparent_huge_pages", "after")
    assert proofs[f"{THP}/shmem_enabled"] == shmem and proofs[f"{THP}/khugepaged/pages_to_scan"] == str(scan)
    assert {path: SYSTEM.read(path) for path in FILES} == before


@pytest.mark.proves("cpu_affinity", where="here")
def test_cores_are_chosen_by_their_number(agent: Connection, spec: Spec) -> None:
    cores = len({row["siblings"] for row in agent.call("facts")["cpus"]["topology"]})
    affinity = {"server": "cores:0", "client": f"node:0 cores:{cores - 1}"}

    events = agent.events(agent.submit(spec({"cpu_affinity": affinity}, time_s=1)))

    assert of(events, "outcome") == [OK]
    assert proven_values(events, "cpu_affinity", "before") == {"server: postmaster": "0"}


SHARE = "share of the data in the page cache"


@pytest.mark.needs("root")
@pytest.mark.proves("cache", where="here")
def test_a_cold_server_has_nothing_of_its_data_in_memory(agent: Connection, spec: Spec) -> None:
    successful_events(agent, spec(time_s=1, scale=5))

    events = successful_events(agent, spec({"cache": {"state": "cold"}}, time_s=1, scale=5))

    proof = of(events, "proof", subject=SHARE)[0]
    assert proof["found"] < 0.01 and proof["evidence"]["bytes"] > 50 << 20
    assert not of(events, "command", purpose="dataset g")


@pytest.mark.needs("root")
@pytest.mark.proves("cache", where="here")
def test_a_warm_server_has_the_named_relations_in_memory(agent: Connection, spec: Spec) -> None:
    cache = {"state": "warm", "relations": "pgbench_accounts, pgbench_accounts_pkey"}

    events = successful_events(agent, spec({"cache": cache}, time_s=1, scale=5))

    proofs = proven_values(events, "cache", "before")
    assert set(proofs) == {f"share of {name} in memory" for name in ("pgbench_accounts", "pgbench_accounts_pkey")}
    assert all(share >= 0.99 for share in proofs.values())


@pytest.mark.needs("root")
def test_without_names_all_that_is_the_users_is_loaded(agent: Connection, spec: Spec) -> None:
    events = successful_events(agent, spec({"cache": {"state": "warm"}}, time_s=1, scale=5))

    tables = ("accounts", "branches", "tellers", "history", "accounts_pkey", "branches_pkey", "tellers_pkey")
    assert set(proven_values(events, "cache", "before")) == {f"share of pgbench_{name} in memory" for name in tables}


@pytest.mark.needs("root")
def test_a_relation_without_storage_fails_with_the_message_of_the_server(agent: Connection, spec: Spec) -> None:
    job = spec({"cache": {"state": "warm", "relations": "pgbench_accounts"}}, time_s=1)
    job["dataset"]["options"] = {"scale": 1, "partitions": 2}

    (outcome,) = of(agent.events(agent.submit(job)), "outcome")

    assert outcome["outcome"] == "failed" and "storage" in outcome["error"]["message"], outcome


def test_a_missing_relation_fails_with_the_message_of_the_server(agent: Connection, spec: Spec) -> None:
    cache = {"state": "warm", "relations": "nowhere"}

    (outcome,) = of(agent.events(agent.submit(spec({"cache": cache}, time_s=1))), "outcome")

    assert outcome["outcome"] == "failed" and 'relation "public.nowhere" does not exist' in outcome["error"]["message"]
