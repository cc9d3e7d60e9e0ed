"""One tick of a claimed run: take its machines, then start, follow and end its jobs over the connections to them.

The machines of a run are taken and released together. The start of a job is stored (`epoch`, or the state of a run with
one job) before its agent is called, and an agent may get the same call twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agents.settings.kernel_command_line import BOOT_LIMIT_S
from agents.wire.protocol import BOOT, REBOOT
from apps.campaigns.execution import claims, fetching, halts, nudges, queue, received, run_end
from apps.campaigns.execution.ensemble import Ensemble
from apps.campaigns.execution.jobs import Job
from apps.campaigns.models import Run
from apps.hosts import contact
from apps.hosts.access import links, replies, ssh
from apps.hosts.models import Host
from apps.hosts.usage import leases
from common.errors import PlanError, ProvingError, UnreachableError

log = logging.getLogger(__name__)

Act = Callable[[Job, ssh.Link, str], None]  # on a job, over its connection; the reason for which jobs are to end

# How long to wait for events of one agent.
WAIT_S = 1.0
UNWATCHED_WAIT_S = 9.5  # if no user watches the run; a nudge and the end of the run interrupt the wait
SHARED_WAIT_S = 0.3  # while other agents of the run wait for us


@dataclass(frozen=True)
class Restart:
    """A restart of the host by the run, and until when the host has to be back."""

    limit_s: float
    ends: datetime

    @property
    def is_in_time(self) -> bool:
        return timezone.now() < self.ends


def restart_under_way(run: Run) -> Restart | None:
    """The restart that is under way, even if it takes too long."""
    if run.agent_state != "REBOOTING" or run.agent_state_at is None:
        return None
    limits = (
        step["options"]["limit_s"]
        for step in run.spec["steps"]
        if step["name"] == run.step and step["kind"] == REBOOT  # a host may name any step
    )
    boot = run.spec["settings"].get(BOOT)
    limit_s = boot.get("boot_limit_s", BOOT_LIMIT_S) if boot else next(limits, 0)
    return Restart(limit_s, run.agent_state_at + timedelta(seconds=limit_s)) if limit_s else None


class Supervision:
    """The work of one tick on all jobs of a run, until a time of the monotonic clock. `stack` closes the
    connections."""

    def __init__(self, run: Run, stack: ExitStack, deadline: float) -> None:
        self.run, self.jobs, self._stack, self._deadline = run, Ensemble(run), stack, deadline
        self._links: dict[int, ssh.Link | None] = {}  # by host; None if it failed in this tick
        self._cleared: set[int] = set()  # hosts whose ended runs were deleted in this tick
        self._sent: set[tuple[UUID, str]] = set()  # (job, verb)
        self._error: ProvingError | None = None  # the run waits for its cause to pass

    def tick(self) -> None:
        """Work on the run until it has ended, waits or needs another tick, or until the deadline. Raises the error that
        it waits for."""
        if not leases.acquire_all({job.host.machine_id: job.pk for job in self.jobs}, claims.LEASE_S):
            queue.rearm(self.run, claims.BUSY_RETRY_S)
        elif self.run.state != Run.State.QUEUED or self._begin():
            with nudges.following(self.run.pk, self._nudge):
                self._follow()

    # The beginning

    def _begin(self) -> bool:
        """QUEUED -> SUBMITTING if every host answers and is free. False if the run waits or has ended."""
        if not self._are_allowed():
            self._close(is_cancelled=False)
            return False
        reached = [self._connect(job) for job in self.jobs]
        if self._error or (self.jobs.parts and any(link.hello["busy"] is not None for link in reached if link)):
            self._wait_for_hosts()
            return False
        if claims.begin(self.run):
            self.jobs.own.has_started = not self.jobs.parts
            return True
        halts.release_machines(self.run)
        return False

    def _are_allowed(self) -> bool:
        for job in self.jobs:
            try:
                job.check()
            except PlanError as error:
                job.rejected = error
                return False
        return True

    def _wait_for_hosts(self) -> None:
        """Other runs may use the hosts that are free, while this one waits for another."""
        if self.jobs.parts:
            halts.release_machines(self.run)
        if self._error:
            raise self._error
        queue.rearm(self.run, claims.BUSY_RETRY_S)

    # Rounds

    def _follow(self) -> None:
        self._connect_started()
        self.jobs.load_stages()
        while True:
            is_cancelled = claims.is_cancelled(self.run)
            self._do_round(self.jobs.reason_to_end(is_cancelled))
            if self._save_ends(is_cancelled):
                return
            if self._error:
                raise self._error
            if claims.stopping.is_set() or time.monotonic() >= self._deadline:
                queue.rearm(self.run, 0, error=None)  # whatever it waited for has passed
                return

    def _connect_started(self) -> None:
        """Before the run is read: a cancel that comes later then finds connections to nudge."""
        for job in self.jobs:
            if job.has_started and not job.is_done:
                self._connect(job)

    def _do_round(self, reason: str) -> None:
        """Start or end jobs, then read the events of each, as far as the hosts answer. All are ended before
        any is waited for: a primary misses a standby that left before it, and a standby its primary."""
        for act in (self._start_or_end, self._read):
            for job in reversed(self.jobs) if reason else self.jobs:
                may_start = not reason and self.jobs.may_start(job)
                if job.is_done or not (job.has_started or may_start):
                    continue
                link = self._connect(job)
                if link:
                    self._try(act, job, link, reason)

    def _try(self, act: Act, job: Job, link: ssh.Link, reason: str) -> None:
        """Act on a job. After an error of its host, the other jobs of the round continue."""
        try:
            act(job, link, reason)
        except PlanError as error:
            self._reject(job, error)
        except (received.UnusableError, replies.RefusedError):
            raise
        except ProvingError as error:
            self._fail(job, error)

    def _start_or_end(self, job: Job, link: ssh.Link, reason: str) -> None:
        if not job.is_submitted:
            job.submit(link, self.jobs.access(job))
        if job.host.pk not in self._cleared:
            self._cleared.add(job.host.pk)
            fetching.forget_ended(link)
        verb = self.jobs.verb_to_end(job, reason)
        if verb and (job.pk, verb) not in self._sent:
            link.call(verb, run=str(job.pk))
            self._sent.add((job.pk, verb))

    def _read(self, job: Job, link: ssh.Link, reason: str) -> None:
        if job.is_submitted and job.read_events(link, wait_s=self._wait_s(), gather=not self.jobs.parts):
            job.collect(link)

    def _wait_s(self) -> float:
        """How long events may gather. Each read costs us, and the host, some milliseconds."""
        if self.jobs.parts:
            return SHARED_WAIT_S
        return UNWATCHED_WAIT_S if nudges.listening.is_set() and not nudges.is_watched(self.run.pk) else WAIT_S

    def _reject(self, job: Job, error: PlanError) -> None:
        """Its agent will never carry it out, or does not know it any more."""
        log.warning("run %s, %s: %s", self.run.pk, job.name, error)
        job.rejected = error
        if job.part:
            job.save_end()

    # Connections

    def _connect(self, job: Job) -> ssh.Link | None:
        """The connection to its host for this tick; None if there is none, and the run waits for one."""
        key = job.host.pk
        if key not in self._links:
            try:
                link = self._stack.enter_context(links.link(job.host))
                if self.run.state == Run.State.QUEUED and not self.jobs.parts and link.hello["busy"] is None:
                    contact.prepare_facts(job.host, link)
                contact.record_contact(job.host, link.hello)
                self._links[key] = link
            except ProvingError as error:
                self._fail(job, error)
        return self._links[key]

    def _fail(self, job: Job, error: ProvingError) -> None:
        """The next tick tries again."""
        self._links[job.host.pk], self._error = None, error
        restart = restart_under_way(self.run)
        is_expected = isinstance(error, UnreachableError) and restart and restart.is_in_time
        if isinstance(error, UnreachableError | replies.RefusedError) and not is_expected:
            contact.mark_unreachable(job.host, error)
            job.host.refresh_from_db()

    def _nudge(self) -> None:
        """From another thread: let no connection wait for events."""
        for link in list(self._links.values()):
            if link:
                link.nudge()

    # The end

    def _save_ends(self, is_cancelled: bool) -> bool:
        """Store the jobs that were collected in this round, and let their agents delete them: now, or when the next run
        of the host, which waits for this connection, has begun there. True if the run has ended."""
        has_ended = self.jobs.is_over and self.jobs.reason_to_end(is_cancelled) != ""
        collected = [job for job in self.jobs if job.manifest_bytes]
        has_next = False
        if has_ended:
            self._prepare_next()
            has_next = self._close(is_cancelled)
            if not has_next and self.jobs.own.may_leave_boot:
                self._end_boot()
        else:
            for job in collected:
                job.save_end()
        for job in collected:
            link = self._links[job.host.pk]
            is_next = has_next and job is self.jobs.own
            if link and not (is_next or (has_ended and queue.is_taken([job.host.pk]))):
                job.forget(link)
        return has_ended

    def _prepare_next(self) -> None:
        """The next run of the host may start in a moment: meanwhile, its agent reads the facts for it."""
        link = self._links.get(self.run.host_id)
        if link and not self.jobs.parts and self.run.manifest and self.run.manifest["clean"]:
            contact.prepare_facts(self.run.host, link)

    def _end_boot(self) -> None:
        """Let a host that the run may have left in its boot restart, as no run follows. The agent also does so later,
        by itself."""
        link = self._links.get(self.run.host_id)
        try:
            ended = link.call("end_boot")["recovered"] if link else []
        except ProvingError as error:
            log.warning("run %s: %s may keep its kernel parameters for a while: %s", self.run.pk, self.run.host, error)
            return
        if ended:
            contact.audit_restored(self.run.host, ended)

    def _close(self, is_cancelled: bool) -> bool:
        """End the run and free its machines. Returns whether its host has a next run."""
        run, (outcome, error) = self.run, self.jobs.verdict(is_cancelled)
        with transaction.atomic():
            claims.hold(run)
            self._lock_hosts()
            for part in self.jobs.parts:
                part.end_part()
            has_next = run_end.close(run, outcome, error, run.manifest)
            for part in self.jobs.parts:
                queue.arm_host(part.host.pk)
        return has_next

    def _lock_hosts(self) -> None:
        """In the order in which all code locks several. A single host is locked when its next run is armed."""
        if self.jobs.parts:
            hosts = Host.objects.filter(pk__in=[job.host.pk for job in self.jobs])
            list(hosts.select_for_update().order_by("pk"))
