"""Reuse SSH links: a link stays open for some minutes after its last use, for the next tick of a run on its host.

Opening a link is expensive for both sides: keys, a login, Python on the host. An idle one takes memory, but no CPU
time. A tick that is late because the CPU is busy still finds its link; opening another one would delay the next ticks
further. A link has one user at a time. If it broke meanwhile, or its host has moved, it is closed and another one is
opened.

Only a few links are opened at a time, however many hosts have to be reached. Each is then open quickly; all at once
would delay each other and the runs that are being followed. Hosts that did not answer the last time only delay each
other."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import BoundedSemaphore, Condition, Timer

from apps import tracing
from apps.hosts.access import ssh
from apps.hosts.models import Host
from common.errors import HostError, ProvingError

log = logging.getLogger(__name__)

# A user who reads a result often starts the next campaign within minutes. Some firewalls drop a connection silently
# after 4 minutes without traffic.
KEEP_S = 180.0
GREET_S = 5.0
WAIT_S = 0.25
AT_ONCE = 8
TURN_S = 60.0  # shorter than a lease


@dataclass(frozen=True)
class _IdleLink:
    link: ssh.Link
    timer: Timer


_idle: dict[int, _IdleLink] = {}
_users = Counter[int]()
_lock = Condition()
_turns = {silent: BoundedSemaphore(AT_ONCE) for silent in (False, True)}


@contextmanager
def link(host: Host) -> Iterator[ssh.Link]:
    """Yield an open link to the host. It stays open afterwards if it works. Raises the errors of ssh.Link."""
    idle = _take(host)
    try:
        taken = _sound(idle, host) or _opened(host)
        try:
            yield taken
        finally:
            if taken.sound:
                _keep(host.pk, taken)
            else:
                taken.close()
    finally:
        with _lock:
            _users[host.pk] -= 1
            _lock.notify_all()


def _take(host: Host) -> _IdleLink | None:
    """Return the idle link, if there is one.

    Waits briefly for its present user, for example a run that has just ended while the next one starts. Opening
    another link would take longer."""
    with _lock:
        if _users[host.pk]:
            _lock.wait_for(lambda: host.pk in _idle or not _users[host.pk], WAIT_S)
        _users[host.pk] += 1
        return _idle.pop(host.pk, None)


def _sound(idle: _IdleLink | None, host: Host) -> ssh.Link | None:
    """Return the link if it still leads to this host."""
    if idle is None:
        return None
    idle.timer.cancel()
    try:
        idle.link.greet(host, GREET_S)
    except ProvingError as error:
        log.info("the open connection to %s cannot be used: %s", host, error)
        idle.link.close()
        return None
    return idle.link


def _opened(host: Host) -> ssh.Link:
    """Open a new link, limited to a few at a time."""
    turns = _turns[host.state == Host.State.UNREACHABLE]
    ssh.lend_database()
    if not turns.acquire(timeout=TURN_S):
        message = f"no free connection slot within {TURN_S:g} s; {AT_ONCE} connections open at a time"
        raise HostError(host, message, hint="the server will try again; more dispatchers open more connections")
    try:
        with tracing.span("connect"):
            return ssh.Link(host).open()
    finally:
        turns.release()


def _keep(host_id: int, link: ssh.Link) -> None:
    timer = Timer(KEEP_S, _expire, (host_id, link))
    timer.daemon = True
    with _lock:
        before = _idle.get(host_id)
        _idle[host_id] = _IdleLink(link, timer)
    timer.start()
    if before:
        before.timer.cancel()
        before.link.close()


def _expire(host_id: int, link: ssh.Link) -> None:
    """Close a link that was not used again."""
    with _lock:
        idle = _idle.get(host_id)
        if idle is None or idle.link is not link:
            return
        del _idle[host_id]
    link.close()
