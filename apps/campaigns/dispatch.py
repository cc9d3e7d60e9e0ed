"""One tick of one run: claim it, take the machine, submit or adopt it, follow its events, bring in its results.

Every write goes through the claim (`run.mine()`), and nothing here runs inside a transaction that spans the network.
A tick may die at any line: the next one finds the run claimed until a time that passes, and does the same again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents.paths import needed
from agents.protocol import checksum
from apps.accounts import waking
from apps.campaigns import copies, halts, queue, steps
from apps.campaigns.models import Artefact, Campaign, Run, RunEvent, RunPart
from apps.errors import AgentError, PlanError, ProvingError, UnreachableError
from apps.hosts import consents, contact, leases, links, paths, ssh
from apps.hosts.models import Trouble

log = logging.getLogger(__name__)

FOLLOW_S = 25.0
# Renewed while a tick is alive; what a killed worker held is taken over this long after its last sign of life.
CLAIM_S = 15.0
LEASE_S = 120.0
BUSY_RETRY_S = 5.0
UNREACHABLE_RETRY_S = 10.0
RESTART_RETRY_S = 3.0
READ_BYTES = 1 << 20
ARTEFACT_BYTES = 16 << 20
LOOK_S = 1.0  # events are committed, and a cancel is seen, this often

stopping = threading.Event()  # this process ends: ticks let go of their runs, which others take up at once


class ClaimLostError(Exception):
    """Somebody else took over this run: we were asleep for too long."""


def tick(run: Run) -> None:
    """Do what is due on one run, for at most FOLLOW_S seconds. Does nothing when it is not due or not free."""
    if not run.claim_tick(CLAIM_S):
        return
    try:
        _work(run)
    except ClaimLostError:
        log.warning("run %s: another worker took over", run.pk)
    except ProvingError as error:
        _put_off(run, error)


def _put_off(run: Run, error: ProvingError) -> None:
    """Nobody is to blame while the run restarts its host; else the host is, or whoever the error names."""
    if _restarting(run):
        queue.rearm(run, RESTART_RETRY_S)
    elif isinstance(error, UnreachableError):
        contact.mark_unreachable(run.host, error)
        _wait(run, error, UNREACHABLE_RETRY_S)
    else:
        _wait(run, error, BUSY_RETRY_S)


def _restarting(run: Run) -> bool:
    """Whether the run has restarted its host, and the time that this may take has not passed."""
    if run.agent_state != "REBOOTING" or run.agent_state_at is None:
        return False
    limit_s = next(step["options"]["limit_s"] for step in run.spec["steps"] if step["name"] == run.step)
    return timezone.now() < run.agent_state_at + timedelta(seconds=limit_s)


def _wait(run: Run, error: ProvingError, seconds: float) -> None:
    """Try again later, and let the run's page say what it waits for."""
    log.warning("run %s: %s", run.pk, error)
    run.mine().update(error=error.as_dict())
    queue.rearm(run, seconds)


def _work(run: Run) -> None:
    host = run.host
    if run.state == Run.State.QUEUED and queue.hindrance(host, run, timezone.now()):
        run.mine().update(next_tick_at=None, claimed_until=None)
        return
    if run.campaign.state == Campaign.State.PAUSED and run.state == Run.State.QUEUED:
        halts.give_back(run)
        run.mine().update(next_tick_at=None, claimed_until=None)
        return
    if run.parts.exists():
        from apps.campaigns import parts  # it is made of what stands here

        parts.work(run)
        return
    if leases.acquire(host.machine_id, run.pk, LEASE_S) is None:
        queue.rearm(run, BUSY_RETRY_S)
        return
    with links.link(host) as link:
        contact.record_contact(host, link.hello)
        _forget_ended(link)
        if not _submit(run, link):
            return
        if _follow(run, link):
            _collect(run, link)
        else:
            queue.rearm(run, 0)


def _submit(run: Run, link: ssh.Link) -> bool:
    """Hand the run to the agent, or find it there. False when it ended instead."""
    machine_id = run.host.machine_id
    try:
        if run.state == Run.State.QUEUED:
            consents.check(run.host, run.spec["target"])
            paths.check(run.host, needed(steps.paths(run.spec["steps"]), run.spec.get("allowed_paths", [])))
        if run.state == Run.State.QUEUED and not _begin(run):
            leases.release(machine_id, run.pk)
            return False
        if run.state == Run.State.RUNNING:
            link.call("status", run=str(run.pk))
            return True
        _keep_facts(run, link)
        run.epoch = leases.raise_epoch(machine_id, run.pk, above=link.hello["epoch"])
        link.call("submit", run=str(run.pk), epoch=run.epoch, digest=run.digest, spec=run.spec)
    except PlanError as error:
        _end(run, Run.Outcome.FAILED, error)
        return False
    run.mine().update(state=Run.State.RUNNING, epoch=run.epoch, error=None)
    return True


