"""The end of a run in the tables: its outcome, the release of its machine, and the problems of its host.

A run that its agent does not end is given up by a user, or abandoned by the server: it fails, and its hosts are
quarantined.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.accounts.services import audit, require
from apps.campaigns.execution import campaign_end, halts, queue
from apps.campaigns.models import Campaign, Run, RunPart
from apps.hosts import contact
from apps.hosts.models import Trouble
from apps.hosts.usage import leases
from apps.infrastructure import waking
from common.errors import AgentError, PlanError, ProvingError

MAX_WRITES = 10_000  # of a run that are read
READ_AFTER_S = 1.0  # the next run of the host starts first; results can wait
HINT = "check what the run changed on the host, then release the host"


def close(run: Run, outcome: str, error: dict[str, Any] | None, manifest: dict[str, Any] | None) -> bool:
    """End a run in the caller's transaction: store its outcome, release its machine, arm the next run. Returns whether
    there is one."""
    run.state, run.outcome, run.error, run.manifest = Run.State.ENDED, outcome, error, manifest
    run.ended_at, run.next_tick_at, run.claimed_until = timezone.now(), None, None
    run.save(update_fields=["state", "outcome", "error", "manifest", "ended_at", "next_tick_at", "claimed_until"])
    leases.release(run.host.machine_id, run.pk)
    if manifest:
        report_problems(run, manifest)
    halts.after(run)
    campaign_end.close_campaign(run.campaign_id)
    armed = queue.arm_host(run.host_id)
    run_id, after_s = str(run.pk), READ_AFTER_S if armed else 0
    transaction.on_commit(lambda: waking.send("results.ingest", run_id, after_s=after_s))
    return armed


def report_problems(run: Run | RunPart, manifest: dict[str, Any]) -> None:
    """The problems of the host to report: values that others changed meanwhile, and values that were not restored."""
    if manifest["conflicts"]:
        contact.report_trouble(run.host, run.pk, Trouble.Kind.CONFLICT, manifest["conflicts"])
    if not manifest["clean"]:
        keys = _left(run)
        unproven = (manifest["error"] or {}).get("unproven") or []
        problems = [key for key in unproven if not any(left["key"] in key for left in keys)]
        contact.report_trouble(run.host, run.pk, Trouble.Kind.DIRTY, keys, problems)
        what = contact.first_names([key["key"] for key in keys] or problems) or "see its manifest"
        contact.quarantine(run.host, f"run {run.pk} could not restore: {what}")


@transaction.atomic
def give_up_run(run: Run, *, by: User) -> None:
    """End a run that its agent does not end. PlanError if it still waits or has ended."""
    require(by, Role.OPERATOR, "give up run", on=run.campaign)
    state = Run.objects.values_list("state", flat=True).get(pk=run.pk)
    if state not in (Run.State.SUBMITTING, Run.State.RUNNING):
        raise PlanError("state", f"{run} is {state}", hint="only an active run can be given up; cancel a queued one")
    abandon(run, AgentError(f"agent on {run.host}", f"{by} gave up the run before it ended", hint=HINT))
    audit(by, "run.give_up", run, after={"id": str(run.pk), "campaign": str(run.campaign_id), "run": run.position + 1})
    run.refresh_from_db()


@transaction.atomic
def abandon(run: Run, error: ProvingError, *, at_fault: str = "") -> None:
    """End a run as failed, without its manifest. A tick that works on it loses its claim. `at_fault`: the name of the
    host that prevented its start. Only this one is quarantined, because no agent knows the run."""
    Campaign.objects.select_for_update().get(pk=run.campaign_id)
    run = Run.objects.select_for_update(of=("self",)).select_related("host", "campaign").get(pk=run.pk)
    if run.state == Run.State.ENDED:
        return
    Run.objects.filter(pk=run.pk).update(claim=None)
    failed = {"state": RunPart.State.ENDED, "outcome": RunPart.Outcome.FAILED, "error": error.as_dict()}
    parts = list(run.parts.exclude(state=RunPart.State.ENDED).select_related("host"))
    for part in parts:
        RunPart.objects.filter(pk=part.pk).update(**failed)
        leases.release(part.host.machine_id, part.pk)
    reason = f"run {run.pk} ended without a report of its changes: {error.message}"
    if at_fault:
        reason = f"run {run.pk} could not start: {error.message}"
    for host in [run.host, *(part.host for part in parts)]:
        if not at_fault or host.name == at_fault:
            contact.quarantine(host, reason)
    close(run, Run.Outcome.FAILED, error.as_dict(), None)


def _left(run: Run | RunPart) -> list[dict[str, Any]]:
    """Return the values that are neither the original nor set by another program, from the proofs of the restore. At
    most as many as are stored, because a host may send thousands."""
    restored = run.event_log.filter(kind="proof", data__phase="restored", data__ok=False)
    by_others = {"evidence": {"conflict": True}}  # many proofs have no `conflict`, and a path to it would be NULL
    ours = restored.exclude(data__contains=by_others).order_by("seq").values_list("data", flat=True)
    proofs = list(ours[: contact.MAX_TROUBLE_KEYS])
    written = run.event_log.filter(kind="write", data__key__in=[data["subject"] for data in proofs]).order_by("seq")
    writes = {data["key"]: data["wanted"] for data in written.values_list("data", flat=True)[:MAX_WRITES]}
    return [
        {
            "key": data["subject"],
            "original": data["wanted"],
            "ours": writes.get(data["subject"]),
            "found": data["found"],
        }
        for data in proofs
    ]
