"""What a contact with a host stores: its state, its facts, quarantine."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Max, Q
from django.urls import reverse
from django.utils import timezone

from agents.wire.protocol import canonical, digest
from apps.accounts.models import AuditEntry, Delivery
from apps.accounts.notices.events import KINDS
from apps.accounts.notices.notify import notify
from apps.accounts.services import audit
from apps.hosts.access import ssh
from apps.hosts.facts import changes, health, machines
from apps.hosts.models import Facts, Host, HostKey, Lease, Trouble
from common.errors import HostError, ProvingError

T = TypeVar("T")
log = logging.getLogger(__name__)

ASK_S = 45.0  # systemd reloads all of its units, PostgreSQL shuts down; a request may take 60
DAY = timedelta(days=1)
# Limits for what a host may add to the tables: a normal one restores and changes values a few times a day.
MAX_TROUBLES, MAX_RESTORED_A_DAY, MAX_FACTS_A_DAY = 100, 100, 200
MAX_UNFIT_A_DAY, MAX_NOTICES_A_DAY = 50, 20  # notices: of one kind
MAX_REASON = 2000  # characters
MAX_NAMED = 5  # runs or values in a text
MAX_TROUBLE_KEYS, MAX_TROUBLE_BYTES = 1000, 1 << 16
BEAT_S = 10.0  # between two searches for hosts that are due for a check


def check_host(host: Host) -> None:
    """Connect, send the agent if it is missing, read facts and health. A failure becomes the state of the host."""
    try:
        with ssh.Link(host) as link:
            record_contact(host, link.hello)
            read_facts(host, link)
            record_health(host, ask_health(host, link))
    except ProvingError as error:
        mark_unreachable(host, error)
    Host.objects.filter(pk=host.pk).update(check_requested_at=None)


def discover(host: Host, settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (facts, present value of each setting), see discover in agents/wire/protocol.py. Changes nothing on the
    host."""
    with ssh.Link(host) as link:
        return _facts(host, link), link.call("discover", settings=settings)


