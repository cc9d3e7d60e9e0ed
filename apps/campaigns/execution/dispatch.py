"""One tick of one run, and what its errors lead to: another try, or the end of the run.

Errors that the code knows by name end the run at once, or wait for their cause to pass. Any other error may be due to
what the host sent, or to a defect of this version of the server. It is tried again with growing pauses, and ends the
run after MAX_ATTEMPTS in a row. A problem of the server itself, such as a lost connection, is never an attempt.

Every write goes through the claim (`run.mine()`), and nothing here runs inside a transaction that spans the network.
A tick may die at any line: the next one finds the run claimed until a time that passes, and does the same again.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack

from django.utils import timezone

from apps import logs
from apps.campaigns.execution import claims, halts, queue, received, run_end
from apps.campaigns.execution.supervision import Supervision, restart_under_way
from apps.campaigns.models import Campaign, Run, RunPart
from apps.hosts.access import replies
from apps.hosts.models import Host
from apps.infrastructure import faults
from common.errors import AgentError, HostError, ProvingError, UnreachableError

log = logging.getLogger(__name__)

# Attempts in a row with an unexpected error, and the pauses between them: 25 minutes in total. Within that time a
# defective version of the server can be replaced, and no other run of the host waits longer. The errors need not be
# equal, because a host could vary them. A tick without one starts the count again: a host gains nothing by that, as it
# can keep a run open without any error.
MAX_ATTEMPTS = 10
FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 300.0


def tick(run: Run, deadline: float | None = None) -> None:
    """Do what is due on one run, until `deadline` of the monotonic clock, by default for claims.FOLLOW_S seconds. Does
    nothing when it is not due or not free."""
    if deadline is None:
        deadline = time.monotonic() + claims.FOLLOW_S
    with logs.about(run.pk):
        if not run.claim_tick(claims.CLAIM_S):
            return
        attempts = claims.failed_attempts(run)  # before the tick changes the object: its transaction may be undone
        try:
            _attempt(run, deadline, attempts)
        except claims.ClaimLostError:
            log.warning("run %s: another worker took over", run.pk)
        except Exception as error:
            if faults.is_of_server(error):
                raise
            log.exception("run %s: tick failed", run.pk)
            _count(run, error, attempts + 1)


def _attempt(run: Run, deadline: float, attempts: int) -> None:
    try:
        with claims.held(run):
            _work(run, deadline)
    except received.UnusableError as error:
        run_end.abandon(run, error)
    except replies.RefusedError as error:
        _refuse(run, error, attempts)
    except ProvingError as error:
        _put_off(run, error, attempts)


def _count(run: Run, error: Exception, count: int) -> None:
    """Try again after a pause, and show the cause on the run's page meanwhile. The last attempt ends the run."""
    cause, agent = received.error_text(error), f"agent on {run.host}"
    message = f"the server could not process the run, attempt {count} of {MAX_ATTEMPTS}: {cause}"
    hint = "the server will try again; after the last attempt the run fails. To end it now, give it up"
    if count >= MAX_ATTEMPTS:
        ended = f"the server could not process the run in {count} attempts: {cause}"
        try:
            run_end.abandon(run, AgentError(agent, ended, hint=received.HINT))
            return
        except Exception as failure:
            if faults.is_of_server(failure):
                raise
            log.exception("run %s: not ended", run.pk)
            message = f"the server could not end the run after {count} attempts: {received.error_text(failure)}"
            hint = "the server will try again. Report this with the server's log"
    claims.wait(run, AgentError(agent, message, hint=hint), _pause_s(count), count)


def _pause_s(count: int) -> float:
    return float(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (min(count, MAX_ATTEMPTS) - 1)))


def _work(run: Run, deadline: float) -> None:
    with ExitStack() as stack:
        supervision = Supervision(run, stack, deadline)
        if run.state != Run.State.QUEUED or _may_begin(run, supervision):
            supervision.tick()
        else:
            run.mine().update(next_tick_at=None, claimed_until=None)


def _may_begin(run: Run, supervision: Supervision) -> bool:
    """Return whether a queued run may still start. If its campaign is paused, its machines are released."""
    if queue.hindrance(run.host, run, timezone.now()):
        return False
    if run.campaign.state == Campaign.State.PAUSED:
        halts.release_machines(run)
        return False
    return all(job.host.state != Host.State.QUARANTINED for job in supervision.jobs)


def _refuse(run: Run, error: replies.RefusedError, attempts: int) -> None:
    """End a run whose host sends invalid answers, because it would send them again. If no agent knows the run yet, the
    host may be repaired meanwhile: the run waits as for a host that does not answer, but for MAX_ATTEMPTS at most once
    it has the machines of all of its hosts."""
    count = attempts + 1
    if error.verb == "hello":
        _put_off(run, error, attempts)
    elif error.verb != "facts" or _is_submitted(run):
        run_end.abandon(run, error)
    elif count < MAX_ATTEMPTS:
        claims.wait(run, error, _pause_s(count), count)
    else:
        run_end.abandon(run, error, at_fault=error.subject)


def _is_submitted(run: Run) -> bool:
    """Whether an agent knows the run. Facts are read only before a job is submitted, and only from its own host."""
    is_own = run.state not in (Run.State.QUEUED, Run.State.SUBMITTING)
    return is_own or run.parts.exclude(state=RunPart.State.QUEUED).exists()


def _put_off(run: Run, error: ProvingError, attempts: int) -> None:
    """Try again later: sooner while the run restarts its host. A host that did not come back in time ends the run, and
    so does one that came back, but whose agent did not answer in MAX_ATTEMPTS after that time."""
    is_unreachable, restart = isinstance(error, UnreachableError), restart_under_way(run)
    if restart and restart.is_in_time:
        queue.rearm(run, claims.RESTART_RETRY_S)
    elif restart and (is_unreachable or attempts + 1 >= MAX_ATTEMPTS):
        where = f" in step {run.step}" if run.step else ""
        message = f"did not answer within {restart.limit_s:g} s of the restart{where}: {error.message}"
        if not is_unreachable:
            message = f"is back, but its agent {message}"
        cure = "start the host" if is_unreachable else "fix the cause"
        hint = f"{cure}; its agent restores it at the next contact. Then release the host"
        run_end.abandon(run, HostError(run.host, message, hint=hint))
    elif restart:
        claims.wait(run, error, _pause_s(attempts + 1), attempts + 1)
    else:
        is_silent = is_unreachable or isinstance(error, replies.RefusedError)
        claims.wait(run, error, claims.UNREACHABLE_RETRY_S if is_silent else claims.BUSY_RETRY_S, attempts)