def _begin(run: Run) -> bool:
    """QUEUED -> SUBMITTING, committed before the agent hears of the run; False when it was cancelled meanwhile, or its
    campaign paused."""
    queued = run.mine().filter(state=Run.State.QUEUED).exclude(campaign__state=Campaign.State.PAUSED)
    begun = queued.update(state=Run.State.SUBMITTING, started_at=timezone.now())
    run.refresh_from_db()
    return bool(begun)


def _keep_facts(run: Run, link: ssh.Link) -> None:
    """What the host is when the run starts: it may have changed since the plan. Not of a run that was there before."""
    known = [link.hello["busy"], *link.hello["sealed"]]
    facts = None if str(run.pk) in known else contact.read_facts(run.host, link)
    if facts:
        run.mine().update(facts=facts)


def _keep(run: Run) -> bool:
    """Whether the run is to be cancelled. Renews our claim when a third has passed; ClaimLostError when it is not ours
    any more."""
    seen = run.mine().values_list("claimed_until", "cancel_requested_at").first()
    if seen is None:
        raise ClaimLostError
    now = timezone.now()
    if seen[0] is None or seen[0] < now + timedelta(seconds=CLAIM_S * 2 / 3):
        run.mine().update(claimed_until=now + timedelta(seconds=CLAIM_S))
    return seen[1] is not None


def _follow(run: Run, link: ssh.Link) -> bool:
    """Commit events as they come. True when the run is sealed and all its events are here."""
    deadline = time.monotonic() + FOLLOW_S
    told = False
    while time.monotonic() < deadline and not stopping.is_set():
        if _keep(run) and not told:
            link.call("cancel", run=str(run.pk))
            told = True
        asked: dict[str, Any] = {
            "run": str(run.pk),
            "path": "events.ndjson",
            "offset": run.events_offset,
            "limit": READ_BYTES,
        }
        chunk = link.call("read", **asked, wait_s=LOOK_S, gather=True)
        data = base64.b64decode(chunk["data"])
        if data:
            _store(run, data)
        if chunk["sealed"] and run.events_offset >= chunk["size"]:
            return True
    return False


def _store(run: Run, data: bytes) -> None:
    """Commit the whole lines of `data` and how far they reach, together: a line read twice is stored once."""
    whole = data[: data.rfind(b"\n") + 1]
    lines = whole.splitlines()
    events = [event for event in (_event(run, line) for line in lines) if event]
    with transaction.atomic():
        stored = run.mine().select_for_update().values_list("last_seq", flat=True).first()
        if stored is None:
            raise ClaimLostError
        RunEvent.objects.bulk_create([event for event in events if event.seq > stored])
        run.events_offset += len(whole)
        run.events_damaged += len(lines) - len(events)
        run.last_seq = max([stored, *(event.seq for event in events)])
        for event in events:
            if event.kind == "state":
                run.agent_state, run.step = event.data["state"], event.data.get("step") or ""
                run.agent_state_at = timezone.now()  # by our clock: the host's may be set meanwhile
        copies.learn(run, [event.data for event in events if event.kind == "dataset"])
        told = ["events_offset", "events_damaged", "last_seq", "agent_state", "agent_state_at", "step"]
        run.save(update_fields=told)


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(line)
        return record if record["crc"] == checksum(record) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _event(run: Run, line: bytes) -> RunEvent | None:
    """None for a line that is damaged on the host's disk, as it would be at each further look."""
    record = _record(line)
    if record is None:
        log.warning("run %s: a damaged event on %s: %r", run.pk, run.host, line[:80])
        return None
    at = datetime.fromtimestamp(record["wall"], UTC)
    return RunEvent(run=run, seq=record["seq"], at=at, kind=record["kind"], data=record["data"])


def _collect(run: Run, link: ssh.Link) -> None:
    """Fetch the manifest and the files it names, commit the end of the run, and only then let the agent forget it."""
    sealed = _fetch(run, link, "manifest.json", ARTEFACT_BYTES)
    manifest = json.loads(sealed)
    artefacts = []
    for file in manifest["files"]:
        _keep(run)
        artefacts.append(_artefact(run, link, file))
    with transaction.atomic():
        if run.mine().select_for_update().first() is None:
            raise ClaimLostError
        Artefact.objects.bulk_create(artefacts)
        _close(run, *_ending(run, manifest), manifest)
    _forget(link, str(run.pk), sealed)


