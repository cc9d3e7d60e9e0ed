"""The actions of users and of the system on a campaign, from the audit log. Only reads (SELECT)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q

from apps.accounts.models import AuditEntry
from apps.accounts.models.walls import hidden
from apps.campaigns.models import Campaign

SHOWN = 200


@dataclass(frozen=True)
class Entry:
    """`who` is empty if the system acted."""

    at: datetime
    who: str
    what: str
    detail: str


def history(campaign: Campaign) -> list[Entry]:
    """Return the entries, oldest first. One query, or two if a team is hidden from the reader."""
    key = str(campaign.pk)
    own = Q(after__contains={"id": key}, action__startswith="campaign.")
    about = own | Q(after__contains={"campaign": key}) | Q(after__contains={"cloned_from": key})
    rows = AuditEntry.objects.filter(about).select_related("actor").order_by("id")[:SHOWN]
    unseen = _hidden_clones(rows, key)
    return [_entry(row, campaign) for row in rows if (row.after or {}).get("id") not in unseen]


def _hidden_clones(rows: Iterable[AuditEntry], key: str) -> set[str]:
    """Ids of clones whose names the reader may not see. Deleted clones are among them, because their team is unknown.
    No query if no team is hidden."""
    clones = {str(row.after["id"]) for row in rows if (row.after or {}).get("cloned_from") == key}
    if not (clones and hidden()):
        return set()
    return clones - set(map(str, Campaign.objects.filter(pk__in=clones).values_list("pk", flat=True)))


def _entry(row: AuditEntry, campaign: Campaign) -> Entry:
    after = row.after or {}
    if after.get("cloned_from") == str(campaign.pk):
        what, detail = "was cloned", f"into {row.target}"
    else:
        word, tell = ACTIONS.get(row.action, (row.action, _nothing))
        what, detail = word, tell(row.before or {}, after)
    return Entry(row.at, row.actor.username if row.actor else "", what, detail)


def _nothing(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    return ""


def _created(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    return ", ".join([*(["as a clone"] if after.get("cloned_from") else []), f"seed {after['seed']}"])


def _runs(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    return f"{after['runs']} runs planned" + (f". {after['unchecked']}" if after.get("unchecked") else "")


def _reason(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    return str(after.get("reason") or before.get("reason") or "")


def _retried(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    runs = after["runs"]
    return f"run{'s' if len(runs) > 1 else ''} {', '.join(map(str, runs))} will run again"


def _renamed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    return "; ".join(f"{field}: {before[field]} → {after[field]}" for field in before if before[field] != after[field])


def _extended(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    blocks = after["repetitions"]
    levels = [f"{name}: {', '.join(labels)}" for name, labels in after["levels"].items()]
    more = f"by {blocks} repetition{'s' if blocks > 1 else ''}, {after['runs']} runs"
    return "; ".join([more, *(f"new levels of {level}" for level in levels)])


ACTIONS = {
    "campaign.create": ("was created", _created),
    "campaign.start": ("was started", _runs),
    "campaign.pause": ("was paused", _reason),
    "campaign.resume": ("was resumed", lambda before, after: f"was paused: {_reason(before, after)}"),
    "campaign.stop": ("was stopped", _reason),
    "campaign.cancel": ("was cancelled", _nothing),
    "campaign.retry": ("retries failed runs", _retried),
    "campaign.rename": ("was renamed", _renamed),
    "campaign.archive": ("was archived", _nothing),
    "campaign.unarchive": ("was unarchived", _nothing),
    "campaign.extend": ("was extended", _extended),
    "schedule.create": ("was put on a schedule", lambda before, after: f"{after['when']}, {after['time_zone']}"),
    "schedule.change": ("had its schedule changed", lambda before, after: f"{after['when']}, {after['time_zone']}"),
    "schedule.pause": ("had its schedule paused", _nothing),
    "schedule.resume": ("had its schedule resumed", _nothing),
    "schedule.delete": ("had its schedule deleted", _nothing),
    "search.create": ("had a value search created", _nothing),
    "search.resume": ("had its value search resumed", _nothing),
    "search.extend": ("had its value search extended", _nothing),
    "search.change": ("had its value search changed", _nothing),
    "search.pick": ("had trials of its value search picked", _nothing),
    "run.cancel": ("cancelled a run", lambda before, after: f"run {after['run']}" if "run" in after else ""),
}
