"""Restrictions that an admin sets for the agent on a host: policy.json beside the launcher's keys, see launcher.py.

{"forbid": [key of meanings()], "allow": [one of ASKED], "os_users": [account], "directories": [directory],
"spool": directory}, each optional. With "os_users" PostgreSQL and the load run as these accounts only; with
"directories" clusters and what workloads write are below these only. For an agent that a launcher started, ASKED is
forbidden unless it is allowed here, and the defaults are OS_USERS and SPOOL.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ..errors import HostFailure, PlanFailure, Unplannable
from ..wire.protocol import BOOT, REBOOT
from ..wire.schema import check as check_schema
from .system import System

SPOOL = "/var/lib/proving-ground/spool"
OS_USERS = ("", "proving-load")  # "": the agent chooses one without rights
EXISTING, REMOTE, DEVICE, UNITS = "existing", "remote_server", "device", "units"
TRACER_SCRIPT = "tracer_script"
ASKED = (TRACER_SCRIPT,)
_NAMES = {"type": "array", "items": {"type": "string"}}
SCHEMA = {
    "type": "object",
    "properties": {
        "forbid": _NAMES,
        "allow": {"type": "array", "items": {"type": "string", "enum": list(ASKED)}},
        "os_users": _NAMES,
        "directories": _NAMES,
        "spool": {"type": "string"},
    },
    "additionalProperties": False,
}
Policy = dict[str, Any]
HINT = "the policy.json of the host defines this"


def meanings() -> dict[str, str]:
    """What can be forbidden, and what each word means. Loads both registries, so only where something is forbidden."""
    from ..settings import SETTINGS
    from ..workloads import WORKLOADS

    return {
        REBOOT: "planned restarts of the host",
        EXISTING: "existing clusters",
        REMOTE: "remote servers",
        DEVICE: "block devices that workloads overwrite",
        UNITS: "installing and uninstalling the systemd units",
        TRACER_SCRIPT: "scripts of bpftrace and stap, which run as root",
        **{name: f"the setting {name}" for name in SETTINGS},
        **{kind: f"the workload {kind}" for kind in WORKLOADS},
    }


def read(system: System) -> Policy:
    """{} where nothing is narrowed. HostFailure when the file cannot be understood: then nothing is allowed."""
    try:
        policy: Policy = json.loads(system.policy() or "{}")
        check_schema(SCHEMA, policy, "policy.json")
        if policy.get("forbid"):
            check_schema({"items": {"enum": list(meanings())}}, policy["forbid"], "policy.json: forbid")
    except (OSError, ValueError, RecursionError, Unplannable) as problem:
        raise HostFailure(f"the policy.json of this host cannot be read: {problem}", HINT) from problem
    return _with_defaults(policy) if system.launcher() else policy


def _with_defaults(policy: Policy) -> Policy:
    """The account that may use the launcher must not become another one, or root, because a file is missing."""
    forbidden = [word for word in ASKED if word not in policy.get("allow", [])]
    return {"os_users": list(OS_USERS), **policy, "forbid": [*policy.get("forbid", []), *forbidden]}


def check_spool(system: System, root: str) -> None:
    """PlanFailure for a directory that no admin of the host named: a user of the launcher cannot choose another."""
    allowed = read(system).get("spool", SPOOL) if system.launcher() else root
    if root != allowed:
        raise PlanFailure(f"the spool of this host is {allowed}, not {root}", f"change it on the host's page; {HINT}")


def permit(policy: Policy, word: str, field: str) -> None:
    """Unplannable when `word` is forbidden."""
    if word in policy.get("forbid", []):
        raise Unplannable(field, word, f"nothing; this host forbids {meanings()[word]}", HINT)


def check(policy: Policy, spec: dict[str, Any]) -> None:
    """Pure. Raise Unplannable if a valid spec needs something forbidden."""
    for name in spec["settings"]:
        permit(policy, name, f"settings.{name}")
        if name == BOOT and spec["settings"][name]:
            permit(policy, REBOOT, f"settings.{name}")
    for step in spec["steps"]:
        permit(policy, step["kind"], f"steps.{step['name']}")
        if (step["options"].get("tracer") or {}).get("script"):
            permit(policy, TRACER_SCRIPT, f"steps.{step['name']}.tracer.script")
    if spec["target"]:
        _check_target(policy, spec["target"])
    else:
        _check_account(policy, spec.get("os_user", ""), "os_user")
    for allowed in spec.get("allowed_paths", []):
        if allowed["kind"] == DEVICE:
            permit(policy, DEVICE, "allowed_paths")
        _check_below(policy, allowed["path"], "allowed_paths")


def _check_target(policy: Policy, target: dict[str, Any]) -> None:
    if target["kind"] == EXISTING:
        return permit(policy, EXISTING, "target")
    if target["kind"] == REMOTE:
        permit(policy, REMOTE, "target")
    _check_below(policy, target["data_dir"], "target.data_dir")
    return _check_account(policy, target["os_user"], "target.os_user")


def _check_account(policy: Policy, account: str, field: str) -> None:
    accounts = policy.get("os_users")
    if accounts is not None and account not in accounts:
        hint = f"set one of them as PostgreSQL's account on the host's page; {HINT}"
        raise Unplannable(field, account, ", ".join(filter(None, accounts)) or "none", hint)


def _check_below(policy: Policy, path: str, field: str) -> None:
    allowed = policy.get("directories")
    real = os.path.normpath(path)
    if path and allowed is not None and not any(real == each or real.startswith(f"{each}/") for each in allowed):
        raise Unplannable(field, path, f"a path below {', '.join(allowed) or 'nothing'}", HINT)
