"""A boot that a run leaves to the next run with the same kernel parameters, so that both need two restarts together.

While no run has the boot, boot.json in the spool has what the journal's entry had. The next run takes it when it is
submitted. If none does in KEEP_S, the guard restarts the host. So does the server if no run follows, and any other run
that is submitted, which then waits.
"""

from __future__ import annotations

from typing import Any, Optional

from ..errors import HostFailure, PlanFailure, is_full
from ..facts import full
from ..host import cmdline, owned
from ..host.system import NO_KEXEC, System
from ..records.journal import Journal
from ..records.spool import Job, Record, Spool, load, replace, sync_dir
from ..settings import SETTINGS
from ..settings.kernel_command_line import NAME
from ..wire import protocol
from . import boot, units

KEEP_S = 300.0
GOES_DOWN_S = 300.0  # after that, a restart that was asked for is asked for again
FILE = "boot.json"
Facts = dict[str, Any]


def leave(spool: Spool, job: Job, journal: Journal, keep_s: float = KEEP_S) -> bool:
    """Take the boot out of the journal of a run that no longer needs it. False if the host cannot keep it."""
    entry, system = journal.unfinished("boot", "booted"), spool.system
    if entry is None or not units.installed(spool):
        return False
    here = {"left_by": job.run, "in_boot": system.boot_id(), "until": system.mono() + keep_s, "restarts": []}
    try:
        _store(spool, {**here, "entry": boot.movable(entry), "facts": full(system)})
    except OSError as error:
        if not is_full(error):
            raise
        return False
    journal.note("booted", of=entry["seq"], found=system.text(cmdline.FILE), conflicts=[], kept=True)
    return True


def take(spool: Spool, job: Job) -> bool:
    """Move a boot that suits a new run to its journal. False if there is none."""
    kept = found(spool)
    if kept:
        Journal(job, spool.system).note("boot", **kept["entry"])
        _forget(spool)
    return kept is not None


def give_back(spool: Spool, job: Job) -> bool:
    """End the boot that was taken for a run which did not start. False if only the run's journal can end it."""
    journal = Journal(job, spool.system)
    return not boot.is_in_effect(spool.system, journal) or leave(spool, job, journal, keep_s=0.0)


def found(spool: Spool) -> Optional[Record]:
    """{"left_by": run, "in_boot": id of the boot in which it was left, "until": s of the monotonic clock, "restarts":
    [{"boot_id", "mono"}] that were to end it, "entry": fields of the journal's entry, "facts": of the host in this
    boot}. None if no boot is kept."""
    kept: Optional[Record] = load(spool.root / FILE)
    return kept


def suits(system: System, kept: Record, settings: Record) -> bool:
    """Whether a run with these settings needs exactly this boot."""
    entry = kept["entry"]
    if not settings.get(NAME) or kept["in_boot"] != system.boot_id() or kept["restarts"]:
        return False
    plan = SETTINGS[NAME].plan(entry["facts"], settings[NAME]).boot
    line, kernel = cmdline.changed(plan["line"], [entry["mark"]]), plan.get("release", entry["release"])
    return (line, plan["way"], kernel) == (entry["wanted"], entry["way"], entry["kernel"])


def make_way(spool: Spool, run: str, settings: Record) -> None:
    """Restart a host with another boot than a new run with these settings needs. HostFailure: the run has to wait."""
    kept = found(spool)
    if kept and not suits(spool.system, kept, settings):
        restart(spool, kept)
        message = f"run {run} must wait: the host restarts, because it has kernel parameters of run {kept['left_by']}"
        raise HostFailure(message, "submit it when the host is back")


def check_ended(spool: Spool) -> None:
    """PlanFailure while a boot is kept."""
    kept = found(spool)
    if kept:
        message = f"the host has kernel parameters of run {kept['left_by']} until it restarts"
        raise PlanFailure(message, f"wait {KEEP_S / 60:.0f} minutes")


def own_facts(spool: Spool, facts: Facts) -> Facts:
    """The facts with those of the host's own kernel and command line, for which a run is planned. Facts that have
    changed since the boot was left are the present ones."""
    kept = found(spool)
    if kept is None or not _is_in_effect(spool.system, kept):
        return facts
    merged: Facts = _merged(kept["entry"]["facts"], kept["facts"], facts)
    return {**merged, **{name: facts[name] for name in ("boot_id", "policy") if name in facts}}


