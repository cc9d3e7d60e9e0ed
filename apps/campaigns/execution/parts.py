"""A tick of a run over several hosts: all machines taken together, each job started when those before it serve, all
followed, all ended, and the machines given back together.

The same rules as in dispatch.py: every write goes through the claim of the run, no transaction spans the network, and
a tick may die at any line. What was started stands in the rows (`epoch`, before the agent hears of it), what serves
stands in the events, and every word to an agent may be said twice.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac

from agents.host.paths import needed
from apps.campaigns.design import steps
from apps.campaigns.execution import claims, closing, fetching, queue, received
from apps.campaigns.library import code, copies
from apps.campaigns.models import PartEvent, Run, RunEvent, RunPart
from apps.hosts import contact
from apps.hosts.access import links, replies, ssh
from apps.hosts.models import Facts, Host
from apps.hosts.usage import allowed_paths, leases
from common.errors import PlanError, ProvingError, UnreachableError

log = logging.getLogger(__name__)

LOOK_S = 0.3  # that one agent is waited for, while the others wait for us
STAGES = ("listening", "serving", "released")
CANCEL, FAILED, OVER = "cancel", "failed", "over"
WELL = (Run.Outcome.OK, Run.Outcome.CANCELLED)


def password_of(run: Run) -> str:
    """What the machines of this run let each other in by; in no spec, no event and no answer of the API."""
    return salted_hmac("apps.campaigns.parts", str(run.pk), algorithm="sha256").hexdigest()


def work(run: Run) -> None:
    """The tick of a claimed run."""
    with ExitStack() as stack:
        Cast(run, stack).tick()


@dataclass
class Job:
    """The run's own job, or that of a part: its row, and what its events have told so far."""

    row: Run | RunPart
    told: dict[str, dict[str, Any]] = field(default_factory=dict)
    refused: ProvingError | None = None

    @property
    def pk(self) -> UUID:
        return self.row.pk

    @property
    def host(self) -> Host:
        return self.row.host

    @property
    def part(self) -> RunPart | None:
        return self.row if isinstance(self.row, RunPart) else None

    @property
    def name(self) -> str:
        return f"{self.part.role if self.part else 'load'} on {self.host}"

    @property
    def begun(self) -> bool:
        """Whether its agent may know it."""
        return self.row.epoch is not None

    @property
    def submitted(self) -> bool:
        return self.row.state == Run.State.RUNNING

    @property
    def done(self) -> bool:
        """Whether all that it will ever tell is here."""
        return self.row.state == Run.State.ENDED or self.row.manifest is not None or self.refused is not None

    @property
    def _ending(self) -> tuple[str, dict[str, Any] | None]:
        manifest = self.row.manifest
        return fetching.ending(self.row, manifest) if manifest else (self.row.outcome, self.row.error)

    @property
    def outcome(self) -> str:
        return str(Run.Outcome.FAILED if self.refused else self._ending[0])

    @property
    def error(self) -> dict[str, Any] | None:
        """Its error, told as that of this host."""
        found = self.refused.as_dict() if self.refused else self._ending[1]
        return {**found, "message": f"{self.name}: {found['message']}"} if found else None


