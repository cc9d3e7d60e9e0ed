"""Boot a host with another command line or kernel: kexec or an entry of the boot loader before a run, an ordinary
restart after it. The default entry of the boot loader is never changed, and it starts ours once. So after a panic or
any other restart, the host has its own command line and kernel. After a power cut before the boot loader has started,
that is the second start at the latest.

journal.py describes the entries boot, booted and leaving.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterator, NoReturn, Optional

from ..errors import HostFailure, Interrupted, NotApplied
from ..facts import full
from ..facts.boot import KEXEC_LOADED
from ..facts.boot import boot as boot_facts
from ..host import cmdline, owned
from ..host.cmdline import FILE
from ..host.loaders import LOADERS
from ..host.loaders.base import Loader
from ..host.system import NO_KEXEC, System
from ..records import contact
from ..records.journal import Journal
from ..records.spool import Record
from ..settings.base import Plan, kexec
from ..settings.kernel_command_line import BOOT_LIMIT_S, CONTACT_LIMIT_S, NAME
from ..settings.proofs.kernel_command_line import RELEASE, VERSION
from . import units

if TYPE_CHECKING:
    from ..run.running import Run

Emit = Callable[[str, Record], None]

POLL_S = 0.1
MOST_RESTARTS = 4  # of one run, until the host counts as not restored
_FIELDS = (
    *("setting", "key", "original", "wanted", "version", "release", "kernel"),
    *("way", "environment", "mark", "before", "facts"),
)


def begin(run: Run, plans: dict[str, Plan]) -> None:
    """Boot with the command line and kernel that the run requests, unless the host has them. Before that boot, this
    process ends with SystemExit. In it, the call returns once the server has connected."""
    plan = plans[NAME].boot if NAME in plans else {}
    entry = run.journal.unfinished("boot", "booted")
    if entry is None and plan and not _is_running(run.system, plan):
        _leave(run, plan)
    if entry is not None:
        disarm(run.journal)
        _check_arrived(run, entry)
        run.scene.notes[NAME] = {**entry, "boot_id": _boot_before(entry)}
        _await_server(run)


def _is_running(system: System, plan: dict[str, Any]) -> bool:
    release = system.text(RELEASE)
    return bool(plan["line"] == system.text(FILE) and plan.get("release", release) == release)


def facts_for_plan(journal: Journal, facts: Record) -> Record:
    """The facts with which a run is planned. In its boot, the host needs no way to boot any more, and its other kernel
    may lack kexec: there, these facts are those of the host's own kernel."""
    entry = journal.unfinished("boot", "booted") or {}
    return {**facts, "boot": entry["facts"]["boot"]} if "facts" in entry else facts


def _leave(run: Run, plan: dict[str, Any]) -> NoReturn:
    system = run.system
    if not units.installed(run.spool):
        hint = "install them on the host's page: only they can restore the host by themselves"
        raise HostFailure("the systemd units are not installed on this host", hint)
    if system.text(KEXEC_LOADED) == "1":
        raise HostFailure("another program has loaded a kernel for kexec", "unload it: kexec -u")
    original, version = system.text(FILE), system.text(VERSION)
    mark = cmdline.mark(run.job.run)
    plan = {**plan, "line": cmdline.changed(plan["line"], [mark])}
    way, loader = plan["way"], LOADERS.get(plan["way"])
    variable = loader.variable(plan) if loader else ""
    values = {"original": original, "wanted": plan["line"], "version": version, "release": system.text(RELEASE)}
    values["kernel"] = plan.get("release", values["release"])
    boots = {"way": way, "environment": variable, "mark": mark, "before": system.boot_id()}
    run.journal.note("boot", setting=NAME, key=FILE, **values, **boots, facts=full(system))
    if loader:
        _write_entry(run, plan, loader, variable)
    else:
        hint = "try the command on the host; lockdown and Secure Boot accept only a signed kernel"
        system.command(kexec(plan)[0], hint)
    limit_s = float(run.settings[NAME].get("boot_limit_s", BOOT_LIMIT_S))
    run.enter("REBOOTING", index=-1, limit_s=limit_s)
    if loader:
        system.restart_cold()
    else:
        system.command(kexec(plan)[1], "see journalctl -b")
    deadline = system.mono() + limit_s
    while system.mono() < deadline:
        if run.stopped:  # the shutdown's own SIGTERM
            raise SystemExit(0)
        system.sleep(POLL_S)
    raise HostFailure(f"the host did not go down within {limit_s:g} s", "check its console")


def _write_entry(run: Run, plan: dict[str, Any], loader: Loader, variable: str) -> None:
    """Let the boot loader start the entry of the run in the next boot. The variable comes last: without it, the entry
    does not count."""
    problem = boot_facts(run.system)[loader.section]["problem"]  # the facts of the plan may be older
    if problem:
        raise HostFailure(f"{loader.title} cannot start an entry once: {problem}", "check the host")
    loader.check_free(variable)
    text = loader.entry(plan, run.job.run)
    run.journal.put_file(NAME, loader.file(plan), text, in_place=loader.in_place)
    loader.arm(variable, run.job.run)