def _merged(own: Any, in_boot: Any, present: Any) -> Any:
    """`present`, but `own` where it equals `in_boot`."""
    if present == in_boot:
        return own
    if isinstance(own, dict) and isinstance(in_boot, dict) and isinstance(present, dict):
        shared = own.keys() & in_boot.keys() & present.keys()
        return {**present, **{name: _merged(own[name], in_boot[name], present[name]) for name in shared}}
    lists = isinstance(present, list) and isinstance(own, list) and isinstance(in_boot, list)
    if lists and len(own) == len(in_boot) == len(present):
        return [_merged(*each) for each in zip(own, in_boot, present)]
    return present


def end(spool: Spool) -> list[Record]:
    """Restart a host whose boot no run needs. The caller holds the host lock, and no run is active."""
    kept = found(spool)
    return [restart(spool, kept)] if kept and _is_in_effect(spool.system, kept) else []


def settle(spool: Spool) -> Optional[Record]:
    """End a boot that no run took in time, and verify that the host has its own again. The caller holds the host lock,
    and no run is active. Returns {"run", "state", "step", "clean", "did"} if something was done."""
    kept = found(spool)
    if kept is None:
        return None
    if not _is_in_effect(spool.system, kept):
        if kept["restarts"]:
            owned.remove(NO_KEXEC)  # kexec-tools did not, if the power failed
        _forget(spool)
        return _status(kept, "SEALED", _compared(spool.system, kept["entry"]))
    is_old = spool.system.mono() > kept["until"] or kept["in_boot"] != spool.system.boot_id()
    return restart(spool, kept) if is_old and not _goes_down(spool.system, kept) and not stuck(spool) else None


def restart(spool: Spool, kept: Record) -> Record:
    """Restart the host, which then has its own command line and kernel. HostFailure if it refuses."""
    if not _goes_down(spool.system, kept):
        this = {"boot_id": spool.system.boot_id(), "mono": spool.system.mono()}
        try:
            _store(spool, {**kept, "restarts": [*kept["restarts"], this]})
        except OSError as error:
            if not is_full(error):
                raise
        try:
            spool.system.restart_cold()
        except HostFailure:
            _store(spool, kept)
            raise
    return _status(kept, "REBOOTING", ["restarts the host, because no run needs its kernel parameters"])


def stuck(spool: Spool) -> list[str]:
    """The run whose boot was not ended by MOST_RESTARTS restarts, [] if there is none."""
    kept = found(spool)
    is_stuck = kept and len(kept["restarts"]) >= boot.MOST_RESTARTS and not _goes_down(spool.system, kept)
    return [kept["left_by"]] if kept and is_stuck and _is_in_effect(spool.system, kept) else []


def _goes_down(system: System, kept: Record) -> bool:
    """Whether the restart that was asked for is still under way."""
    last: Record = kept["restarts"][-1] if kept["restarts"] else {}
    return last.get("boot_id") == system.boot_id() and bool(system.mono() - last["mono"] < GOES_DOWN_S)


def _is_in_effect(system: System, kept: Record) -> bool:
    return kept["entry"]["mark"] in cmdline.parameters(system.text(cmdline.FILE))


def _compared(system: System, entry: Record) -> list[str]:
    return [
        f"{each['key']} is {each['found']} again"
        if each["found"] == each["original"]
        else f"{each['key']} is {each['found']}, and was {each['original']}: another user or program changed it"
        for each in boot.compared(system, entry)
    ]


def _status(kept: Record, state: str, did: list[str]) -> Record:
    return {
        "run": kept["left_by"],
        "state": state,
        "step": "",
        "clean": True if state == "SEALED" else None,
        "did": did,
    }


def _store(spool: Spool, kept: Record) -> None:
    replace(spool.root / FILE, protocol.canonical(kept))


def _forget(spool: Spool) -> None:
    (spool.root / FILE).unlink(missing_ok=True)
    sync_dir(spool.root)
