"""The decisions behind a setting, a profile or the values of a host. Only reads (SELECT)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.decisions.models import Decision
from apps.hosts.models import Host
from apps.tuning import rules
from apps.tuning.models import Profile

Status = Decision.Status
# Decisions that are followed come first.
ORDER = (Status.ACCEPTED, Status.EXPIRED, Status.PROPOSED, Status.CONTRADICTED, Status.SUPERSEDED)


@dataclass(frozen=True)
class Behind:
    """A decision about one value. `value`: the profile's own value, if a profile was requested."""

    decision: Decision
    path: str
    decided: Any
    value: Any = None
    agrees: bool | None = None


def behind(setting: str = "", host: Host | None = None, profile: Profile | None = None) -> list[Behind]:
    """Return the decisions for each path. Rejected ones are left out. Three queries.

    `setting`: a path or a group of paths. `host`: has to be in the scope."""
    rows = (
        Decision.objects.exclude(status__in=(Status.REJECTED, Status.WITHDRAWN))
        .exclude(settings={})
        .select_related("author")
    )
    rows = rows.prefetch_related("hosts").defer("evidence")
    if host:
        rows = rows.about(host)
    if setting:
        rows = rows.filter(names__contains=[setting])
    own = _own(profile)
    if profile:
        rows = rows.filter(names__overlap=list(own))
    decided = [each for decision in rows for each in _values(decision, setting, own if profile else None)]
    return sorted(decided, key=lambda each: (each.path, ORDER.index(Status(each.decision.status)), -each.decision.pk))


def _own(profile: Profile | None) -> dict[str, Any]:
    latest = profile.latest if profile else None
    return rules.flatten(latest.settings) if latest else {}


def _values(decision: Decision, setting: str, own: Mapping[str, Any] | None) -> list[Behind]:
    return [
        Behind(decision, path, value, (own or {}).get(path), None if own is None else own[path] == value)
        for path, value in rules.flatten(decision.settings).items()
        if (not setting or path == setting or path.startswith(f"{setting}.")) and (own is None or path in own)
    ]
