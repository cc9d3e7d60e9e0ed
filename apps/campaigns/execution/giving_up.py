"""A run whose end nobody waits for any more: it fails, its hosts are quarantined, and their queues say why."""

from __future__ import annotations

from django.db import transaction

from apps.accounts.models import Role, User
from apps.accounts.services import audit, require
from apps.campaigns.execution import run_end
from apps.campaigns.models import Campaign, Run, RunPart
from apps.hosts import contact
from apps.hosts.usage import leases
from common.errors import AgentError, PlanError, ProvingError

HINT = "check what the run changed on the host, then release the host"


@transaction.atomic
def give_up_run(run: Run, *, by: User) -> None:
    """End a run that its agent does not end. PlanError for one that still waits, or has ended."""
    require(by, Role.OPERATOR, "give up run", on=run.campaign)
    state = Run.objects.values_list("state", flat=True).get(pk=run.pk)
    if state not in (Run.State.SUBMITTING, Run.State.RUNNING):
        raise PlanError("state", f"{run} is {state}", hint="only an active run can be given up; cancel a queued one")
    abandon(run, AgentError(f"agent on {run.host}", f"{by} gave up the run before it ended", hint=HINT))
    audit(by, "run.give_up", run, after={"id": str(run.pk), "campaign": str(run.campaign_id), "run": run.position + 1})
    run.refresh_from_db()


@transaction.atomic
def abandon(run: Run, error: ProvingError) -> None:
    """End a run as failed, without its manifest. A tick that works on it loses its claim."""
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
    for host in [run.host, *(part.host for part in parts)]:
        contact.quarantine(host, f"run {run.pk} ended without a report of its changes: {error.message}")
    run_end.close(run, Run.Outcome.FAILED, error.as_dict(), None)
