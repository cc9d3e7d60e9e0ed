"""The jobs of a run and their order: which may start, which is ended how, and the run's outcome. No network.

A run on one host has one job. Over several hosts, the primary starts first, the standbys once it listens, and the load
once all serve it. They end in the opposite order, so that none fails because another has left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import prefetch_related_objects
from django.utils.crypto import salted_hmac

from apps.campaigns.execution.jobs import STAGES, Job
from apps.campaigns.models import Run, RunPart
from apps.hosts.models import Host
from apps.hosts.usage import remote_servers
from common.errors import PlanError

# Why the jobs of a run are to end.
CANCELLED, FAILED, LOAD_ENDED = "cancelled", "failed", "load ended"
ENDED_WELL = (Run.Outcome.OK, Run.Outcome.CANCELLED)


def password_of(run: Run) -> str:
    """The password between the machines of a run. It is in no spec, event or response of the API."""
    return salted_hmac("apps.campaigns.parts", str(run.pk), algorithm="sha256").hexdigest()


class Ensemble:
    """All jobs of a run in the order in which they start: the primary first, the load last if it has its own host."""

    def __init__(self, run: Run) -> None:
        parts = list(run.parts.order_by("position"))
        prefetch_related_objects(parts, "host__identity")  # most runs have no parts, and this does nothing
        is_alone_and_submitted = not parts and run.state != Run.State.QUEUED
        self.run = run
        self.own = Job(run, run, has_started=run.epoch is not None or is_alone_and_submitted)
        self.parts = [Job(run, part, has_started=part.epoch is not None) for part in parts]
        has_server = any(part.role == RunPart.Role.SERVER for part in parts)
        self._jobs = [*self.parts, self.own] if has_server else [self.own, *self.parts]
        self.primary = self._jobs[0]

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    def __reversed__(self) -> Iterator[Job]:
        return reversed(self._jobs)

    @property
    def is_over(self) -> bool:
        """Whether no agent works on the run."""
        return all(job.is_done or not job.has_started for job in self)

    def load_stages(self) -> None:
        """What earlier ticks have stored. A run with one job waits for no stage."""
        for job in self if self.parts else ():
            job.stages.update(dict(job.row.events.filter(kind__in=STAGES).values_list("kind", "data")))

    def access(self, job: Job) -> dict[str, str] | None:
        """The secrets of the PostgreSQL server that a job uses; None if it needs none. PlanError if that server is not
        that of the plan any more."""
        if not self.parts:
            return remote_servers.access_of_run(job.host, job.row.spec["target"])
        database = str(self.primary.stages.get("serving", {}).get("database", ""))
        return {"password": password_of(self.run), "database": database}

    def reason_to_end(self, is_cancelled: bool) -> str:
        """Why all jobs must end now; "" while they continue."""
        if is_cancelled:
            return CANCELLED
        if not self.own.is_done and any(part.is_done and part.result[0] != Run.Outcome.OK for part in self.parts):
            return FAILED
        return LOAD_ENDED if self.own.is_done else ""

    def may_start(self, job: Job) -> bool:
        """Whether the jobs that it depends on are ready."""
        if job is self.primary:
            return True
        if job is self.own:
            return all("serving" in part.stages for part in self.parts)
        return "listening" in self.primary.stages

    def verb_to_end(self, job: Job, reason: str) -> str:
        """The verb that ends a job now; "" for none. The load ends first, then the primary, then the standbys."""
        is_standby = job is not self.own and job is not self.primary
        if reason != CANCELLED and is_standby and "released" in self.primary.stages:
            return "finish"
        if reason and job is self.own:
            return "cancel"
        if not reason or not self._has_load_ended():
            return ""
        if reason == CANCELLED or "serving" not in job.stages:
            return "cancel"
        return "finish" if job is self.primary or self.primary.is_done else ""

    def _has_load_ended(self) -> bool:
        """Whether no load needs a server. A host that does not answer is not waited for."""
        return self.own.is_done or not self.own.has_started or self.own.host.state == Host.State.UNREACHABLE

    def verdict(self, is_cancelled: bool) -> tuple[str, dict[str, Any] | None]:
        """(outcome, error) of the run: OK if all jobs are, else that of the first job that failed."""
        if not self.parts:
            return self.own.result
        failed = next((job for job in self if job.is_done and job.result[0] not in ENDED_WELL), None)
        if failed:
            outcome, error = failed.result
            return outcome, {**error, "message": f"{failed.name}: {error['message']}"} if error else None
        incomplete = [job.name for job in self if not job.is_done or job.result[0] != Run.Outcome.OK]
        if not incomplete:
            return Run.Outcome.OK, None
        if is_cancelled:
            return Run.Outcome.CANCELLED, None
        interrupted = PlanError(", ".join(incomplete), "was cancelled on its host", hint="start the run again")
        return Run.Outcome.INTERRUPTED, interrupted.as_dict()
