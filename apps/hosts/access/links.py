"""An open link stays open for a minute after its use: the next tick of the host's run reuses it.

Opening one costs both sides: keys, a login, Python on the host. A tick that comes late, for want of cpu, finds it too:
to open another would make the next ones later still. Whoever takes a link has it alone, until it is given
back; one that broke meanwhile, or leads where the host no longer is, is closed and another opened.

However many hosts are to be reached at once, only a few links are opened at a time: each is then open within a moment,
where all together would starve each other, and whoever follows a run meanwhile. Hosts that did not answer when last
asked delay only each other.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import BoundedSemaphore, Condition, Timer

from apps.hosts.access import ssh
from apps.hosts.models import Host
from common.errors import HostError, ProvingError

log = logging.getLogger(__name__)

KEEP_S = 60.0
GREET_S = 5.0
WAIT_S = 0.25
AT_ONCE = 8
TURN_S = 60.0  # less than a lease lasts


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
    """An open link to the host, which stays open afterwards if it is sound. Errors are those of ssh.Link."""
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
    """The idle link, if there is one. Whoever has it may be about to give it back, as a run that has just ended is when
    the next one begins: to wait for that costs less than to open another."""
    with _lock:
        if _users[host.pk]:
            _lock.wait_for(lambda: host.pk in _idle or not _users[host.pk], WAIT_S)
        _users[host.pk] += 1
        return _idle.pop(host.pk, None)


def _sound(idle: _IdleLink | None, host: Host) -> ssh.Link | None:
    """Its link, if that still leads there."""
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
    """Another, when it is our turn."""
    turns = _turns[host.state == Host.State.UNREACHABLE]
    ssh.lend_database()
    if not turns.acquire(timeout=TURN_S):
        message = f"no free connection slot within {TURN_S:g} s; {AT_ONCE} connections open at a time"
        raise HostError(host, message, hint="the server will try again; more dispatchers open more connections")
    try:
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
    """Close a link that nobody took."""
    with _lock:
        idle = _idle.get(host_id)
        if idle is None or idle.link is not link:
            return
        del _idle[host_id]
    link.close()
