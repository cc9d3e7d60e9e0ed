"""Memory placement on this machine: pools of its nodes and sizes, numactl and weights, each restored."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.errors import Unplannable
from agents.facts.memory import numa
from agents.host.system import System
from agents.records.journal import Journal
from agents.records.spool import Job
from agents.settings import SETTINGS, Scene, Write
from agents.settings.base import current
from tests.agents.conftest import Connect, postgres_processes
from tests.agents.driver import OK, Connection, of
from tests.agents.run.test_run import supervisor
from tests.session.needs import POSTGRESQL_15

Spec = Callable[..., dict[str, Any]]
NODE0 = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
HUGE_ON = {"use": "on"}
SMALL = {"shared_buffers": "32MB"}


def counters() -> dict[str, str]:
    """Every file that says how large a pool of this kernel is, whatever the size and the node."""
    roots = [Path("/sys/kernel/mm/hugepages"), *Path("/sys/devices/system/node").glob("node*/hugepages")]
    files = [file for root in roots for file in root.glob("*/nr_hugepages")]
    return {str(file): current(System(), str(file)) for file in [*files, Path("/proc/sys/vm/nr_hugepages")]}


@pytest.fixture
def unchanged(host_wide: None) -> Iterator[None]:
    """The pools of the host are after the test as they were before it."""
    before = counters()
    yield
    assert counters() == before


@pytest.mark.proves("numa", where="here")
@pytest.mark.needs("numactl")
def test_memory_and_cpus_of_a_node_are_proven_of_every_process(agent: Connection, spec: Spec) -> None:
    run_spec = spec({"numa": {"policy": "membind", "nodes": "0", "cpunodebind": "0"}, "postgresql": SMALL})
    run_spec["collect"]["sources"] = ["numa"]

    events = agent.events(agent.submit(run_spec))

    assert of(events, "outcome") == [OK]
    for phase in ("before", "during", "after"):
        policy = of(events, "proof", setting="numa", phase=phase, subject="memory policy")[-1]
        assert (policy["ok"], policy["found"]) == (True, "bind:0")
        assert of(events, "proof", setting="numa", phase=phase, subject="cpus of node 0")[-1]["ok"]
        placement = of(events, "proof", phase=phase, subject="shared memory by node (kB)")[-1]
        assert list(placement["evidence"]["kb_per_node"]["shared"]) == ["0"]
    backends = of(events, "proof", phase="during", subject="memory policy")[-1]["evidence"]["processes"]
    assert len(backends) > 5 and all({"name", "policies", "last_cpu"} <= set(row) for row in backends)
    assert placement["evidence"]["numastat_difference"]["node0"]["numa_hit"] > 0
    samples = [each["values"] for each in of(events, "sample", source="numa")]
    assert samples[0]["node0.MemUsed"] > 0 and any("node0.numa_hit" in each for each in samples)


@pytest.mark.needs("numactl")
def test_postgresql_18_reports_memory_by_node_or_why_it_cannot(agent: Connection, spec: Spec) -> None:
    events = agent.events(agent.submit(spec({"numa": {"policy": "interleave"}}, time_s=1)))

    evidence = of(events, "proof", phase="after", subject="shared memory by node (kB)")[0]["evidence"]
    assert evidence["pg_shmem_allocations_numa"] == "this PostgreSQL was built without libnuma"


@pytest.mark.needs("root", "numactl")
@pytest.mark.proves("cache", where="here")
def test_numastat_counts_the_pages_of_reloaded_data(agent: Connection, spec: Spec) -> None:
    settings = {"cache": {"state": "reloaded"}, "numa": {"policy": "membind", "nodes": "0"}}

    events = agent.events(agent.submit(spec(settings, time_s=1, scale=5)))

    assert of(events, "outcome") == [OK]
    proven = {proof["subject"]: proof["found"] for proof in of(events, "proof", setting="cache")}
    assert proven["share of the data in the page cache"] < 0.01
    assert proven["share of pgbench_accounts in memory"] > 0.99
    counted = of(events, "proof", phase="after", subject="shared memory by node (kB)")[0]["evidence"]
    assert counted["numastat_difference"]["node0"]["numa_hit"] * 4096 > 60_000_000, (
        "5 times 100 000 rows of about 130 bytes"
    )


@pytest.mark.needs("root")
@pytest.mark.proves("huge_pages", where="here")
@pytest.mark.usefixtures("unchanged")
def test_a_pool_on_a_node_is_filled_used_and_emptied(agent: Connection, spec: Spec) -> None:
    events = agent.events(agent.submit(spec({"huge_pages": {**HUGE_ON, "nodes": "0"}, "postgresql": SMALL})))

    assert of(events, "outcome") == [OK]
    (write,) = of(events, "write")
    assert write["key"] == NODE0 and int(write["found"]) == int(write["wanted"]) > 16
    proofs = {(proof["phase"], proof["subject"]): proof for proof in of(events, "proof", setting="huge_pages")}
    assert proofs["before", "page size of the shared memory (kB)"]["found"] == 2048
    assert proofs["during", "page size of the shared memory of a backend (kB)"]["found"] == 2048
    assert proofs["after", NODE0]["ok"] and proofs["restored", NODE0]["ok"]


@pytest.mark.needs("root")
@pytest.mark.proves("huge_pages", where="here")
@pytest.mark.usefixtures("unchanged")
def test_a_pool_of_one_1_gb_page_is_granted_and_restored(agent: Connection, spec: Spec) -> None:
    """A kernel whose memory is too scattered says so; either way the host is as before."""
    settings = {"huge_pages": {**HUGE_ON, "size": "1GB"}, "postgresql": {"shared_buffers": "512MB"}}

    events = agent.events(agent.submit(spec(settings, time_s=1)))

    (outcome,) = of(events, "outcome")
    if outcome["outcome"] == "ok":
        assert of(events, "proof", subject="huge_page_size (kB)")[0]["found"] == 1048576
        assert of(events, "proof", subject="page size of the shared memory (kB)")[0]["found"] == 1048576
    else:
        assert (outcome["outcome"], outcome["error"]["found"]) == ("not_in_effect", "0")


@pytest.mark.needs("root")
@pytest.mark.proves("huge_pages", where="here")
@pytest.mark.usefixtures("unchanged")
def test_a_pool_in_use_after_a_kill_is_restored_when_its_user_has_ended(
    connect: Connect, spec: Spec, data_dir: Path, tmp_path: Path
) -> None:
    agent = connect()
    run = agent.submit(spec({"huge_pages": {**HUGE_ON, "pool": 40}, "postgresql": SMALL}, time_s=60))
    agent.events(run, until="RUNNING")
    assert Path(NODE0).read_text() != "0\n"
    os.kill(supervisor(tmp_path, run), signal.SIGKILL)

    assert connect().call("hello")["dirty"] == []

    assert not postgres_processes(data_dir)
    assert of(agent.events(run), "outcome")[0]["outcome"] == "interrupted"


@pytest.mark.needs("root", "postgresql-15")
@pytest.mark.proves("huge_pages", where="here")
@pytest.mark.usefixtures("unchanged")
def test_before_15_the_server_is_started_once_to_measure_its_shared_memory(
    agent: Connection, spec: Spec, tmp_path: Path
) -> None:
    run_spec = spec({"huge_pages": HUGE_ON, "postgresql": SMALL}, time_s=1)
    run_spec["target"]["bin_dir"] = str(older(tmp_path))

    events = agent.events(agent.submit(run_spec))

    assert of(events, "outcome") == [OK]
    measured = next(data["message"] for data in of(events, "log") if "VmPeak" in data["message"])
    assert measured.startswith("PostgreSQL 14 without huge pages takes ")
    (write,) = of(events, "write")
    assert 1 <= int(write["wanted"]) - int(write["original"]) - 32 // 2 < 120, "the segment and the program itself"
    servers = of(events, "command", purpose="postgres")
    assert servers[0]["argv"][-2:] == ["-c", "huge_pages=off"] and len(servers) == 2


@pytest.mark.needs("root")
@pytest.mark.usefixtures("host_wide")
def test_a_weight_is_applied_and_restored_unless_the_kernel_could_not_choose_again(tmp_path: Path) -> None:
    """Debian's numactl knows no weighted interleave, so the weights are tried without a server."""
    system, setting = System(), SETTINGS["numa"]
    options = {"policy": "weighted-interleave", "weights": {"0": 7}}
    facts = {"numa": numa(system), "tools": {"numactl": {"options": ["--weighted-interleave"]}}}
    mode = facts["numa"].get("weights_auto", "")
    before = (facts["numa"].get("weights"), system.text(mode))
    at = Scene(system=system, facts=facts)
    if not before[0]:
        with pytest.raises(Unplannable, match=r"weights need Linux 6\.9"):
            setting.plan(facts, options)
        return
    try:
        plan = setting.resolve(at, setting.plan(facts, options), options)
    except Unplannable as refused:
        assert "it has no table of bandwidths" in refused.accepted
    else:
        journal = Journal(Job(tmp_path, system, lambda: None), system)
        journal.apply("numa", plan.writes[0])
        assert numa(system)["weights"]["0"] == 7
        assert journal.restore() == ([], [])
    assert (numa(system)["weights"], system.text(mode)) == before


@pytest.mark.needs("root")
@pytest.mark.usefixtures("unchanged")
def test_a_total_and_its_nodes_are_restored_together(tmp_path: Path) -> None:
    system = System()
    journal = Journal(Job(tmp_path, system, lambda: None), system)

    total = str(int(current(system, NODE0)) + 30)

    journal.apply("huge_pages", Write("/proc/sys/vm/nr_hugepages", total, settle_s=5.0, also={NODE0: total}))
    of_node = current(system, NODE0)

    assert journal.restore() == ([], [])
    assert of_node == total


def older(directory: Path) -> Path:
    """Debian's PostgreSQL 15, which says of itself that it is 14."""
    for name in ("initdb", "psql", "pgbench"):
        (directory / name).symlink_to(POSTGRESQL_15 / name)
    version_line = '[ "$1" = --version ] && exec echo "postgres (PostgreSQL) 14.9"'
    (directory / "postgres").write_text(f'#!/bin/sh\n{version_line}\nexec {POSTGRESQL_15}/postgres "$@"\n')
    (directory / "postgres").chmod(0o755)
    subprocess.run([directory / "postgres", "--version"], check=True, timeout=60)
    return directory