def discover_all(
    host: Host, settings: dict[str, Any], parameters_request: Callable[[dict[str, Any]], dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    """Return the same, and PostgreSQL's parameters as the existing clusters report them.

    `parameters_request` returns, for the facts, the arguments of the verb parameters in agents/wire/protocol.py."""
    with ssh.Link(host) as link:
        facts, observed = _facts(host, link), link.call("discover", settings=settings)
        request = parameters_request(facts)
        if not request["clusters"] or not request["names"]:
            return facts, observed, []
        run = link.hello["busy"] or next(iter(link.hello["dirty"]), None)
        return facts, observed, _not_now(run, request) if run else link.call("parameters", timeout_s=ASK_S, **request)


def _not_now(run: str, request: dict[str, Any]) -> list[dict[str, Any]]:
    refused = {"message": f"settings of run {run} are still in effect there", "hint": "try again when it has ended"}
    clusters = [{name: cluster[name] for name in ("name", "data_dir")} for cluster in request["clusters"]]
    return [{**cluster, "settings": {}, "refused": refused} for cluster in clusters]


def read_script_failures(host: Host, steps: list[dict[str, Any]], bin_dir: str) -> list[dict[str, Any]]:
    """The complaints of the host's tools about the scripts of these steps; see check in agents/wire/protocol.py."""
    with ssh.Link(host) as link:
        failures: list[dict[str, Any]] = link.call("check", steps=steps, bin_dir=bin_dir)["failures"]
        return failures


def ask_facts(host: Host, link: ssh.Link) -> dict[str, Any] | None:
    """Return the facts of the host without influence of runs. None while settings of a run are applied or were left."""
    return None if link.hello["busy"] or link.hello["dirty"] else _facts(host, link)


def prepare_facts(host: Host, link: ssh.Link) -> None:
    """Let the agent read the facts for `ask_facts` while the caller does other work. For a host without a run whose
    settings are in effect."""
    link.ask("facts", **_where(host))


def read_facts(host: Host, link: ssh.Link) -> Facts | None:
    """Read the same facts and store them."""
    facts = ask_facts(host, link)
    return record_facts(host, facts) if facts else None


def _facts(host: Host, link: ssh.Link) -> dict[str, Any]:
    facts: dict[str, Any] = link.call("facts", **_where(host))
    return facts


def _where(host: Host) -> dict[str, Any]:
    return {"pg_bin_dirs": host.pg_bin_dirs, "pg_data_dirs": host.pg_data_dirs}


def record_contact(host: Host, hello: dict[str, Any]) -> None:
    """Store the contents of hello. A dirty job quarantines the host until it is released.

    HostError for another machine than the one whose key was approved."""
    machines.check(host, hello["machine_id"], hello["boot_id"])
    fields = {
        "machine_id": hello["machine_id"],
        "level": hello["level"],
        "supervisor": hello["supervisor"],
        "units": hello["units"],
        "agent_digest": hello["agent"],
        "agent_version": hello["version"],
        "last_contact_at": timezone.now(),
    }
    Host.objects.filter(pk=host.pk).update(**fields)
    host.refresh_from_db()
    if host.state in (Host.State.NEW, Host.State.UNREACHABLE):
        _back(host, host.health)
        host.refresh_from_db()
    if hello["recovered"]:
        audit_restored(host, hello["recovered"])
    if hello["dirty"]:
        report_trouble(host, hello["dirty"][0], Trouble.Kind.DIRTY)
        quarantine(host, f"settings of run {first_names(hello['dirty'])} could not be restored")
    if hello["conflicts"]:
        _report_conflicts(host, hello["conflicts"])


def audit_restored(host: Host, recovered: list[dict[str, Any]]) -> None:
    """Write one audit row per contact. A host that reaches MAX_RESTORED_A_DAY is quarantined, and adds no more rows."""
    today = AuditEntry.objects.filter(at__gt=timezone.now() - DAY, action="host.restored", target=str(host))
    if today.count() < MAX_RESTORED_A_DAY:
        audit(None, "host.restored", host, after={"recovered": recovered})
    else:
        quarantine(host, f"it reported more than {MAX_RESTORED_A_DAY} times in a day that it restored settings")


def _report_conflicts(host: Host, runs: list[str]) -> None:
    """Report a problem for each run with new conflicts. A host with MAX_TROUBLES open ones is quarantined instead."""
    known = {
        str(run)
        for run in Trouble.objects.filter(run__in=runs, kind=Trouble.Kind.CONFLICT).values_list("run", flat=True)
    }
    new = [run for run in runs if run not in known]
    room = MAX_TROUBLES - host.troubles.filter(closed_at=None).count() if new else 0
    if len(new) > room:
        quarantine(host, f"it reports conflicts of {len(runs):,} runs; at most {MAX_TROUBLES} are kept open")
    for run in new[: max(0, room)]:
        report_trouble(host, run, Trouble.Kind.CONFLICT)


def ask(host: Host, verb: str) -> Any:
    """Return the agent's reply to a verb that changes something on the host. Restored values are stored as in any
    contact."""
    with ssh.Link(host) as link:
        record_contact(host, link.hello)
        answer = link.call(verb, timeout_s=ASK_S)
        record_contact(host, link.call("hello"))
    return {**answer, "recovered": [*link.hello["recovered"], *answer.get("recovered", [])]}


def release_host(host: Host) -> None:
    """Make the agent restore what is left. The host is in service again only if nothing remains.

    The actions are stored in the audit log, and as the resolution of the host's problems."""
    rows = Host.objects.filter(pk=host.pk)
    try:
        with ssh.Link(host) as link:
            recovered = [*link.hello["recovered"], *link.call("restore")["recovered"]]
            dirty = link.call("hello")["dirty"]
    except ProvingError as error:
        rows.update(state_reason=_short(f"not released: {error}"), release_requested_at=None)
        return
    _released(host, recovered, dirty)


@transaction.atomic
def _released(host: Host, recovered: list[dict[str, Any]], dirty: list[str]) -> None:
    did = [f"run {status['run']}: {action}" for status in recovered for action in status.get("did") or ["restored"]]
    left = f"still not restored after run {first_names(dirty)}; see the manifest of that run in {host.spool_dir}/jobs/"
    state = {"state": Host.State.QUARANTINED, "state_reason": left} if dirty else {"state": Host.State.READY}
    Host.objects.filter(pk=host.pk).update(**{"state_reason": "", "release_requested_at": None, **state})
    mended = host.troubles.filter(kind=Trouble.Kind.DIRTY, closed_at=None).exclude(run__in=dirty)
    resolution = _short("; ".join(did)) or "the agent found nothing left to restore"
    mended.update(closed_at=timezone.now(), closed_by=host.release_requested_by, resolution=resolution)
    audit(None, "host.restored", host, after={"recovered": recovered, "dirty": first_names(dirty)})


def report_trouble(
    host: Host, run: UUID | str, kind: str, keys: list[dict[str, Any]] | None = None, problems: list[str] | None = None
) -> None:
    """Report a problem for users, once for each run and kind. Details may be added later."""
    keys = _within(keys or [])
    fields = {"host": host, "keys": keys, "problems": _within(problems or [])}
    _, new = Trouble.objects.get_or_create(run=run, kind=kind, defaults=fields)
    if not new and keys:
        Trouble.objects.filter(run=run, kind=kind, keys=[]).update(keys=keys, problems=fields["problems"])


def _within(listed: list[T]) -> list[T]:
    """Return the first of these, as many as the server stores for a problem."""
    sizes = accumulate(len(canonical(each)) for each in listed[:MAX_TROUBLE_KEYS])
    return [each for each, size in zip(listed, sizes, strict=False) if size <= MAX_TROUBLE_BYTES]


def first_names(listed: Sequence[str]) -> str:
    """Return the first MAX_NAMED of these, and how many more there are."""
    more = f" and {len(listed) - MAX_NAMED:,} more" if len(listed) > MAX_NAMED else ""
    return f"{', '.join(listed[:MAX_NAMED])}{more}"


def _short(reason: str) -> str:
    """Return a text that quotes a host, cut to what pages, audit log and notifications contain."""
    return reason if len(reason) <= MAX_REASON else f"{reason[:MAX_REASON]}..."


@transaction.atomic
def record_facts(host: Host, data: dict[str, Any], at: datetime | None = None) -> Facts:
    """Store the newest facts: a new row if a lasting fact has changed, else new values in the same row."""
    seen_at = at or timezone.now()
    new = digest(changes.lasting(data))
    Host.objects.select_for_update().get(pk=host.pk)  # concurrent checks number their versions one after another
    newest = host.facts_history.order_by("-number").first()
    if newest and newest.digest == new:
        newest.data, newest.seen_at = data, seen_at
        newest.save(update_fields=["data", "seen_at"])
        return newest
    today = host.facts_history.filter(taken_at__gt=seen_at - DAY).count()
    if today >= MAX_FACTS_A_DAY:
        message = f"its facts changed {today} times in a day; at most {MAX_FACTS_A_DAY} versions are kept"
        raise HostError(host, message, hint="compare the versions on the host's page to see which fact changes")
    number = newest.number + 1 if newest else 1
    return Facts.objects.create(host=host, number=number, digest=new, data=data, taken_at=seen_at, seen_at=seen_at)


def ask_health(host: Host, link: ssh.Link) -> list[health.Row]:
    """Return the health of the host, judged by the limits of this instance."""
    asked_at = time.time()
    reported = link.call("health", paths=[host.spool_dir, host.data_dir])
    at = health.clock(asked_at, reported["wall"], time.time())
    limits = health.Limits(settings.HEALTH_FREE_MIB, settings.HEALTH_CLOCK_S, settings.HEALTH_CELSIUS)
    return health.health_rows(reported, link.hello, at, limits)


def record_health(host: Host, rows: list[health.Row]) -> None:
    """Store the rows of a check. A failed one takes the host out of service; the next successful check ends that."""
    Host.objects.filter(pk=host.pk).update(health=rows, health_checked_at=timezone.now())
    _back(host, rows)
    host.refresh_from_db()


def _back(host: Host, rows: list[health.Row]) -> None:
    """Put the host back in service as far as its health allows. Only a release by an admin ends a quarantine."""
    wrong = health.failed(rows)
    if wrong:
        mark_unfit(host, wrong)
    else:
        mark_fit(host)


@transaction.atomic
def mark_unfit(host: Host, reason: str) -> None:
    """Start no further run until a check succeeds; active runs continue. A quarantine is not overwritten, and begins
    when the health of a host has failed too often in a day."""
    reason = _short(reason)
    was = Host.objects.select_for_update().values_list("state", flat=True).get(pk=host.pk)
    if was != Host.State.QUARANTINED:
        Host.objects.filter(pk=host.pk).update(state=Host.State.UNFIT, state_reason=reason)
        if was != Host.State.UNFIT:
            _record_failure(host, was, reason)


def _record_failure(host: Host, was: str, reason: str) -> None:
    """Store that the health of a host has failed, or quarantine it after too many failures. A host that was not fit and
    then unreachable has not failed again."""
    today = AuditEntry.objects.filter(at__gt=timezone.now() - DAY, target=str(host))
    last = today.filter(action__in=("host.unfit", "host.fit")).order_by("-pk").first()
    if was != Host.State.READY and last and last.action == "host.unfit":
        return
    if today.filter(action="host.unfit").count() >= MAX_UNFIT_A_DAY:
        quarantine(host, f"its health failed more than {MAX_UNFIT_A_DAY} times in a day. The last time: {reason}")
        return
    audit(None, "host.unfit", host, after={"reason": reason})
    _notify("host.unfit", host, reason)


@transaction.atomic
def mark_fit(host: Host) -> None:
    """Make the host ready and clear the reason, unless it is quarantined."""
    was = Host.objects.filter(pk=host.pk).exclude(state__in=(Host.State.QUARANTINED, Host.State.READY))
    if was.filter(state=Host.State.UNFIT).exists():
        audit(None, "host.fit", host, before={"reason": host.state_reason})
    was.update(state=Host.State.READY, state_reason="")


def claim_checks(now: datetime) -> list[int]:
    """Claim hosts that are due for a check, oldest first and a limited number at a time.

    Hosts with an active run are left out: a check would disturb its measurement, and its ticks contact the host
    anyway."""
    since = now - timedelta(minutes=settings.HEALTH_EVERY_MIN)
    held = Lease.objects.filter(run__isnull=False).values("machine_id")
    known = Host.objects.filter(host_keys__state=HostKey.State.PINNED).exclude(state=Host.State.ARCHIVE)
    most = health.at_once(known.count(), settings.HEALTH_EVERY_MIN * 60, BEAT_S)
    silent = Q(last_contact_at=None) | Q(last_contact_at__lt=since)
    unasked = Q(health_checked_at=None) | Q(health_checked_at__lt=since)
    due = known.filter(silent, unasked).exclude(machine_id__in=held)
    oldest = due.order_by(F("health_checked_at").asc(nulls_first=True)).values_list("pk", flat=True)[:most]
    claimed = Host.objects.filter(unasked)
    return [pk for pk in oldest if claimed.filter(pk=pk).update(health_checked_at=now)]


@transaction.atomic
def mark_unreachable(host: Host, error: ProvingError) -> None:
    """Set the host to unreachable; it blocks its queue until it answers. A quarantine is not overwritten."""
    reason = _short(str(error))
    apart = (Host.State.QUARANTINED, Host.State.UNREACHABLE)
    if Host.objects.filter(pk=host.pk).exclude(state__in=apart).update(state=Host.State.UNREACHABLE):
        _notify("host.unreachable", host, reason)
    Host.objects.filter(pk=host.pk, state=Host.State.UNREACHABLE).update(state_reason=reason)


def _notify(kind: str, host: Host, reason: str) -> None:
    """Notify subscribers, unless they got MAX_NOTICES_A_DAY of this kind about this host today; in the caller's
    transaction."""
    recent = Delivery.objects.filter(kind=kind, created_at__gt=timezone.now() - DAY, payload__host=host.name)
    sent = recent.order_by().values("channel").annotate(count=Count("pk")).aggregate(most=Max("count"))["most"] or 0
    if sent >= MAX_NOTICES_A_DAY:
        log.warning("%s: no notification of %s, after %d of them in a day", host, kind, sent)
        return
    text = f"{host}: {KINDS[kind]}.\n\n{reason}"
    if sent == MAX_NOTICES_A_DAY - 1:
        text += f"\n\nThis is notification {MAX_NOTICES_A_DAY} of this kind within a day; no more follow for now."
    path = reverse("host_detail", args=[host.name])
    notify(
        kind, f"{host}: {KINDS[kind]}", {"text": text, "path": path, "host": host.name, "reason": reason}, about=[host]
    )


@transaction.atomic
def quarantine(host: Host, reason: str) -> None:
    """Start no further run until an admin releases the host."""
    reason = _short(reason)
    became = Host.objects.filter(pk=host.pk).exclude(state=Host.State.QUARANTINED)
    if became.update(state=Host.State.QUARANTINED, state_reason=reason):
        audit(None, "host.quarantine", host, after={"reason": reason})
        _notify("host.quarantined", host, reason)