def _ending(run: Run, manifest: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """(outcome, error). A run whose events are damaged has failed: what is left of it makes no result."""
    lost = max(run.events_damaged, manifest["last_seq"] - run.last_seq)
    if not lost:
        return manifest["outcome"], manifest["error"]
    words = f"{manifest['last_seq']} events were told, and {manifest['last_seq'] - lost} are whole"
    error = AgentError(f"agent on {run.host}", words, hint="look after the disk that holds its spool; run it again")
    return Run.Outcome.FAILED, error.as_dict()


def _forget(link: ssh.Link, run_id: str, sealed: bytes) -> None:
    """Let the agent delete what we have. Where this fails, the next contact does it; the run has ended all the same."""
    try:
        link.call("ack", run=run_id, manifest=hashlib.sha256(sealed).hexdigest())
        if json.loads(sealed)["clean"]:
            link.call("purge", run=run_id)
    except ProvingError as error:
        log.warning("run %s stays in the spool: %s", run_id, error)


def _forget_ended(link: ssh.Link) -> None:
    """Runs whose worker died between its commit and its word to the agent; only where the manifests are equal."""
    known = {"pk__in": link.hello["sealed"], "manifest__clean": True}
    for run in [*Run.objects.filter(**known), *RunPart.objects.filter(**known)]:
        sealed = _fetch(run, link, "manifest.json", ARTEFACT_BYTES)
        if json.loads(sealed) == run.manifest:
            _forget(link, str(run.pk), sealed)


def _artefact(run: Run, link: ssh.Link, file: dict[str, Any]) -> Artefact:
    return Artefact(run=run, **_kept(run, link, file))


def _kept(run: Run | RunPart, link: ssh.Link, file: dict[str, Any]) -> dict[str, Any]:
    """A file of the manifest with its content, but for a large one."""
    kept = {name: file[name] for name in ("path", "size", "sha256")}
    if file["size"] <= ARTEFACT_BYTES:
        kept["content"] = _fetch(run, link, file["path"], file["size"])
        if hashlib.sha256(kept["content"]).hexdigest() != file["sha256"]:
            raise AgentError(f"agent on {run.host}", f"{file['path']} arrived damaged", hint="it is fetched again")
    return kept


def _fetch(run: Run | RunPart, link: ssh.Link, path: str, limit: int) -> bytes:
    parts = bytearray()
    while True:
        chunk = link.call("read", run=str(run.pk), path=path, offset=len(parts), limit=READ_BYTES, wait_s=0)
        parts += base64.b64decode(chunk["data"])
        if len(parts) >= min(chunk["size"], limit):
            return bytes(parts)


def _end(run: Run, outcome: str, error: ProvingError) -> None:
    with transaction.atomic():
        if run.mine().select_for_update().first() is None:
            raise ClaimLostError
        _close(run, outcome, error.as_dict(), None)


def _close(run: Run, outcome: str, error: dict[str, Any] | None, manifest: dict[str, Any] | None) -> None:
    """The end of a run, in the caller's transaction: its outcome, the machine free again, the next run armed."""
    run.state, run.outcome, run.error, run.manifest = Run.State.ENDED, outcome, error, manifest
    run.ended_at, run.next_tick_at, run.claimed_until = timezone.now(), None, None
    run.save(update_fields=["state", "outcome", "error", "manifest", "ended_at", "next_tick_at", "claimed_until"])
    leases.release(run.host.machine_id, run.pk)
    if manifest:
        _report(run, manifest)
    halts.after(run)
    queue.close_campaign(run.campaign_id)
    queue.arm_host(run.host_id)
    run_id = str(run.pk)
    transaction.on_commit(lambda: waking.send("results.ingest", run_id))


def _report(run: Run | RunPart, manifest: dict[str, Any]) -> None:
    """What people have to know of the host: values that others changed meanwhile, and whatever was not put back."""
    if manifest["conflicts"]:
        contact.report(run.host, run.pk, Trouble.Kind.CONFLICT, manifest["conflicts"])
    if not manifest["clean"]:
        keys = _left(run)
        unproven = (manifest["error"] or {}).get("unproven") or []
        problems = [each for each in unproven if not any(left["key"] in each for left in keys)]
        contact.report(run.host, run.pk, Trouble.Kind.DIRTY, keys, problems)
        what = ", ".join([*(each["key"] for each in keys), *([] if keys else problems)]) or "see its manifest"
        contact.quarantine(run.host, f"run {run.pk} could not put back: {what}")


def _left(run: Run | RunPart) -> list[dict[str, Any]]:
    """The values that are neither the original nor somebody else's, from the proofs of the restore."""
    writes = {data["key"]: data["wanted"] for data in run.events.filter(kind="write").values_list("data", flat=True)}
    restored = run.events.filter(kind="proof", data__phase="restored", data__ok=False).values_list("data", flat=True)
    return [
        {
            "key": data["subject"],
            "original": data["wanted"],
            "ours": writes.get(data["subject"]),
            "found": data["found"],
        }
        for data in restored
        if not data["evidence"].get("conflict")
    ]