class Cast:
    """All jobs of a run in the order in which they start: the primary first, the load last where it is a client's."""

    def __init__(self, run: Run, stack: ExitStack) -> None:
        self.run, self._stack, self._links = run, stack, dict[int, ssh.Link]()
        self._said = set[tuple[UUID, str]]()
        own, parts = Job(run), [Job(part) for part in run.parts.select_related("host")]
        served = any(part.part and part.part.role == RunPart.Role.SERVER for part in parts)
        self.own, self.parts = own, parts
        self.jobs = [*parts, own] if served else [own, *parts]
        self.primary = self.jobs[0]
        self.trouble: ProvingError | None = None

    # The tick

    def tick(self) -> None:
        run = self.run
        if run.state == Run.State.QUEUED and any(job.host.state == Host.State.QUARANTINED for job in self.jobs):
            run.mine().update(next_tick_at=None, claimed_until=None)
            return
        wanted = {job.host.machine_id: job.pk for job in self.jobs}
        if not leases.acquire_all(wanted, claims.LEASE_S):
            queue.rearm(run, claims.BUSY_RETRY_S)
            return
        if run.state == Run.State.QUEUED and not self._begin():
            return
        self._remember()
        deadline = time.monotonic() + claims.FOLLOW_S
        while time.monotonic() < deadline and not self.trouble and not claims.stopping.is_set():
            claims.look(run)
            self._act()
            if all(job.done or not job.begun for job in self.jobs) and self._why():
                self._close()
                return
        self._leave()

    def _leave(self) -> None:
        if not self.trouble:
            return queue.rearm(self.run, 0)
        unreachable = isinstance(self.trouble, UnreachableError)
        retry_s = claims.UNREACHABLE_RETRY_S if unreachable else claims.BUSY_RETRY_S
        return claims.wait(self.run, self.trouble, retry_s)

    def _begin(self) -> bool:
        """QUEUED -> SUBMITTING when every host answers and is free; False when this is not the time."""
        reached = [self._link(job) for job in self.jobs]
        if not self.trouble and all(link and link.hello["busy"] is None for link in reached):
            if claims.begin(self.run):
                return True
            self._release()
            return False
        # Others may have what we do not use: nobody waits for us while we wait for somebody.
        self._release()
        if self.trouble:
            self._leave()
        else:
            queue.rearm(self.run, claims.BUSY_RETRY_S)
        return False

    def _release(self) -> None:
        for job in self.jobs:
            leases.release(job.host.machine_id, job.pk)

    def _remember(self) -> None:
        """What earlier ticks have read."""
        for job in self.jobs:
            events = job.row.events.filter(kind__in=STAGES).values_list("kind", "data")
            job.told.update(dict(events))

    # What is to be done

    def _why(self) -> str:
        """Why all jobs are to end now; "" while they are not."""
        if Run.objects.filter(pk=self.run.pk, cancel_requested_at__isnull=False).exists():
            return CANCEL
        if any(job.done and job.outcome != Run.Outcome.OK for job in self.parts) and not self.own.done:
            return FAILED
        return OVER if self.own.done else ""

    def _act(self) -> None:
        """One round: each job is started or told to end, then each is read, as far as its host answers. All hear of an
        end before anybody is waited for: a primary misses a standby that left before it, and a standby its primary."""
        why = self._why()
        for turn in (self._prompt, self._follow):
            for job in reversed(self.jobs) if why else self.jobs:
                if job.done or not (job.begun or (not why and self._may_begin(job))):
                    continue
                try:
                    turn(job, why)
                except PlanError as error:
                    self._refuse(job, error)
                except (received.UnusableError, replies.RefusedError):
                    raise
                except ProvingError as error:
                    self._fail(job, error)

    def _prompt(self, job: Job, why: str) -> None:
        link = self._link(job)
        if link is None:
            return
        if not job.submitted:
            self._submit(job, link)
        word = self._word(job, why)
        if word and (job.pk, word) not in self._said:
            link.call(word, run=str(job.pk))
            self._said.add((job.pk, word))

    def _follow(self, job: Job, why: str) -> None:
        link = self._links.get(job.host.pk)
        if link and job.submitted and self._read(job, link):
            self._collect(job, link)

    def _may_begin(self, job: Job) -> bool:
        if job is self.primary:
            return True
        if job is self.own:
            return all("serving" in part.told for part in self.parts)
        return "listening" in self.primary.told

    def _word(self, job: Job, why: str) -> str:
        """The verb that ends a job, in the order that lets each end well: the load, what serves it, the standbys."""
        follows = job is not self.own and job is not self.primary
        if why != CANCEL and follows and "released" in self.primary.told:
            return "finish"
        if why and job is self.own:
            return "cancel"
        if not why or not self._load_is_over():
            return ""
        if why == CANCEL or "serving" not in job.told:
            return "cancel"
        return "finish" if job is self.primary or self.primary.done else ""

    def _load_is_over(self) -> bool:
        """Nobody is disturbed by the end of what serves the load. A host that does not answer is not waited for."""
        own = self.own
        return own.done or not own.begun or own.host.state == Host.State.UNREACHABLE

    # One job

    def _link(self, job: Job) -> ssh.Link | None:
        """The connection to its host for this tick; None when there is none, which the run then waits for."""
        if job.host.pk not in self._links:
            try:
                link = self._stack.enter_context(links.link(job.host))
                contact.record_contact(job.host, link.hello)
                fetching.forget_ended(link)
                self._links[job.host.pk] = link
            except ProvingError as error:
                self._fail(job, error)
        return self._links.get(job.host.pk)

    def _fail(self, job: Job, error: ProvingError) -> None:
        """The other jobs go on in this round; the next tick tries this one again."""
        if isinstance(error, UnreachableError | replies.RefusedError):
            self._links.pop(job.host.pk, None)
            contact.mark_unreachable(job.host, error)
            job.host.refresh_from_db()
        self.trouble = error

    def _refuse(self, job: Job, error: PlanError) -> None:
        """The agent will never carry it out, or knows nothing of it any more."""
        log.warning("run %s, %s: %s", self.run.pk, job.name, error)
        job.refused = error
        if job.part:
            self._save(job, state=Run.State.ENDED, outcome=Run.Outcome.FAILED, error=error.as_dict())

    def _save(self, job: Job, **changes: Any) -> None:
        """Write to the row of a job, while the run is ours."""
        with transaction.atomic():
            self._hold()
            self._set(job, changes)

    def _set(self, job: Job, changes: dict[str, Any]) -> None:
        for name, value in changes.items():
            setattr(job.row, name, value)
        job.row.save(update_fields=list(changes))

    def _submit(self, job: Job, link: ssh.Link) -> None:
        """Hand it to its agent, or find it there."""
        if not job.begun:
            code.check_run(self.run)
        if job is self.own:
            allowed_paths.check(
                job.host, needed(steps.paths(self.run.spec["steps"]), self.run.spec.get("allowed_paths", []))
            )
        if not job.begun:
            facts = contact.read_facts(job.host, link)
            self._save(job, **({"facts": facts} if isinstance(facts, Facts) else {}), epoch=0)
        epoch = leases.raise_epoch(job.host.machine_id, job.pk, above=link.hello["epoch"])
        access = {"password": password_of(self.run), "database": self._database()}
        link.call("submit", run=str(job.pk), epoch=epoch, digest=job.row.digest, spec=job.row.spec, access=access)
        self._save(job, epoch=epoch, state=Run.State.RUNNING, error=None)

    def _database(self) -> str:
        return str(self.primary.told.get("serving", {}).get("database", ""))

    def _hold(self) -> None:
        """In a transaction: ClaimLostError when our claim is not ours any more."""
        if self.run.mine().select_for_update().first() is None:
            raise claims.ClaimLostError

    def _read(self, job: Job, link: ssh.Link) -> bool:
        """Commit the events that are new. True when the job is sealed and all are here."""
        whole, last = fetching.read_lines(job.row, link, wait_s=LOOK_S)
        if whole:
            self._store(job, whole)
        return last

    def _store(self, job: Job, whole: bytes) -> None:
        row = job.row
        records, damaged = fetching.events_of(row, whole)
        new = [each for each in records if each["seq"] > row.last_seq]
        changes: dict[str, Any] = {"events_offset": row.events_offset + len(whole)}
        changes["events_damaged"] = row.events_damaged + damaged
        changes["last_seq"] = max([row.last_seq, *(each["seq"] for each in records)])
        for each in new:
            if each["kind"] == "state":
                changes["agent_state"] = each["data"]["state"]
                if not job.part:
                    changes |= {"agent_state_at": timezone.now(), "step": each["data"].get("step") or ""}
        with transaction.atomic():
            self._hold()
            _keep_events(job, new)
            copies.learn(self.run, [each["data"] for each in new if each["kind"] == "dataset"], job.part)
            self._set(job, changes)
        job.told.update({each["kind"]: each["data"] for each in new if each["kind"] in STAGES})

    def _collect(self, job: Job, link: ssh.Link) -> None:
        """Its manifest and files; the agent forgets it when they are committed."""
        row = job.row
        sealed, manifest = fetching.bring(row, link, self._hold)
        with transaction.atomic():
            self._hold()
            outcome, error = fetching.ending(row, manifest)
            ended = {"state": Run.State.ENDED, "outcome": outcome, "error": error}
            self._set(job, {"manifest": manifest, **(ended if job.part else {})})
        fetching.forget(link, str(job.pk), sealed)

    # The end

    def _close(self) -> None:
        """All jobs are over: the run ends, and all machines are free again."""
        outcome, error = self._verdict()
        run = self.run
        with transaction.atomic():
            claims.hold(run)
            hosts = sorted({job.host.pk for job in self.jobs})
            list(Host.objects.select_for_update().filter(pk__in=hosts).order_by("pk"))
            never = {"state": Run.State.ENDED, "outcome": Run.Outcome.CANCELLED}
            for job in self.parts:
                if not job.begun:
                    self._set(job, dict(never))
                if job.row.manifest:
                    closing.report(job.row, job.row.manifest)
            self._release()
            closing.close(run, outcome, error, run.manifest)
            for host in hosts:
                queue.arm_host(host)

    def _verdict(self) -> tuple[str, dict[str, Any] | None]:
        """A run is ok when each of its jobs was; else the first that was not says what the run came to."""
        bad = next((job for job in self.jobs if job.begun and job.outcome not in WELL), None)
        if bad:
            return bad.outcome, bad.error
        if all(job.begun and job.outcome == Run.Outcome.OK for job in self.jobs):
            return Run.Outcome.OK, None
        if Run.objects.filter(pk=self.run.pk, cancel_requested_at__isnull=False).exists():
            return Run.Outcome.CANCELLED, None
        told = ", ".join(job.name for job in self.jobs if job.outcome != Run.Outcome.OK)
        error = PlanError(told, "was cancelled on its host", hint="start the run again")
        return Run.Outcome.INTERRUPTED, error.as_dict()


def _keep_events(job: Job, records: list[dict[str, Any]]) -> None:
    if job.part:
        PartEvent.objects.bulk_create([PartEvent(part=job.part, **each) for each in records])
    else:
        RunEvent.objects.bulk_create([RunEvent(run_id=job.pk, **each) for each in records])
