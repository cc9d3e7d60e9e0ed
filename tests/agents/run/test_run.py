"""Whole runs: a real agent, a real PostgreSQL, real pgbench and fio."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.facts.read import bracketed
from agents.host.system import System
from agents.wire import protocol
from tests.agents.conftest import Connect, postgres_processes
from tests.agents.driver import OK, Connection, Refused, of

Spec = Callable[..., dict[str, Any]]
POOL = Path("/proc/sys/vm/nr_hugepages")
THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
as_root = os.geteuid() == 0


@pytest.mark.fast
@pytest.mark.proves("cpu_affinity", where="here")
@pytest.mark.proves("postgresql", where="here")
def test_a_run_is_proven_and_its_records_remain_until_they_are_acknowledged(
    agent: Connection, spec: Spec, data_dir: Path
) -> None:
    settings = {"cpu_affinity": {"server": "0"}, "postgresql": {"shared_buffers": "64MB"}}

    run = agent.submit(spec(settings, report_per_command=True, mode="prepared", rate=None))
    events = agent.events(run)

    assert of(events, "outcome") == [OK]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert all(event["crc"] == protocol.checksum(event) for event in events)
    states = [data["state"] for data in of(events, "state")]
    assert states == ["APPLYING", "VERIFIED", "RUNNING", "RUNNING", "ROLLING_BACK", "CLEAN"]

    proofs = of(events, "proof")
    assert all(proof["ok"] for proof in proofs)
    before, during, after = (
        of(events, "proof", setting="cpu_affinity", phase=p) for p in ("before", "during", "after")
    )
    assert (before[0]["subject"], before[0]["found"]) == ("server: postmaster", "0")
    assert len(during[-1]["evidence"]["processes"]) > 3
    assert {process["cpus"] for process in during[-1]["evidence"]["processes"]} == {"0"}
    assert (after[0]["found"], list(after[0]["evidence"]["cpu_s"])) == (0.0, ["0"])
    assert of(events, "proof", subject="shared_buffers")[0]["found"] == "64MB"

    assert len(of(events, "sample", source="pgbench")) >= 2
    assert "cpu0.busy" in of(events, "sample", source="cpu")[1]["values"]
    assert b"tps = " in agent.file(run, "out/measure/stdout")
    manifest, digest = agent.manifest(run)
    assert manifest["outcome"] == "ok" and manifest["clean"] and manifest["last_seq"] == len(events)
    for file in manifest["files"]:
        assert hashlib.sha256(agent.file(run, file["path"])).hexdigest() == file["sha256"], file["path"]
    collected = agent.call("collect", run=run)["files"]
    assert {*collected} == {"manifest.json", *(file["path"] for file in manifest["files"] if file["size"])}
    assert all(base64.b64decode(data) == agent.file(run, path) for path, data in collected.items())
    assert {*agent.call("collect", run=run, limit=manifest["files"][0]["size"])["files"]} < {*collected}
    assert not postgres_processes(data_dir)

    with pytest.raises(Refused, match="was not acknowledged"):
        agent.call("purge", run=run)
    with pytest.raises(Refused, match="has sha256"):
        agent.call("ack", run=run, manifest="0" * 64)
    assert agent.call("ack", run=run, manifest=digest)["state"] == "ACKED"
    assert agent.call("purge", run=run) == {}
    with pytest.raises(Refused, match="does not exist here"):
        agent.call("status", run=run)


def test_a_run_continues_after_its_connection_has_ended(connect: Connect, spec: Spec) -> None:
    first = connect()
    run = first.submit(spec(time_s=1))
    first.process.kill()

    assert of(connect().events(run), "outcome") == [OK]


def test_the_same_uuid_again_answers_and_another_spec_is_refused(agent: Connection, spec: Spec) -> None:
    run = agent.submit(spec(time_s=1))

    assert agent.submit(spec(time_s=1), run=run) == run
    with pytest.raises(Refused, match="was already submitted with another spec"):
        agent.submit(spec(time_s=2), run=run)
    with pytest.raises(Refused, match=f"run {run} is active"):
        agent.submit(spec(time_s=1))
    agent.submit(spec(time_s=1), run=run, epoch=5)
    agent.events(run)
    with pytest.raises(Refused, match="epoch 4 is older than 5"):
        agent.submit(spec(time_s=1), epoch=4)
    assert len(list(agent.events(run))) == len({event["seq"] for event in agent.events(run)})


@pytest.mark.fast
def test_cancel_ends_everything_within_seconds(agent: Connection, spec: Spec, data_dir: Path) -> None:
    run = agent.submit(spec(time_s=60))
    agent.events(run, until="RUNNING")
    time.sleep(0.5)

    began = time.monotonic()
    agent.call("cancel", run=run)
    events = agent.events(run)

    assert time.monotonic() - began < 40
    assert of(events, "outcome") == [{"outcome": "cancelled", "error": None}]
    assert agent.call("status", run=run)["clean"] is True
    assert not postgres_processes(data_dir)
    assert agent.call("hello")["busy"] is None


@pytest.mark.fast
@pytest.mark.parametrize("moment", ["APPLYING", "RUNNING"])
def test_a_killed_supervisor_is_cleaned_up_on_the_next_contact(
    connect: Connect, spec: Spec, data_dir: Path, tmp_path: Path, moment: str
) -> None:
    agent = connect()
    run = agent.submit(spec({"cpu_affinity": {"server": "0"}}, time_s=60))
    agent.events(run, until=moment)
    time.sleep(0.4)
    os.kill(supervisor(tmp_path, run), signal.SIGKILL)

    hello = connect().call("hello")

    assert (hello["busy"], hello["dirty"]) == (None, [])
    assert not postgres_processes(data_dir)
    events = agent.events(run)
    (outcome,) = of(events, "outcome")
    assert outcome["outcome"] == "interrupted" and outcome["error"]["blame"] == "host"
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))


def test_guard_restores_without_any_server(connect: Connect, spec: Spec, program: Path, tmp_path: Path) -> None:
    agent = connect()
    run = agent.submit(spec(time_s=60))
    agent.events(run, until="RUNNING")
    os.kill(supervisor(tmp_path, run), signal.SIGKILL)

    argv = [sys.executable, "-I", str(program), "guard", "--spool", str(tmp_path / "spool")]
    shown = subprocess.run(argv, capture_output=True, timeout=30, check=True)

    assert f"run {run}: the host is restored" in shown.stdout.decode()
    assert "ended postgres" in shown.stdout.decode()
    assert agent.call("status", run=run)["outcome"] == "interrupted"


def test_sigterm_restores_the_host(agent: Connection, spec: Spec, tmp_path: Path, data_dir: Path) -> None:
    run = agent.submit(spec(time_s=60))
    agent.events(run, until="RUNNING")

    os.kill(supervisor(tmp_path, run), signal.SIGTERM)

    assert of(agent.events(run), "outcome")[0]["outcome"] == "interrupted"
    assert not postgres_processes(data_dir)


def supervisor(tmp_path: Path, run: str) -> int:
    """The process that carries the run out, from its newest state record."""
    records = (tmp_path / "spool/jobs" / run / "state.jsonl").read_text().splitlines()
    newest = json.loads(records[-1])
    assert System().is_same(newest["pid"], newest["start"], newest["boot_id"])
    return int(newest["pid"])


def test_a_failing_tool_is_reported_with_its_output(agent: Connection, spec: Spec) -> None:
    run = agent.submit(spec(builtin="select-only", define={"a": 1}) | {"steps": [broken()]})

    (outcome,) = of(agent.events(run), "outcome")

    assert outcome["outcome"] == "failed" and outcome["error"]["blame"] == "workload"
    assert "syntax error" in outcome["error"]["stderr"]


def broken() -> dict[str, Any]:
    return {"name": "measure", "kind": "pgbench", "options": {"script": "selec 1;", "time_s": 1}}


def test_a_parameter_that_the_server_refuses_fails_with_its_log(agent: Connection, spec: Spec) -> None:
    run = agent.submit(spec({"postgresql": {"shared_buffers": "a lot"}}))

    (outcome,) = of(agent.events(run), "outcome")

    assert outcome["outcome"] == "failed" and "shared_buffers" in outcome["error"]["message"]


def test_a_parameter_that_a_client_overrides_is_not_in_effect(agent: Connection, spec: Spec) -> None:
    run = agent.submit(spec({"postgresql": {"application_name": "bench"}}))

    events = agent.events(run)

    (outcome,) = of(events, "outcome")
    assert outcome["outcome"] == "not_in_effect"
    assert (outcome["error"]["wanted"], outcome["error"]["found"]) == ("bench", "psql (client)")
    assert of(events, "sample") == []


@pytest.mark.fast
def test_unsupported_settings_are_refused_before_anything_is_stored(agent: Connection, spec: Spec) -> None:
    with pytest.raises(Refused, match="are online") as refused:
        agent.submit(spec({"cpu_affinity": {"server": "4000"}}))

    assert refused.value.failure["blame"] == "plan" and refused.value.failure["field"] == "cpu_affinity.server"
    assert agent.call("hello")["busy"] is None


@pytest.mark.usefixtures("host_wide")
def test_huge_pages_beyond_memory_are_not_in_effect_and_the_pool_is_as_before(agent: Connection, spec: Spec) -> None:
    run_spec = spec({"huge_pages": {"use": "on", "pool": 10_000_000}}, time_s=1)
    before = POOL.read_text()
    if not as_root:
        with pytest.raises(Refused, match="requires level root"):
            agent.submit(run_spec)
        return

    run = agent.submit(run_spec)

    (outcome,) = of(agent.events(run), "outcome")
    assert outcome["outcome"] == "not_in_effect"
    assert outcome["error"]["wanted"].startswith("10000000 pages")
    assert POOL.read_text() == before


@pytest.mark.fast
@pytest.mark.proves("huge_pages", where="here")
@pytest.mark.usefixtures("host_wide")
def test_huge_pages_on_are_used_and_restored(agent: Connection, spec: Spec) -> None:
    run_spec = spec({"huge_pages": {"use": "on"}, "postgresql": {"shared_buffers": "32MB"}}, time_s=1)
    before = POOL.read_text()
    if not as_root:
        with pytest.raises(Refused, match="requires level root"):
            agent.submit(run_spec)
        return

    run = agent.submit(run_spec)
    events = agent.events(run)

    assert of(events, "outcome") == [OK]
    (write,) = of(events, "write")
    assert int(write["found"]) == int(write["wanted"]) > 16
    assert of(events, "proof", subject="page size of the shared memory (kB)")[0]["found"] == 2048
    assert of(events, "proof", phase="restored")[0]["ok"] and POOL.read_text() == before


@pytest.mark.fast
@pytest.mark.proves("transparent_huge_pages", where="here")
@pytest.mark.usefixtures("host_wide")
def test_transparent_huge_pages_are_proven_before_and_after_and_restored(agent: Connection, spec: Spec) -> None:
    other = {"madvise": "never"}.get(bracketed(THP.read_text()), "madvise")
    run_spec, before = spec({"transparent_huge_pages": {"enabled": other}}, time_s=1), THP.read_text()
    if not as_root:
        with pytest.raises(Refused, match="requires level root"):
            agent.submit(run_spec)
        return

    events = agent.events(agent.submit(run_spec))

    assert of(events, "outcome") == [OK]
    proofs = of(events, "proof", setting="transparent_huge_pages")
    assert [(proof["phase"], proof["found"]) for proof in proofs[:2]] == [("before", other), ("after", other)]
    assert (proofs[2]["phase"], proofs[2]["ok"]) == ("restored", True) and THP.read_text() == before


@pytest.mark.fast
@pytest.mark.proves("numa", where="here")
@pytest.mark.needs("numactl")
def test_a_memory_policy_is_seen_in_the_maps_of_postmaster_and_backend(agent: Connection, spec: Spec) -> None:
    events = agent.events(agent.submit(spec({"numa": {"policy": "localalloc"}}, time_s=1)))

    assert of(events, "outcome") == [OK]
    proofs = of(events, "proof", setting="numa")
    policies = [proof for proof in proofs if proof["subject"] == "memory policy"]
    phases = [proof["phase"] for proof in policies]
    assert (phases[0], {*phases[1:-1]}, phases[-1]) == ("before", {"during"}, "after")
    assert {proof["found"] for proof in policies} <= {"local", "prefer"}
    placed = next(proof["evidence"]["kb_per_node"] for proof in proofs if "kb_per_node" in proof["evidence"])
    assert any(kb > 0 for kb in placed["shared"].values())


@pytest.mark.fast
@pytest.mark.needs("fio")
def test_fio_runs_in_a_directory_of_its_own_that_is_removed(agent: Connection, spec: Spec, data_dir: Path) -> None:
    options = {"rw": "randrw", "size": "1m", "runtime_s": 1, "numjobs": 2}
    job = {"job_file": "[seq]\nrw=read\nsize=1m\n"}
    steps = [{"name": "io", "kind": "fio", "options": options}, {"name": "job", "kind": "fio", "options": job}]

    run = agent.submit({**spec(), "steps": steps})

    assert of(agent.events(run), "outcome") == [OK]
    assert len(json.loads(agent.file(run, "out/io/fio.json"))["jobs"]) == 2
    assert json.loads(agent.file(run, "out/job/fio.json"))["jobs"][0]["jobname"] == "seq"
    assert not list(data_dir.glob("scratch-*"))


def test_read_stays_inside_the_job(agent: Connection, spec: Spec) -> None:
    run = agent.submit(spec(time_s=1))

    for path in ("../../epoch", "/etc/passwd", "."):
        with pytest.raises(Refused, match="is not a file of run"):
            agent.call("read", run=run, path=path, offset=0)
    agent.events(run)


@pytest.mark.fast
def test_facts_are_sent_and_versions_are_cached_in_the_spool(agent: Connection, bin_dir: str, tmp_path: Path) -> None:
    facts = agent.call("facts", pg_bin_dirs=[bin_dir])

    assert facts["numa"]["nodes"][0]["cpus"] and facts["numa"]["distances"][0][0] == 10
    assert facts["level"] == ("root" if as_root else "user")
    installations = {installation["bin_dir"]: installation for installation in facts["postgresql"]}
    assert installations[os.path.realpath(bin_dir)]["major"] == 18
    assert f"{os.path.realpath(bin_dir)}/postgres" in (tmp_path / "spool/versions.json").read_text()


@pytest.mark.fast
def test_unknown_verbs_and_arguments_are_answers_not_crashes(agent: Connection) -> None:
    with pytest.raises(Refused, match="unknown verb 'shell'"):
        agent.call("shell", argv=["id"])
    with pytest.raises(Refused, match="unexpected keyword"):
        agent.call("status", run="x", extra=1)
    assert agent.call("hello")["protocol"] == protocol.VERSION
