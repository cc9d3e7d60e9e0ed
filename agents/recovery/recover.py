"""Putting the host back: the one path for runs that ended well, failed, were cancelled, or died."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional

from ..errors import Cancelled, Failure, HostFailure
from ..host.system import System
from ..records import processes
from ..records.journal import Journal
from ..records.spool import Job, Record, Spool
from ..wire import protocol
from ..wire.protocol import BOOT
from . import boot, control_group, existing_cluster, reboot, remote_server

Emit = Callable[[str, Record], None]


@dataclass
class Undone:
    """The result of a rollback. Clean: no process of the run lives, every value is the original or another user's.
    `restart`: the host must be restarted to restore its command line."""

    conflicts: list[Record] = field(default_factory=list)
    unproven: list[str] = field(default_factory=list)
    restart: bool = False

    @property
    def clean(self) -> bool:
        return not self.unproven


def make_room(spool: Spool, job: Job, journal: Journal) -> None:
    """End what the run started before anything is put on record: nothing of it fills what the reserve gives."""
    for entry in reversed(journal.open_processes()):
        processes.end(spool.system, entry)
    processes.end_strays(spool.system, job.run, existing_cluster.data_dir(journal))
    spool.sparing = False


def unrecorded(job: Job, system: System, journal: Journal) -> None:
    """Restore the host while the disk has no space for the records. A later recovery verifies the restore."""
    journal.log.mute = True
    undo(job, system, journal, lambda kind, data: None)


def undo(job: Job, system: System, journal: Journal, emit: Emit) -> Undone:
    """End the run's processes (last started first), restore its writes in reverse, prove both.

    An existing cluster that runs with our values is stopped before that, and restored afterwards. A remote server is
    restored last.
    """
    result = Undone()
    cluster = existing_cluster.of(system, journal, emit)
    if journal.damaged:
        result.unproven.append("the journal is damaged")
    for entry in reversed(journal.open_processes()):
        if processes.end(system, entry):
            journal.ended(entry)
        else:
            result.unproven.append(f"{entry['purpose']} (pid {entry['pid']}) is still running")
    left = processes.end_strays(system, job.run, existing_cluster.data_dir(journal))
    result.unproven += [f"{process.name} (pid {process.pid}) is still running" for process in left]
    result.unproven += control_group.remove(system, journal)
    if cluster:
        cluster.before()
    journal.remove_scratch()
    conflicts, unproven = journal.restore()
    result.conflicts += conflicts
    result.unproven += unproven
    if cluster:
        cluster.after()
    for restored in (cluster, remote_server.restore(job, system, journal, emit)):
        if restored:
            result.conflicts += restored.conflicts
            result.unproven += restored.unproven
    for proof in (*_restored(journal, conflicts, unproven), *control_group.proofs(journal)):
        emit("proof", proof)
    _restore_boot(system, journal, emit, result)
    return result


def _restore_boot(system: System, journal: Journal, emit: Emit, result: Undone) -> None:
    problems = boot.disarm(journal)
    result.unproven += problems
    result.restart = boot.is_in_effect(system, journal) and boot.may_restart(journal)
    if not result.restart and not problems:
        try:
            conflicts, unproven = boot.restore(system, journal, emit)
        except HostFailure as failure:
            conflicts, unproven = [], [failure.with_hint]
        result.conflicts += conflicts
        result.unproven += unproven


def _restored(journal: Journal, conflicts: list[Record], unproven: list[str]) -> list[Record]:
    taken = {conflict["key"]: conflict["found"] for conflict in conflicts}
    proofs = []
    for entry in journal.written:
        restored = [r for r in journal.records if r["entry"] == "restored" and r["of"] == entry["seq"]]
        actual = restored[-1]["found"] if restored else "unknown"
        by_restart = bool(restored) and restored[-1].get("by") == "restart"
        proofs.append(
            {
                "setting": entry["setting"],
                "phase": "restored",
                "subject": entry["key"],
                "wanted": entry["original"],
                "found": actual,
                "ok": actual == entry["original"] or by_restart,
                "evidence": {"conflict": entry["key"] in taken, "problems": unproven, "by_restart": by_restart},
            }
        )
    return proofs


def outcome_of(failure: Optional[Failure], undone: Undone) -> Record:
    """A result counts only if the host was restored."""
    if failure is None and undone.clean:
        return {"outcome": "ok", "error": None}
    if isinstance(failure, Cancelled):
        return {"outcome": "cancelled", "error": None}
    failure = failure or HostFailure("the host could not be restored: " + "; ".join(undone.unproven))
    return {"outcome": failure.outcome, "error": {**failure.as_json(), "unproven": undone.unproven}}


def seal(job: Job, agent: str, outcome: Record, undone: Undone, extra: Optional[dict[str, float]] = None) -> Record:
    """Write the manifest, the last thing of a run; `outcome` is {"outcome", "error"}. The restore is in the journal by
    now, so no later one needs the access."""
    if undone.clean:
        job.forget_access()
    order = job.order
    manifest: Record = {
        "run": job.run,
        "digest": order["digest"],
        "agent": agent,
        **outcome,
        "clean": undone.clean,
        "conflicts": undone.conflicts,
        "last_seq": job.last_event().get("seq", 0),
        "timings": {**timings(job.states()), **(extra or {})},
        "files": [_described(job.path, path) for path in _evidence(job.path)],
    }
    job.store("manifest.json", protocol.canonical(manifest))
    return manifest


def timings(states: list[Record]) -> dict[str, float]:
    """Seconds spent in each state; the wall clock stands in where a reboot lies between."""
    spent: dict[str, float] = {}
    for one, following in zip(states, states[1:]):
        clock = "mono" if one["boot_id"] == following["boot_id"] else "wall"
        spent[one["state"]] = round(spent.get(one["state"], 0.0) + following[clock] - one[clock], 4)
    return spent


def _evidence(root: Path) -> list[Path]:
    out = sorted(path for path in (root / "out").rglob("*") if path.is_file() and not path.is_symlink())
    return [root / "job.json", root / "events.ndjson", root / "journal.jsonl", *out]


def _described(root: Path, path: Path) -> Record:
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
                size += len(block)
            os.fsync(file.fileno())
    except FileNotFoundError:
        size = 0
    return {"path": str(path.relative_to(root)), "size": size, "sha256": digest.hexdigest()}


def recover(spool: Spool, job: Job, agent: str) -> None:
    """Roll back and seal a job whose process died, or restart the host first if only that restores it: the next
    recovery then seals the job. The caller holds the host lock. OSError if the disk has no space for the records; the
    host is restored nevertheless."""
    journal = Journal(job, spool.system)
    make_room(spool, job, journal)
    try:
        _recorded(job, spool.system, journal, agent)
    except OSError:
        unrecorded(job, spool.system, journal)
        raise


def _recorded(job: Job, system: System, journal: Journal, agent: str) -> None:
    events, states = job.log("events.ndjson"), job.log("state.jsonl")

    def emit(kind: str, data: Record) -> None:
        events.append({"kind": kind, "data": data})

    decided, given_up, ended = job.last_event(), reboot.verdict(job, system).reason, boot.recorded_ending(journal)
    step = (job.states() or [{"step": ""}])[-1]["step"]
    if decided.get("kind") == "outcome":
        outcome: Record = decided["data"]
        undone = undo(job, system, journal, lambda kind, data: None)
    else:
        _enter(states, emit, "ROLLING_BACK", step)
        undone = undo(job, system, journal, _boot_proofs(emit) if ended else emit)
        outcome = _final_outcome(ended, undone) if ended else _interrupted(job, system, undone, given_up)
        if undone.restart:
            ending = {**outcome, "conflicts": undone.conflicts, "extra": {}}
            return boot.leave(system, journal, ending, lambda limit_s: _enter_restart(states, emit, step, limit_s))
        _enter(states, emit, "CLEAN" if undone.clean else "DIRTY", step)
        emit("outcome", outcome)
    seal(job, agent, outcome, undone, ended["extra"] if ended else None)
    states.append({"state": "SEALED", "step": step})
    return None


def _boot_proofs(emit: Emit) -> Emit:
    """Emits only proofs of the command line: those of the other settings were emitted before the restart."""

    def only(kind: str, data: Record) -> None:
        if data.get("setting") == BOOT:
            emit(kind, data)

    return only


def _final_outcome(ended: Record, undone: Undone) -> Record:
    """The outcome that the run had before it restarted the host; failed if the restart did not restore the host."""
    undone.conflicts[:0] = ended["conflicts"]
    if ended["outcome"] == "ok" and not undone.clean and not undone.restart:
        return outcome_of(None, undone)
    return {"outcome": ended["outcome"], "error": ended["error"]}


def _enter_restart(states: Any, emit: Emit, step: str, limit_s: float) -> None:
    emit("state", {"state": "REBOOTING", "step": step})
    states.append({"state": "REBOOTING", "step": step, "index": -1, "limit_s": limit_s, "is_over": True})


def _interrupted(job: Job, system: System, undone: Undone, given_up: str) -> Record:
    if job.cancelled:
        return {"outcome": "cancelled", "error": None}
    first = (job.states() or [{"boot_id": system.boot_id()}])[0]
    died = "the host was restarted" if first["boot_id"] != system.boot_id() else "its process on the host died"
    reason = given_up or died
    error: dict[str, Any] = Failure("the run was interrupted: " + reason, "start it again").as_json()
    error.update(blame="host", unproven=undone.unproven)
    return {"outcome": "interrupted", "error": error}


def _enter(states: Any, emit: Emit, state: str, step: str) -> None:
    states.append({"state": state, "step": step})
    emit("state", {"state": state, "step": step})


def descriptions(journal: Journal, after: int) -> list[str]:
    """A sentence for each record after seq `after` that ended or restored something."""
    by_seq = {record["seq"]: record for record in journal.records}
    return [
        _description(record, by_seq[record["of"]])
        for record in journal.records
        if record["seq"] > after
        and record["entry"]
        in ("restored", "ended", "removed", "ungrouped", "dropped", "stopped", "owned", "reset", "left", "booted")
    ]


def _description(record: Record, of: Record) -> str:
    if record["entry"] == "ended":
        return f"ended {of['purpose']} (pid {of['pid']})"
    if record["entry"] == "removed":
        return f"removed {of['path']}"
    if record["entry"] == "ungrouped":
        return f"removed the control group {of['path']}"
    if record["entry"] == "dropped":
        return f"dropped the {of['entry']} {of['name']}"
    if record["entry"] == "stopped":
        return "stopped the server that ran with the values of the run"
    if record["entry"] == "booted":
        return f"the command line of the kernel is {_short(record['found'])}"
    if record["entry"] == "left":
        return f"restored the remote server {of['name']}"
    if record["entry"] == "reset":
        state = "left unchanged: another user set it" if record["conflict"] else "restored"
        return f"{of['name']} of the remote server is {state}"
    if record["entry"] == "owned":
        return f"restored the cluster in {of['data_dir']}; it is {of['was']} as before"
    if record.get("by") == "restart":
        return f"{of['key']} reads {_short(record['found'])} since the host was restarted"
    if record["conflict"]:
        return f"left {of['key']} unchanged: another user or program set it to {_short(record['found'])}"
    return f"{of['key']} is restored to {_short(record['found'])}"


def _short(value: Any) -> str:
    """A value, or what a whole file amounts to."""
    if value is None:
        return "absent"
    return str(value) if "\n" not in str(value) else f"a file of {len(str(value))} characters"


def clean_again(spool: Spool, job: Job) -> list[str]:
    """Try again to restore a job that was sealed dirty. Returns what is still not restored; if [], the host is free."""
    undone = undo(job, spool.system, Journal(job, spool.system), lambda kind, data: None)
    if undone.clean:
        job.forget_access()
        job.store("cleaned.json", protocol.canonical({"conflicts": undone.conflicts}))
    return undone.unproven
