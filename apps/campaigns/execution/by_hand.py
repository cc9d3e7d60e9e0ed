"""Parameters that a user has to change by hand on a remote server, while a run waits for them."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from apps.accounts.notices.notify import notify
from apps.campaigns.models import Run

WAITING = "WAITING"  # the state of the agent
MAX_LISTED, MAX_LINE = 50, 300  # changes in a notification, and characters of each


def changes(run: Run) -> list[str]:
    """The remaining changes, such as "shared_buffers = 8GB (is 128MB)"; [] if the run does not wait."""
    return _newest(run) if run.agent_state == WAITING and run.state == Run.State.RUNNING else []


def notify_waiting(run: Run) -> None:
    """Call it in the transaction that stores the events. A run waits at most once: a host that reports it again sends
    no more notifications."""
    if run.event_log.filter(kind="state", data__state=WAITING).count() > 1:
        return
    remaining = [line[:MAX_LINE] for line in _newest(run)]
    if len(remaining) > MAX_LISTED:
        remaining = [*remaining[:MAX_LISTED], f"and {len(remaining) - MAX_LISTED} more"]
    payload = {
        "text": f"Run {run.position + 1} waits until these parameters are in effect:\n\n" + "\n".join(remaining),
        "path": reverse("run_detail", args=[run.pk]),
        "campaign": str(run.campaign_id),
        "run": str(run.pk),
        "host": run.host.name,
        "changes": remaining,
    }
    notify("run.waiting", f"{run.campaign} waits for a change by hand", payload, about=[run])


def _newest(run: Run) -> list[str]:
    event = run.event_log.filter(kind="waiting").order_by("-seq").first()
    return [_line(change) for change in event.data["changes"]] if event else []


def _line(change: dict[str, Any]) -> str:
    pending = ", restart pending" if change["pending_restart"] else ""
    return f"{change['name']} = {change['wanted']} (is {change['found']}{pending})"