def disarm(journal: Journal) -> list[str]:
    """Ensure that the boot loader does not start the entry of the run another time. Returns what failed."""
    entry = journal.unfinished("boot", "booted")
    try:
        if entry and entry.get("environment"):
            LOADERS[entry["way"]].disarm(entry["environment"])
    except OSError as error:
        return [str(error)]
    return []


def movable(entry: Record) -> Record:
    """The fields of an entry that another journal takes over, with the boot itself."""
    return {name: entry[name] for name in _FIELDS}


def _boot_before(entry: Record) -> str:
    """The id of the boot in which the host had its own command line. That of an older agent's entry is the record's."""
    return str(entry.get("before", entry["boot_id"]))


def _check_arrived(run: Run, entry: Record) -> None:
    command_line = run.system.text(FILE)
    if not is_in_effect(run.system, run.journal) or _boot_before(entry) == run.system.boot_id():
        hint = "the kernel panicked, the power failed, or the boot failed: see journalctl -b -1 and the host's console"
        raise NotApplied(NAME, entry["wanted"], command_line, hint)


def _await_server(run: Run) -> None:
    """Wait until the server has connected in this boot. Interrupted after the limit, so that a host without network is
    restored."""
    limit_s = float(run.settings[NAME].get("contact_limit_s", CONTACT_LIMIT_S))
    deadline = run.system.mono() + limit_s
    while contact.newest_boot(run.spool) != run.system.boot_id():
        run.check()
        if run.system.mono() > deadline:
            raise Interrupted(
                f"the server did not connect within {limit_s:g} s after the boot",
                "check whether the host's network works with these parameters",
            )
        run.system.sleep(POLL_S)


def is_in_effect(system: System, journal: Journal) -> bool:
    """Whether the host has the command line of the run, which only a restart restores. Only the mark is compared,
    because firmware and tools may add parameters."""
    entry = journal.unfinished("boot", "booted")
    marks = cmdline.parameters(system.text(FILE))
    return entry is not None and entry.get("mark", cmdline.mark(journal.run)) in marks


def restore(system: System, journal: Journal, emit: Emit) -> tuple[list[Record], list[str]]:
    """Verify that the host has its own command line and kernel again. Returns (conflicts, what is not restored).
    HostFailure if a loaded kernel cannot be unloaded."""
    entry = journal.unfinished("boot", "booted")
    if entry is None:
        return recorded_conflicts(journal), []
    command_line = system.text(FILE)
    if is_in_effect(system, journal):
        return [], [f"the host still has the command line of the run: {command_line}"]
    if _boot_before(entry) == system.boot_id() and system.text(KEXEC_LOADED) == "1":
        system.command(["kexec", "-u"], "unload the kernel: kexec -u")
    if recorded_ending(journal) or entry.get("environment"):
        owned.remove(NO_KEXEC)  # kexec-tools did not, if the power failed
    values = list(compared(system, entry))
    conflicts = [each for each in values if each["found"] != each["original"]]
    journal.note("booted", of=entry["seq"], found=command_line, conflicts=conflicts)
    boots = {"boot_id": system.boot_id(), "boot_id_before": _boot_before(entry)}
    for each in values:
        is_own = each not in conflicts
        proof = {"subject": each["key"], "wanted": each["original"], "found": each["found"], "ok": is_own}
        evidence = {"source": each["key"], **boots, "conflict": not is_own}
        emit("proof", {"setting": NAME, "phase": "restored", **proof, "evidence": evidence})
    return conflicts, []


def recorded_conflicts(journal: Journal) -> list[Record]:
    """Those of a restore after which this program was killed, before it sealed the run."""
    booted = [record for record in journal.records if record["entry"] == "booted"]
    return list(booted[-1].get("conflicts", [])) if booted else []


def compared(system: System, entry: Record) -> Iterator[Record]:
    """The command line, release and build of the host's kernel before the run, of the run, and now."""
    yield {"key": FILE, "original": entry["original"], "ours": entry["wanted"], "found": system.text(FILE)}
    if "kernel" not in entry:  # an older agent began the run
        return
    release = system.text(RELEASE)
    yield {"key": RELEASE, "original": entry["release"], "ours": entry["kernel"], "found": release}
    if release == entry["release"]:  # another release is always another build
        yield {"key": VERSION, "original": entry["version"], "ours": entry["version"], "found": system.text(VERSION)}


def may_restart(journal: Journal) -> bool:
    return len([record for record in journal.records if record["entry"] == "leaving"]) < MOST_RESTARTS


def leave(system: System, journal: Journal, ending: Record, enter: Callable[[float], None]) -> None:
    """Restart the host after a run; recovery seals the run in the next boot. `ending`: {"outcome", "error",
    "conflicts", "extra": timings} of the run. `enter` records the state REBOOTING, with the seconds that the host has
    for it. HostFailure if the host refuses."""
    entry = journal.unfinished("boot", "booted")
    assert entry is not None  # noqa: S101 - the caller has checked is_in_effect
    journal.note("leaving", of=entry["seq"], **ending)
    enter(BOOT_LIMIT_S)
    system.restart_cold()


def recorded_ending(journal: Journal) -> Optional[Record]:
    """How the run ended before it restarted the host; None if it did not. Of several restarts, the first counts."""
    return next((record for record in journal.records if record["entry"] == "leaving"), None)
