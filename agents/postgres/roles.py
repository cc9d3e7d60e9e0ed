"""The role of one machine in a run over several hosts: server, standby or client. Pure."""

from __future__ import annotations

from typing import Any

from ..errors import Unplannable
from ..settings import Plan
from ..wire.protocol import REBOOT
from ..workloads import WORKLOADS

Record = dict[str, Any]

STEP = "serve"  # the name of the step in which a server is sampled
OLDEST = 12  # the first version that knows standby.signal
# Before standbys stream, it would block every commit.
LATE = ("synchronous_standby_names",)
ADDRESS = {"type": "string", "pattern": r"^[0-9A-Fa-f:.]{2,45}$", "description": "an address, not a name"}
NAME = {"type": "string", "pattern": r"^[a-z][a-z0-9_]{0,39}$", "description": "a-z, 0-9 and _"}
PORT = {"type": "integer", "minimum": 1024, "maximum": 65535}
_ADDRESSES = {"type": "array", "items": ADDRESS}
SERVE: Record = {
    "type": ["object", "null"],
    "properties": {
        "listen": ADDRESS,
        "port": PORT,
        "clients": _ADDRESSES,
        "standbys": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": NAME, "address": ADDRESS},
                "required": ["name", "address"],
                "additionalProperties": False,
            },
        },
        "writes": {"type": "boolean"},
        "limit_s": {"type": "number", "minimum": 1, "maximum": 30 * 86400},
    },
    "required": ["limit_s"],
    "additionalProperties": False,
}
OTHERS = ("remote", "standby")  # targets whose server, or whose primary, is on another machine


def early(spec: Record) -> Record:
    """The settings of a spec that apply from the start: without those that apply only once standbys stream."""
    settings: Record = spec["settings"]
    if not (spec.get("serve") or {}).get("standbys") or "postgresql" not in settings:
        return settings
    rest = {name: value for name, value in settings["postgresql"].items() if name not in LATE}
    return {**settings, "postgresql": rest}


def configuration(plans: dict[str, Plan]) -> dict[str, str]:
    """The parameters of all plans."""
    return {name: value for plan in plans.values() for name, value in plan.conf.items()}


def check(spec: Record, plans: dict[str, Plan]) -> None:
    """Unplannable if a job cannot have the role that its spec gives it."""
    kind, serve = (spec["target"] or {}).get("kind", ""), spec.get("serve")
    if serve and kind not in ("private", "standby"):
        raise Unplannable("serve", kind, "a private cluster: runs do not open an existing cluster to other hosts")
    if kind == "standby" and not serve:
        raise Unplannable("serve", None, "time after which the standby ends without a sign of the server")
    if serve and kind == "private" and not {"listen", "port"} <= serve.keys():
        raise Unplannable("serve", serve, "an address to listen on, and a port")
    if kind in OTHERS and spec.get("dataset"):
        raise Unplannable("dataset", spec["dataset"], "none: the server defines it")
    if (serve or kind in OTHERS) and any(step["kind"] == REBOOT for step in spec["steps"]):
        raise Unplannable("steps", REBOOT, "no restart in a run over several hosts")
    for name in (name for name, plan in plans.items() if serve and plan.boot):
        raise Unplannable(f"settings.{name}", spec["settings"][name], "no boot of the host in a run over several hosts")
    for step in spec["steps"] if kind == "remote" else []:
        if step["kind"] in WORKLOADS and WORKLOADS[step["kind"]].traces(step["options"]):
            tool = step["options"]["tracer"]["tool"]
            raise Unplannable(f"steps.{step['name']}.tracer", tool, "none: the backends run on the server's host")
    for name, plan in plans.items() if kind in OTHERS else []:
        remote = kind == "remote" and (plan.conf or plan.server_prefix or plan.sql or plan.limits)
        if remote or plan.initdb:
            raise Unplannable(
                f"settings.{name}", spec["settings"][name], "nothing here; it applies only to the server's host"
            )
    _check_replication(kind, bool(serve and serve.get("standbys")), configuration(plans))


def _check_replication(kind: str, followed: bool, conf: dict[str, str]) -> None:
    names = conf.get(LATE[0], "").strip()
    if kind == "private" and names and not followed:
        accepted = "nothing without standbys: every commit would wait forever"
        raise Unplannable(f"postgresql.{LATE[0]}", names, accepted, "choose hosts for standbys")
    if not followed:
        return
    for name, refused, accepted in (
        ("wal_level", ("minimal",), "replica or logical, for standbys"),
        ("max_wal_senders", ("0", "1"), "two for each standby"),
        ("max_replication_slots", ("0",), "one for each standby"),
    ):
        if conf.get(name) in refused:
            raise Unplannable(f"postgresql.{name}", conf[name], accepted)
