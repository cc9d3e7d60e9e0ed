"""What an agent says of itself and its host, checked before anything is stored: typed, bounded, and storable. Pure.

A host may say anything. What breaks the rules is a HostError, and nothing of it is kept.
"""

from __future__ import annotations

import math
import re
from typing import Any

from agents.host import cpulist
from apps.hosts import changes, topology
from common.errors import HostError

MAX_RUNS = 10_000
MAX_DEPTH = 40
MAX_VALUES = 200_000  # of the largest machines, facts have some 20,000
MAX_TEXT = 65_536
MAX_RECOVERED, MAX_DID, MAX_WORDS = 50, 200, 500
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_UUID = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}")
_TEXTS = {
    "agent": r"source|[0-9a-f]{64}",
    "version": r"[\x20-\x7e]{0,32}",
    "commit": r"[\x20-\x7e]{0,64}",
    "python": r"[\x20-\x7e]{0,32}",
    "level": "root|user",
    "supervisor": "systemd|detached",
    "units": "current|outdated|absent|unavailable",
    "machine_id": r"[0-9A-Za-z-]{1,64}",
    "boot_id": r"[0-9A-Za-z-]{1,64}",
}
# Keys of the facts that pages and planning read, and what they must be.
_SECTIONS: dict[str, type] = {
    **dict.fromkeys(("cpus", "numa", "memory", "huge_pages", "transparent_huge_pages", "kernel", "sysctls"), dict),
    **dict.fromkeys(("tools", "os", "firmware", "limits", "unread", "policy"), dict),
    **dict.fromkeys(("block_devices", "file_systems", "network", "postgresql", "clusters"), list),
    **dict.fromkeys(("level", "hostname", "machine_id", "boot_id", "python", "virtualization"), str),
}
_NEEDED = ("level", "cpus", "numa", "memory", "huge_pages", "kernel", "sysctls", "block_devices", "tools")


def hello(subject: object, said: Any) -> dict[str, Any]:
    """The Hello of agents/wire/protocol.py, with at most MAX_RECOVERED entries of what was recovered."""
    if not isinstance(said, dict):
        raise _error(subject, "hello: it is no object")
    for name, pattern in _TEXTS.items():
        if not isinstance(said.get(name), str) or not re.fullmatch(pattern, said[name]):
            raise _error(subject, f"hello: {name} is {said.get(name)!r:.80}")
    for name in ("epoch", "protocol"):
        if not isinstance(said.get(name), int) or isinstance(said[name], bool) or said[name] < 0:
            raise _error(subject, f"hello: {name} is {said.get(name)!r:.80}")
    for name in ("wall", "mono"):
        if not isinstance(said.get(name), (int, float)) or not math.isfinite(said[name]):
            raise _error(subject, f"hello: {name} is {said.get(name)!r:.80}")
    runs = {name: _runs(subject, name, said.get(name)) for name in ("dirty", "conflicts", "sealed")}
    if said.get("busy") is not None:
        _runs(subject, "busy", [said["busy"]])
    return {**said, **runs, "recovered": recovered(subject, said.get("recovered"))}


def _runs(subject: object, name: str, said: Any) -> list[str]:
    fine = isinstance(said, list) and len(said) <= MAX_RUNS
    if not fine or not all(isinstance(each, str) and _UUID.fullmatch(each) for each in said):
        raise _error(subject, f"hello: {name} is no list of at most {MAX_RUNS} runs")
    return list(said)


def recovered(subject: object, said: Any) -> list[dict[str, Any]]:
    """What a contact put back, cut to what the audit log takes."""
    if not isinstance(said, list) or not all(isinstance(each, dict) and "run" in each for each in said):
        raise _error(subject, "recovered is no list of runs")
    names = ("run", "state", "step", "outcome", "clean")
    return [{**{name: _short(each.get(name)) for name in names}, "did": _did(each)} for each in said[:MAX_RECOVERED]]


def _did(status: dict[str, Any]) -> list[str]:
    did = status.get("did")
    return [_short(line) for line in did[:MAX_DID]] if isinstance(did, list) else []


def _short(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", str(value)[:MAX_WORDS])


def facts(subject: object, said: Any) -> dict[str, Any]:
    """Facts that can be stored, shown and planned with. HostError names the section that is not as it should be."""
    found = _storable(subject, said)
    if not isinstance(found, dict):
        raise _error(subject, "facts: they are no object")
    for name, kind in _SECTIONS.items():
        if (name in found and not isinstance(found[name], kind)) or (name in _NEEDED and name not in found):
            raise _error(subject, f"facts: {name} is not what it should be: {found.get(name)!r:.80}")
    for name in (name for name, kind in _SECTIONS.items() if kind is list and name in found):
        if not all(isinstance(each, dict) for each in found[name]):
            raise _error(subject, f"facts: {name} is no list of objects")
    for name, text in _cpulists(found):
        _check_cpulist(subject, name, text)
    _check_use(subject, found)
    return found


def _cpulists(found: dict[str, Any]) -> list[tuple[str, Any]]:
    """Every list of cpus that facts hold, by a name for it."""
    cpus, nodes = found["cpus"], found["numa"].get("nodes", [])
    named = [(f"cpus.{name}", cpus[name]) for name in ("online", "allowed", "isolated", "nohz_full") if name in cpus]
    topology, caches = cpus.get("topology", []), cpus.get("caches", [])
    named += [("cpus.topology", each["siblings"]) for each in topology if isinstance(each, dict) and "siblings" in each]
    named += [("cpus.caches", text) for each in caches if isinstance(each, dict) for text in each.get("shared", [])]
    named += [("numa.nodes", each["cpus"]) for each in nodes if isinstance(each, dict) and "cpus" in each]
    return named


def _check_cpulist(subject: object, name: str, text: Any) -> None:
    """HostError for what is no list of cpus, or names more than any machine has: each becomes an object here."""
    try:
        cpulist.parse(text)
    except (ValueError, AttributeError) as error:
        raise _error(subject, f"facts: {name} is no list of cpus: {text!r:.80}") from error


def _check_use(subject: object, found: dict[str, Any]) -> None:
    """HostError for facts that the pages of all hosts could not show."""
    try:
        for use in (topology.line, topology.sockets, topology.nodes_without_cpus, topology.numbering):
            use(found)
        topology.caches(found)
        topology.distances(found)
        changes.lasting(found)
        int(found["memory"]["total_kb"])
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise _error(subject, f"facts: {type(error).__name__}: {error}"[:300]) from error


def _storable(subject: object, said: Any) -> Any:
    """The same JSON without what PostgreSQL's jsonb refuses, and not larger or deeper than any machine needs."""
    left = [MAX_VALUES]

    def clean(value: Any, depth: int) -> Any:
        left[0] -= 1
        if left[0] < 0 or depth > MAX_DEPTH:
            raise _error(subject, f"facts: more than {MAX_VALUES} values, or deeper than {MAX_DEPTH}")
        if isinstance(value, str):
            return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", value[:MAX_TEXT])
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, int):
            return value if abs(value) < 2**63 else None
        if isinstance(value, list):
            return [clean(each, depth + 1) for each in value]
        if isinstance(value, dict):
            return {clean(name, depth): clean(each, depth + 1) for name, each in value.items()}
        return value

    return clean(said, 0)


def _error(subject: object, words: str) -> HostError:
    hint = "the agent there may be damaged, or somebody answers in its place"
    return HostError(subject, f"sent an answer that breaks the rules: {words}", hint=hint)
