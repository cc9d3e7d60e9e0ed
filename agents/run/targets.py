"""The PostgreSQL of a run, from its target: a private or existing cluster, a standby, or one on another machine."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Any, Mapping, Optional

from ..host import owned
from ..measure.stage import run_tool
from ..postgres.cluster import HINT, MAX_SOCKET, SOCKET_NAME, Cluster, choose_account
from ..records.processes import Child, environment, spawn
from ..settings import Plan

if TYPE_CHECKING:
    from ..postgres.instance import Target
    from .running import Run


def make(run: Run, plans: Mapping[str, Plan]) -> Target:
    """The target of the run's spec; `run.account` becomes the one that works with it."""
    if run.spec["target"]["kind"] == "remote_server":
        return _remote_server(run)
    _check_parameters(run)
    target = _make(run, plans)
    run.log("info", f"PostgreSQL and the load generator run as {run.account.name}")
    return target


def _check_parameters(run: Run) -> None:
    """Unplannable for a parameter or value that the PostgreSQL of the target does not know."""
    from ..postgres import gucs, roles
    from .planning import plan_settings

    whole = plan_settings(run.scene.facts, run.spec["settings"])
    gucs.check(run.system, run.spec["target"]["bin_dir"], roles.configuration(whole))


def _remote_server(run: Run) -> Target:
    """`run.account` owns the scratch directories: first that of the agent's psql, then those of the load."""
    from ..postgres.remote_server.server import own_account
    from ..postgres.remote_server.target import RemoteTarget

    target = run.spec["target"]
    owned.make_directories(target["data_dir"])
    load = choose_account(run.system, target["os_user"], target["bin_dir"], target["data_dir"])
    run.account = own_account(run.system, target["bin_dir"], target["data_dir"], load)
    room = partial(run.make_scratch, target["data_dir"])
    remote = RemoteTarget(run, target, run.job.access, room, run.account)
    run.account = remote.load_account = load
    run.log("info", f"the load generator runs as {run.account.name}")
    return remote


def _make(run: Run, plans: Mapping[str, Plan]) -> Target:
    target = run.spec["target"]
    if target["kind"] == "existing":
        from ..postgres.existing import Existing

        room = partial(run.make_scratch, "/tmp", f"access-{secrets.token_hex(4)}")  # noqa: S108
        existing = Existing(run.system, run.journal, target, run.emit, room)
        run.account = existing.load_account
        return existing
    owned.make_directories(target["data_dir"])
    run.account = choose_account(run.system, target["os_user"], target["bin_dir"], target["data_dir"])
    if run.account.wrapper and run.account.user is None:
        run.log("warning", f"PostgreSQL and the load run with root's file permissions: {HINT}")
    return {"private": _private, "standby": _standby, "remote": _client}[target["kind"]](run, plans)


def _private(run: Run, plans: Mapping[str, Plan]) -> Target:
    initdb = plans["initdb"].initdb if "initdb" in plans else {}
    return Cluster(run.system, run.spec["target"], run.account, *_hands(run), initdb, _listening(run))


def _listening(run: Run) -> Optional[dict[str, str]]:
    """The allowed clients are in a file of the run, which is removed after the run or its death."""
    serve = run.spec.get("serve")
    if not serve:
        return None
    from .serving import write_hba

    path = run.make_scratch(run.spec["target"]["data_dir"], "serve") / "pg_hba.conf"
    write_hba(path, serve, run.account)
    return {"listen_addresses": serve["listen"], "port": str(serve["port"]), "hba_file": str(path)}


def _standby(run: Run, plans: Mapping[str, Plan]) -> Target:
    from ..postgres.standby import Standby

    room = run.make_scratch(run.spec["target"]["data_dir"], "standby")
    sockets = room
    if len(str(room / SOCKET_NAME)) >= MAX_SOCKET:
        sockets = run.make_scratch("/tmp", "standby")  # noqa: S108
    password = run.job.access.get("password", "")
    return Standby(run.system, run.spec["target"], run.account, *_hands(run), password, room, sockets)


def _client(run: Run, plans: Mapping[str, Plan]) -> Target:
    from ..postgres.client import Client

    room = run.make_scratch(run.spec["target"]["data_dir"], "access")
    return Client(run.system, run.spec["target"], run.account, run.job.access, room)


def _hands(run: Run) -> tuple[Any, Any]:
    """Return the functions with which a cluster runs its tools and starts its server."""
    out = run.job.path / "out"

    def execute(argv: list[str], purpose: str, limit_s: float) -> None:
        out.mkdir(exist_ok=True, mode=0o700)
        run_tool(run, argv, purpose=purpose, limit_s=limit_s, out=out / purpose)

    def start(argv: list[str], **options: Any) -> Child:
        group = run.scene.group
        run.emit("command", {"purpose": options["purpose"], "argv": [*run.account.wrapper, *argv], "env": {}})
        return spawn(run.journal, argv, account=run.account, env=environment(run.job.run), group=group, **options)

    return execute, start


def huge_pages_needed(run: Run, cluster: Target, page_kb: int) -> int:
    """Pages of this size that the configured, stopped server will request. Before 15 it cannot report them: it is
    started without them, its peak is read, and it is stopped again."""
    if cluster.major >= 15:
        return max(0, int(cluster.parameter("shared_memory_size_in_huge_pages")))
    out = run.job.path / "out"
    out.mkdir(exist_ok=True, mode=0o700)
    pid = cluster.start_without_huge_pages(out / "postgresql.log")
    peak_kb = int(run.system.field(f"/proc/{pid}/status", "VmPeak").split()[0])
    run.log("info", f"PostgreSQL {cluster.major} without huge pages takes {peak_kb} kB (VmPeak)")
    run.stop_server()
    return peak_kb // page_kb + 1
