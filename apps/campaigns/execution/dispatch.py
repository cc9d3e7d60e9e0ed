"""One tick of one run: claim it, take the machine, submit or adopt it, follow its events, bring in its results.

Every write goes through the claim (`run.mine()`), and nothing here runs inside a transaction that spans the network.
A tick may die at any line: the next one finds the run claimed until a time that passes, and does the same again.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.core.exceptions import FieldError, ValidationError
from django.db import DataError, IntegrityError, transaction
from django.utils import timezone

from agents.host.paths import needed
from agents.wire.protocol import REBOOT
from apps import logs
from apps.campaigns.design import steps
from apps.campaigns.execution import claims, closing, fetching, giving_up, halts, nudges, parts, queue, received
from apps.campaigns.library import code, copies
from apps.campaigns.models import Campaign, Run, RunEvent
from apps.hosts import contact
from apps.hosts.access import links, replies, ssh
from apps.hosts.usage import allowed_paths, cluster_consents, leases, remote_servers
from common.errors import HostError, PlanError, ProvingError, UnreachableError

log = logging.getLogger(__name__)

LOOK_S = 1.0  # events are committed, and a cancel is seen, this often;
# What malformed input raises. Anything else, such as a lost connection, is tried again by the next tick.
UNPROCESSABLE = (
    *(DataError, IntegrityError, FieldError, ValidationError),
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
)
UNWATCHED_S = 5.0  # this often where nobody looks on, and a nudge is heard


def tick(run: Run) -> None:
    """Do what is due on one run, for at most claims.FOLLOW_S seconds. Does nothing when it is not due or not free."""
    with logs.about(run.pk):
        if not run.claim_tick(claims.CLAIM_S):
            return
        try:
            with claims.held(run):
                _work(run)
        except claims.ClaimLostError:
            log.warning("run %s: another worker took over", run.pk)
        except received.UnusableError as error:
            giving_up.abandon(run, error)
        except replies.RefusedError as error:
            _refuse(run, error)
        except ProvingError as error:
            _put_off(run, error)
        except UNPROCESSABLE as error:
            log.exception("run %s: tick failed", run.pk)
            giving_up.abandon(run, received.unusable(f"agent on {run.host}", error))


def _refuse(run: Run, error: replies.RefusedError) -> None:
    """A host whose answers break the rules would break them again: a run that its agent may know of ends. A run that
    has not begun waits, as for a host that does not answer; so does one that its agent may only be greeted for."""
    if run.state == Run.State.QUEUED or error.verb == "hello":
        contact.mark_unreachable(run.host, error)
        claims.wait(run, error, claims.UNREACHABLE_RETRY_S)
    else:
        giving_up.abandon(run, error)


def _put_off(run: Run, error: ProvingError) -> None:
    """Try again later: sooner while the run restarts its host. A host that did not come back in time ends the run."""
    restart = _restart(run)
    if restart and timezone.now() < restart.ends:
        queue.rearm(run, claims.RESTART_RETRY_S)
    elif restart and isinstance(error, UnreachableError):
        contact.mark_unreachable(run.host, error)
        message = f"did not answer within {restart.limit_s} s of the restart in step {run.step}: {error.message}"
        hint = "start the host; its agent restores it at the next contact. Then release the host"
        giving_up.abandon(run, HostError(run.host, message, hint=hint))
    elif isinstance(error, UnreachableError):
        contact.mark_unreachable(run.host, error)
        claims.wait(run, error, claims.UNREACHABLE_RETRY_S)
    else:
        claims.wait(run, error, claims.BUSY_RETRY_S)


@dataclass(frozen=True)
class Restart:
    """A restart of the host by a step of the run, and until when the host has to be back."""

    limit_s: int
    ends: datetime


def _restart(run: Run) -> Restart | None:
    """The restart that is under way, also one that has taken too long."""
    if run.agent_state != "REBOOTING" or run.agent_state_at is None:
        return None
    asked = (step for step in run.spec["steps"] if step["name"] == run.step and step["kind"] == REBOOT)
    limit_s = next((step["options"]["limit_s"] for step in asked), 0)  # a host may name any step
    return Restart(limit_s, run.agent_state_at + timedelta(seconds=limit_s)) if limit_s else None


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
        parts.work(run)
        return
    if leases.acquire(host.machine_id, run.pk, claims.LEASE_S) is None:
        queue.rearm(run, claims.BUSY_RETRY_S)
        return
    with links.link(host) as link, nudges.following(run.pk, link.nudge):
        contact.record_contact(host, link.hello)
        if not _submit(run, link):
            return
        fetching.forget_ended(link)
        if _follow(run, link):
            _collect(run, link)
        else:
            queue.rearm(run, 0)


def _submit(run: Run, link: ssh.Link) -> bool:
    """Hand the run to the agent, or find it there. False when it ended instead."""
    machine_id = run.host.machine_id
    try:
        if run.state == Run.State.QUEUED:
            code.check_run(run)
            cluster_consents.check(run.host, run.spec["target"])
            allowed_paths.check(run.host, needed(steps.paths(run.spec["steps"]), run.spec.get("allowed_paths", [])))
        if run.state == Run.State.QUEUED and not claims.begin(run):
            leases.release(machine_id, run.pk)
            return False
        if run.state == Run.State.RUNNING:
            link.call("status", run=str(run.pk))
            return True
        access = remote_servers.access_of_run(run.host, run.spec["target"])
        facts, at = _facts(run, link), timezone.now()
        run.epoch = leases.raise_epoch(machine_id, run.pk, above=link.hello["epoch"])
        secrets: dict[str, Any] = {"access": access} if access else {}
        link.call("submit", run=str(run.pk), epoch=run.epoch, digest=run.digest, spec=run.spec, **secrets)
    except PlanError as error:
        _end(run, Run.Outcome.FAILED, error)
        return False
    # The agent works while we write; should we die here, those of the plan stay with the run.
    found = {"facts": contact.record_facts(run.host, facts, at)} if facts else {}
    run.mine().update(state=Run.State.RUNNING, epoch=run.epoch, error=None, **found)
    return True


def _facts(run: Run, link: ssh.Link) -> dict[str, Any] | None:
    """What the host is when the run starts: it may have changed since the plan. Not of a run that was there before."""
    known = [link.hello["busy"], *link.hello["sealed"]]
    return None if str(run.pk) in known else contact.ask_facts(run.host, link)


def _follow(run: Run, link: ssh.Link) -> bool:
    """Commit events as they come. True when the run is sealed and all its events are here."""
    deadline = time.monotonic() + claims.FOLLOW_S
    told = False
    while time.monotonic() < deadline and not claims.stopping.is_set():
        if claims.look(run) and not told:
            link.call("cancel", run=str(run.pk))
            told = True
        whole, last = fetching.read_lines(run, link, wait_s=_pause_s(run), gather=True)
        if whole:
            _store(run, whole)
        if last:
            return True
    return False


def _pause_s(run: Run) -> float:
    """How long events may gather. Each look costs us, and the host, some milliseconds."""
    return UNWATCHED_S if nudges.listening.is_set() and not nudges.watched(run.pk) else LOOK_S


def _store(run: Run, whole: bytes) -> None:
    """Commit whole lines and how far they reach, together: a line read twice is stored once."""
    records, damaged = fetching.events_of(run, whole)
    events = [RunEvent(run=run, **each) for each in records]
    with transaction.atomic():
        stored = run.mine().select_for_update().values_list("last_seq", flat=True).first()
        if stored is None:
            raise claims.ClaimLostError
        RunEvent.objects.bulk_create([event for event in events if event.seq > stored])
        run.events_offset += len(whole)
        run.events_damaged += damaged
        run.last_seq = max([stored, *(event.seq for event in events)])
        for event in events:
            if event.kind == "state":
                run.agent_state, run.step = event.data["state"], event.data.get("step") or ""
                run.agent_state_at = timezone.now()  # by our clock: the host's may be set meanwhile
        copies.learn(run, [event.data for event in events if event.kind == "dataset"])
        told = ["events_offset", "events_damaged", "last_seq", "agent_state", "agent_state_at", "step"]
        run.save(update_fields=told)


def _collect(run: Run, link: ssh.Link) -> None:
    """Fetch the manifest and the files it names, commit the end of the run, and only then let the agent forget it: now,
    or when the host's next run, which waits for this link, has begun there."""
    sealed, manifest = fetching.bring(run, link, partial(claims.hold, run))
    with transaction.atomic():
        claims.hold(run)
        closing.close(run, *fetching.ending(run, manifest), manifest)
    if not queue.is_taken([run.host_id]):
        fetching.forget(link, str(run.pk), sealed)


def _end(run: Run, outcome: str, error: ProvingError) -> None:
    with transaction.atomic():
        claims.hold(run)
        closing.close(run, outcome, error.as_dict(), None)
