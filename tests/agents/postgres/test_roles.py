"""Runs on several hosts as their agents see them: a server, its standbys and a client, each with its own spool."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.wire import protocol
from tests.agents.conftest import postgres_processes
from tests.agents.driver import OK, Connection, of

Spec = Callable[..., dict[str, Any]]
ADDRESS = "127.0.0.1"
ACCESS = {"password": "c0ffee" * 8}


class Machine:
    """One agent with a spool and a directory of clusters that no other has."""

    def __init__(self, program: Path, home: Path, data_dir: Path) -> None:
        self.agent, self.data_dir = Connection(program, home / "spool"), data_dir

    def start(self, spec: dict[str, Any], **access: str) -> str:
        run = protocol.digest([spec, str(self.data_dir), time.time()])
        run = f"{run[:8]}-{run[8:12]}-{run[12:16]}-{run[16:20]}-{run[20:32]}"
        credentials = {**ACCESS, **access}
        self.agent.call("submit", run=run, epoch=1, digest=protocol.digest(spec), spec=spec, access=credentials)
        return run

    def wait_for_event(self, run: str, kind: str) -> dict[str, Any]:
        events = self.agent.events(run, until=kind)
        matching = of(events, kind)
        assert matching, of(events, "outcome")
        return matching[0]

    def outcome(self, run: str) -> dict[str, Any]:
        (ended,) = of(self.agent.events(run), "outcome")
        return ended


@pytest.fixture
def machines(program: Path, tmp_path: Path, data_dir: Path) -> Iterator[Callable[[str], Machine]]:
    made: list[Machine] = []

    def machine(name: str) -> Machine:
        home = data_dir / f"roles-{name}"
        home.mkdir(exist_ok=True)
        home.chmod(0o755)
        made.append(Machine(program, tmp_path / name, home))
        return made[-1]

    yield machine
    for each in made:
        each.agent.close()
        assert postgres_processes(each.data_dir) == []


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return int(probe.getsockname()[1])


def server_spec(spec: dict[str, Any], machine: Machine, port: int, **more: Any) -> dict[str, Any]:
    serve = {"listen": ADDRESS, "port": port, "clients": [ADDRESS], "writes": False, "limit_s": 60, **more}
    target = {**spec["target"], "data_dir": str(machine.data_dir)}
    return {**spec, "target": target, "steps": [], "serve": serve}


def client_spec(spec: dict[str, Any], machine: Machine, port: int) -> dict[str, Any]:
    where = {"kind": "remote", "data_dir": str(machine.data_dir), "address": ADDRESS, "port": port}
    return {**spec, "target": {**spec["target"], **where}, "settings": {}, "dataset": None}


def standby_spec(spec: dict[str, Any], machine: Machine, port: int, name: str) -> dict[str, Any]:
    where = {"kind": "standby", "data_dir": str(machine.data_dir), "address": ADDRESS, "port": port, "name": name}
    collect = {"interval_s": 1, "sources": ["cpu"]}
    role_spec = {
        "target": {**spec["target"], **where},
        "settings": {},
        "dataset": None,
        "steps": [],
        "collect": collect,
    }
    return {**spec, **role_spec, "serve": {"limit_s": 60}}


@pytest.mark.fast
def test_a_client_loads_the_server_of_another_machine(machines: Any, spec: Spec, port: int) -> None:
    server, client = machines("server"), machines("client")
    run_spec = spec({"postgresql": {"work_mem": "7MB"}}, time_s=2)

    serving = server.start(server_spec(run_spec, server, port))
    where = server.wait_for_event(serving, "serving")
    running = client.start(client_spec(run_spec, client, port), database=where["database"])
    ended = client.outcome(running)
    server.agent.call("finish", run=serving)

    assert ended == OK
    assert server.outcome(serving) == OK
    assert b"tps = " in client.agent.file(running, "out/measure/stdout")
    events = server.agent.events(serving)
    assert {proof["phase"] for proof in of(events, "proof", subject="work_mem", ok=True)} == {"before", "after"}
    assert of(events, "sample", step="serve", source="cpu")


def test_the_password_is_in_nothing_that_a_run_keeps(machines: Any, spec: Spec, port: int) -> None:
    server, client = machines("server"), machines("client")
    run_spec = spec({"postgresql": {"log_statement": "all"}}, time_s=1)
    serving = server.start(server_spec(run_spec, server, port))
    database = server.wait_for_event(serving, "serving")["database"]
    running = client.start(client_spec(run_spec, client, port), database=database)
    client.outcome(running)
    server.agent.call("finish", run=serving)
    server.outcome(serving)

    for machine, run in ((server, serving), (client, running)):
        files = [file["path"] for file in machine.agent.manifest(run)[0]["files"]]
        contents = [machine.agent.file(run, path) for path in files]
        assert not [path for path, text in zip(files, contents, strict=True) if ACCESS["password"].encode() in text]


def test_only_participants_can_connect(machines: Any, spec: Spec, port: int) -> None:
    server, client = machines("server"), machines("client")
    serving = server.start(server_spec(spec(), server, port, clients=["192.0.2.7"]))
    server.wait_for_event(serving, "serving")

    running = client.start(client_spec(spec(), client, port))
    ended = client.outcome(running)
    server.agent.call("cancel", run=serving)

    assert (ended["outcome"], ended["error"]["blame"]) == ("failed", "host")
    assert "no pg_hba.conf entry" in ended["error"]["message"]
    assert server.outcome(serving)["outcome"] == "cancelled"


def test_a_server_without_clients_ends_by_itself(machines: Any, spec: Spec, port: int) -> None:
    server = machines("server")

    serving = server.start(server_spec(spec(), server, port, limit_s=1))

    ended = server.outcome(serving)
    assert (ended["outcome"], server.agent.manifest(serving)[0]["clean"]) == ("interrupted", True)


@pytest.mark.parametrize("local", [True, False], ids=["load on the primary", "load from a client"])
def test_commits_wait_for_standbys_that_stream(machines: Any, spec: Spec, port: int, local: bool) -> None:
    primary, standbys = machines("server"), [machines("one"), machines("two")]
    names = ["standby1", "standby2"]
    synchronous = {"synchronous_standby_names": "ANY 1 (*)", "synchronous_commit": "remote_apply"}
    run_spec = spec({"postgresql": synchronous}, builtin="simple-update", time_s=2)
    serve = {"standbys": [{"name": name, "address": ADDRESS} for name in names], "writes": True}
    primary_spec = server_spec(run_spec, primary, port, **serve)

    serving = primary.start({**primary_spec, "steps": run_spec["steps"]} if local else primary_spec)
    primary.wait_for_event(serving, "listening")
    following = [m.start(standby_spec(run_spec, m, port, n)) for m, n in zip(standbys, names, strict=True)]
    where = primary.wait_for_event(serving, "serving")
    if not local:
        client = machines("client")
        running = client.start(client_spec(run_spec, client, port), database=where["database"])
        assert client.outcome(running) == OK
        primary.agent.call("finish", run=serving)
    primary.wait_for_event(serving, "released")
    for machine, run in zip(standbys, following, strict=True):
        machine.agent.call("finish", run=run)

    assert [m.outcome(run)["outcome"] for m, run in zip(standbys, following, strict=True)] == ["ok", "ok"]
    assert primary.outcome(serving) == OK
    proofs = of(primary.agent.events(serving), "proof", subject="synchronous standbys", ok=True)
    assert {proof["found"] for proof in proofs} == {"standby1 quorum, standby2 quorum"}
    assert {"before", "after"} <= {proof["phase"] for proof in proofs}
    used = of(primary.agent.events(serving), "dataset")[-1]["used"]
    assert (used["means"], used["wrote"]) == ("copy", True)
    left = [path for m in (primary, *standbys) for path in m.data_dir.rglob("*") if "standby" in path.name]
    assert left == []


def test_a_standby_that_dies_makes_the_run_not_in_effect(machines: Any, spec: Spec, port: int) -> None:
    primary, standby = machines("server"), machines("one")
    run_spec = spec({"postgresql": {"synchronous_standby_names": "*"}}, builtin="select-only", time_s=30)
    serve = {"standbys": [{"name": "standby1", "address": ADDRESS}]}
    serving = primary.start({**server_spec(run_spec, primary, port, **serve), "steps": run_spec["steps"]})
    primary.wait_for_event(serving, "listening")
    following = standby.start(standby_spec(run_spec, standby, port, "standby1"))
    primary.wait_for_event(serving, "serving")

    standby.agent.call("cancel", run=following)

    assert standby.outcome(following)["outcome"] == "cancelled"
    ended = primary.outcome(serving)
    assert (ended["outcome"], ended["error"]["found"]) == ("not_in_effect", "not connected")
    assert primary.agent.manifest(serving)[0]["clean"]
