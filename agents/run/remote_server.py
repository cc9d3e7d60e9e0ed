"""The changes and commands allowed to a run on a remote server. Pure."""

from __future__ import annotations

from typing import Any

from ..errors import Unplannable
from ..settings import Plan
from ..workloads import WORKLOADS

Record = dict[str, Any]
LOADS = ("pgbench", "tpcc", "sql", "wait")
# Settings of the machine that PostgreSQL runs on, which the agent does not reach.
OF_SERVER = ("transparent_huge_pages", "huge_pages", "initdb", "block_device", "cache", "cgroup")
SYNCHRONOUS = "synchronous_standby_names"


def check(spec: Record, plans: dict[str, Plan]) -> None:
    """Unplannable if a spec with a target of kind `remote_server` needs access to the server's machine."""
    for name, plan in plans.items():
        field, requested = f"settings.{name}", spec["settings"][name]
        if name in OF_SERVER or plan.server_prefix or plan.initdb:
            accepted = "settings of the client and parameters that SQL can set: only SQL reaches this server's machine"
            raise Unplannable(
                field, requested, accepted, "use a private cluster, or an existing one on a host with an agent"
            )
        if SYNCHRONOUS in plan.conf:
            raise Unplannable(f"{name}.{SYNCHRONOUS}", plan.conf[SYNCHRONOUS], "nothing here: every commit would wait")
    for step in spec["steps"]:
        field = f"steps.{step['name']}"
        if step["kind"] not in LOADS:
            raise Unplannable(f"{field}.kind", step["kind"], f"{', '.join(LOADS)}: the load reaches the server by SQL")
        if WORKLOADS[step["kind"]].traces(step["options"]):
            tool = step["options"]["tracer"]["tool"]
            raise Unplannable(f"{field}.tracer", tool, "none: the backends run on the server's machine")
