"""The chain of the audit log: each entry's seal contains the digest of the seal before it.

Entries are sealed after their transactions, because a lock that keeps their order until the commit would make all
changes wait for each other. Seals are numbered from 1 without gaps. To change or remove an entry, an attacker must
rewrite all later seals; an export, the syslog receiver or a noted seal reveals that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from apps.accounts.models import AuditEntry, AuditSeal
from common.errors import PlanError

LOCK = 5424
MOST_AT_ONCE = 5000
# An entry gets its time before its commit. No transaction takes this long.
LATEST_COMMIT = timedelta(days=1)
# Time in which the periodic work seals an entry.
SEAL_DELAY = timedelta(minutes=10)
# The fields that a digest covers, in this order, after the previous digest.
COVERED = ("number", "id", "at", "actor_id", "actor", "action", "target", "before", "after")
# Seals of earlier versions do not cover the name of the user.
COVERED_AT_FIRST = tuple(name for name in COVERED if name != "actor")
FAULTS_SHOWN = 20


@dataclass(frozen=True)
class Head:
    """Number and digest of a seal, as users note them elsewhere."""

    number: int
    digest: str

    @classmethod
    def of(cls, text: str) -> Head:
        """Parse NUMBER:DIGEST. PlanError for anything else."""
        number, _, digest = text.partition(":")
        if not number.isdecimal() or len(number) > 18 or len(digest) != 64:
            hint = "accepted: NUMBER:DIGEST, as verify_audit prints it"
            raise PlanError("head", f"{text[:90]!r} is not a seal", hint=hint)
        return cls(int(number), digest)

    def __str__(self) -> str:
        return f"{self.number}:{self.digest}"


EMPTY = Head(0, "")


def digest_of(line: Mapping[str, Any], previous: str, covered: Sequence[str] = COVERED) -> str:
    """SHA-256, in hex, of the previous digest and a line of the export, as JSON without spaces and with sorted keys."""
    values = [previous, *(line[name] for name in covered)]
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    # Surrogate halves cannot be in the database, but in a forged export.
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def line_of(entry: AuditEntry, number: int, digest: str = "") -> dict[str, Any]:
    """A sealed entry as a line of the export and of syslog."""
    return {
        "number": number,
        "id": entry.pk,
        "at": entry.at.astimezone(UTC).isoformat(timespec="microseconds"),
        "actor_id": entry.actor_id,
        "actor": entry.actor.username if entry.actor else "system",
        "action": entry.action,
        "target": entry.target,
        "before": entry.before,
        "after": entry.after,
        "digest": digest,
    }


def head() -> Head:
    """The newest seal."""
    newest = AuditSeal.objects.order_by("-number").values_list("number", "digest").first()
    return Head(*newest) if newest else EMPTY


def seal() -> int:
    """Seal the entries without a seal, the oldest first, and return their number. Does nothing while another process
    seals."""
    count, sealed = 0, MOST_AT_ONCE
    while sealed == MOST_AT_ONCE:
        sealed = _seal_some()
        count += sealed
    return count


@transaction.atomic
def _seal_some() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])
        if not cursor.fetchone()[0]:
            return 0
    rows = AuditEntry.objects.filter(seal=None).select_related("actor").order_by("id")
    newest = AuditSeal.objects.select_related("entry").order_by("-number").first()
    number, digest = (newest.number, newest.digest) if newest else (0, "")
    if newest:  # a time in the future, from a clock that was set back since, must not hide new entries
        rows = rows.filter(at__gt=min(newest.entry.at, timezone.now()) - LATEST_COMMIT)
    seals = []
    for entry in rows[:MOST_AT_ONCE]:
        number += 1
        digest = digest_of(line_of(entry, number), digest)
        seals.append(AuditSeal(number=number, entry=entry, digest=digest))
    AuditSeal.objects.bulk_create(seals, batch_size=1000)
    return len(seals)


def lines(after: int = 0) -> Iterator[dict[str, Any]]:
    """The sealed entries with a number above `after`, in the order of their seals."""
    rows = AuditSeal.objects.filter(number__gt=after).select_related("entry__actor").order_by("number")
    for row in rows.iterator(chunk_size=1000):
        yield line_of(row.entry, row.number, row.digest)


def verify(exported: Iterable[Mapping[str, Any]], noted: Head | None = None) -> tuple[Head, list[str]]:
    """The last seal of a complete chain, and sentences about entries that are missing, inserted or changed. `noted` is
    a seal that the chain must contain."""
    last, faults, count, has_noted = EMPTY, [], 0, noted is None or noted == EMPTY
    for line in exported:
        if fault := _fault(line, last):
            count += 1
            faults += [fault] if count <= FAULTS_SHOWN else []
        last = Head(line["number"], line["digest"])
        has_noted = has_noted or last == noted
    if count > FAULTS_SHOWN:
        faults.append(f"and {count - FAULTS_SHOWN} more")
    if not has_noted:
        faults.append(f"the noted seal {noted} is not in the chain, which ends at {last}: rewritten or truncated")
    return last, faults


def _fault(line: Mapping[str, Any], last: Head) -> str:
    """What is wrong with the line after the seal `last`, or ""."""
    number = line["number"]
    if number != last.number + 1:
        return f"seal {last.number + 1} is missing: the next one is {number}"
    if any(line["digest"] == digest_of(line, last.digest, covered) for covered in (COVERED, COVERED_AT_FIRST)):
        return ""
    return f"seal {number} does not fit entry {line['id']}, or the seal before it: one was changed"


def unsealed() -> int:
    """Entries that the periodic work should have sealed by now."""
    return AuditEntry.objects.filter(seal=None, at__lt=timezone.now() - SEAL_DELAY).count()
