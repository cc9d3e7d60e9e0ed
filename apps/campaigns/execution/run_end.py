"""The end of a run in the tables: its outcome, its machine free again, and what people have to know of the host."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts import waking
from apps.campaigns.execution import halts, queue
from apps.campaigns.models import Run, RunPart
from apps.hosts import contact
from apps.hosts.models import Trouble
from apps.hosts.usage import leases

READ_AFTER_S = 1.0  # the next run of the host begins first: its machine waits, and whoever reads results does not


def close(run: Run, outcome: str, error: dict[str, Any] | None, manifest: dict[str, Any] | None) -> None:
    """The end of a run, in the caller's transaction: its outcome, the machine free again, the next run armed."""
    run.state, run.outcome, run.error, run.manifest = Run.State.ENDED, outcome, error, manifest
    run.ended_at, run.next_tick_at, run.claimed_until = timezone.now(), None, None
    run.save(update_fields=["state", "outcome", "error", "manifest", "ended_at", "next_tick_at", "claimed_until"])
    leases.release(run.host.machine_id, run.pk)
    if manifest:
        report(run, manifest)
    halts.after(run)
    queue.close_campaign(run.campaign_id)
    armed = queue.arm_host(run.host_id)
    run_id, after_s = str(run.pk), READ_AFTER_S if armed else 0
    transaction.on_commit(lambda: waking.send("results.ingest", run_id, after_s=after_s))


def report(run: Run | RunPart, manifest: dict[str, Any]) -> None:
    """What people have to know of the host: values that others changed meanwhile, and whatever was not put back."""
    if manifest["conflicts"]:
        contact.report(run.host, run.pk, Trouble.Kind.CONFLICT, manifest["conflicts"])
    if not manifest["clean"]:
        keys = _left(run)
        unproven = (manifest["error"] or {}).get("unproven") or []
        problems = [each for each in unproven if not any(left["key"] in each for left in keys)]
        contact.report(run.host, run.pk, Trouble.Kind.DIRTY, keys, problems)
        what = ", ".join([*(each["key"] for each in keys), *([] if keys else problems)]) or "see its manifest"
        contact.quarantine(run.host, f"run {run.pk} could not restore: {what}")


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
