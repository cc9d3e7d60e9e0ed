"""The restart of its host that a run has under way."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from agents.wire.protocol import REBOOT
from apps.campaigns.models import Run


@dataclass(frozen=True)
class Restart:
    """A restart of the host by a step of the run, and until when the host has to be back."""

    limit_s: int
    ends: datetime

    @property
    def is_in_time(self) -> bool:
        return timezone.now() < self.ends


def of_run(run: Run) -> Restart | None:
    """The restart that is under way, even if it takes too long."""
    if run.agent_state != "REBOOTING" or run.agent_state_at is None:
        return None
    limits = (
        step["options"]["limit_s"]
        for step in run.spec["steps"]
        if step["name"] == run.step and step["kind"] == REBOOT  # a host may name any step
    )
    limit_s = next(limits, 0)
    return Restart(limit_s, run.agent_state_at + timedelta(seconds=limit_s)) if limit_s else None
