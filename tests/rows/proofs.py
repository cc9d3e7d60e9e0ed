"""Proofs and problems of runs: evidence, drift, a conflict, a value that was not restored."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from apps.campaigns.models import Run, RunEvent
from apps.hosts import contact
from apps.hosts.models import Trouble

SWAPPINESS = {"setting": "sysctl", "key": "/proc/sys/vm/swappiness", "original": "60", "wanted": "1", "found": "1"}
POOL = {"setting": "huge_pages", "key": "/proc/sys/vm/nr_hugepages", "original": "0", "wanted": "2150", "found": "2150"}


def record_proofs(run: Run) -> None:
    """Proofs of a run with every kind of setting: tables per process and node, kernel values, all restored."""
    base = {"setting": "huge_pages", "phase": "before", "ok": True}
    pages = {"HugePages_Total": 2150, "HugePages_Free": 12, "HugePages_Rsvd": 9, "HugePages_Surp": 0}
    smaps = {"source": "/proc/PID/smaps, /proc/meminfo", "pid": 4711, **pages}
    maps = {"shared": {"0": 2_202_009, "1": 2_198_000}, "private": {"0": 18_204, "1": 16_112}}
    backend = {"source": "/proc/PID/numa_maps", "pid": 4732, "kb_per_node": maps}
    numa = {"setting": "numa", "wanted": "interleave:0-1", "found": "interleave:0-1", "ok": True}
    row = {"setting": "1048576", "unit": "8kB", "vartype": "integer", "show": "8GB", "pending_restart": False}
    lines = [
        {"file": "/var/lib/x/ours.conf", "name": "shared_buffers", "setting": "8GB", "applied": True, "error": None}
    ]
    settings = {"source": "pg_settings, pg_file_settings", "pg_settings": row, "file": lines}
    processes = [{"pid": 4711 + n, "name": "postgres", "cpus": "0-3", "last_cpu": n % 4} for n in range(24)]
    server = {"source": "Cpus_allowed_list of /proc/PID/status", "processes": processes}
    proofs = [
        {**base, "subject": "page size of the shared memory (kB)", "wanted": 2048, "found": 2048, "evidence": smaps},
        {**base, "subject": "huge_pages_status", "wanted": "on", "found": "on", "evidence": {"source": "pg_settings"}},
        {**numa, "phase": "before", "subject": "postmaster", "evidence": backend},
        {**numa, "phase": "during", "subject": "backend", "evidence": backend},
        {**base, "setting": "postgresql", "subject": "shared_buffers", "wanted": "8GB", "found": "8GB",
         "evidence": settings},
        {**base, "setting": "cpu_affinity", "phase": "during", "subject": "client: every process and thread",
         "wanted": "0-3", "found": "0-3", "evidence": server},
    ]  # fmt: skip
    requested = {"huge_pages": {"use": "on"}, "numa": {"policy": "interleave", "nodes": "all"}}
    run.spec = {**run.spec, "settings": {**run.spec["settings"], **requested, "postgresql": {"shared_buffers": "8GB"}}}
    run.save()
    _tell(run, *(("proof", proof) for proof in proofs), ("write", POOL), ("proof", _restored(POOL, "0")))


def _restored(write: dict[str, Any], actual: str, **evidence: Any) -> dict[str, Any]:
    proof = {"setting": write["setting"], "phase": "restored", "subject": write["key"], "wanted": write["original"]}
    details = {"conflict": False, "problems": [], **evidence}
    return {**proof, "found": actual, "ok": actual == write["original"], "evidence": details}


def _tell(run: Run, *events: tuple[str, dict[str, Any]]) -> None:
    """Further events, after those that are there."""
    at, seq = run.ended_at or timezone.now(), run.last_seq
    rows = [RunEvent(run=run, seq=seq + n, at=at, kind=kind, data=data) for n, (kind, data) in enumerate(events, 1)]
    RunEvent.objects.bulk_create(rows)
    run.last_seq += len(rows)
    run.save(update_fields=["last_seq"])


def conflicted(run: Run) -> Trouble:
    """Somebody set vm.swappiness while it was measured."""
    _tell(run, ("write", SWAPPINESS), ("proof", _restored(SWAPPINESS, "10", conflict=True)))
    keys = [{"key": SWAPPINESS["key"], "original": "60", "ours": "1", "found": "10"}]
    run.manifest = {**run.manifest, "conflicts": keys}
    run.save()
    contact.report_trouble(run.host, run.pk, Trouble.Kind.CONFLICT, keys)
    return Trouble.objects.get(run=run.pk)


def drifted(run: Run) -> None:
    """A proof that is in effect before the load and not afterwards."""
    source = {"source": "/sys/kernel/mm/transparent_hugepage/enabled"}
    base = {"setting": "transparent_huge_pages", "subject": source["source"], "wanted": "never", "evidence": source}
    run.spec = {**run.spec, "settings": {"transparent_huge_pages": {"enabled": "never"}}}
    run.error = {
        **run.error,
        "message": "transparent_huge_pages is not in effect",
        "wanted": "never",
        "found": "always",
    }
    run.save()
    run.events.filter(kind="proof").delete()
    _tell(
        run,
        ("proof", {**base, "phase": "before", "found": "never", "ok": True}),
        ("proof", {**base, "phase": "after", "found": "always", "ok": False}),
    )


def dirty(run: Run) -> Trouble:
    """Its pool of huge pages did not go back; the host is quarantined."""
    _tell(run, ("write", POOL), ("proof", _restored(POOL, "1871")))
    run.manifest = {**run.manifest, "clean": False}
    run.save()
    keys = [{"key": POOL["key"], "original": "0", "ours": "2150", "found": "1871"}]
    contact.report_trouble(run.host, run.pk, Trouble.Kind.DIRTY, keys, ["postmaster (pid 4711) is still running"])
    contact.quarantine(run.host, f"run {run.pk} could not restore: {POOL['key']}")
    return Trouble.objects.get(run=run.pk)
