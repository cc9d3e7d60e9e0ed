"""The content of the home page. Only reads (SELECT)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Q
from django.utils import timezone

from apps.accounts.models import AuditEntry
from apps.campaigns import queries
from apps.campaigns.execution import schedule
from apps.campaigns.execution.live import Live, live
from apps.campaigns.models import Campaign, Run
from apps.campaigns.queries import Progress
from apps.decisions.models import Decision, Standing
from apps.decisions.validity import reviews
from apps.hosts.models import Host, HostKey, Trouble
from apps.results.queries import labels_of
from common.wording import host_state

RECENT = 8
FAILED_DAYS = 7
MOST_TROUBLES = 500


@dataclass(frozen=True)
class Now:
    """A campaign that runs or waits on a host, with its active run there, or the reason why none starts."""

    campaign: Campaign
    host: Host
    progress: Progress
    run: Run | None
    live: Live | None
    why: str


def running() -> list[Now]:
    """Return a line for each active run, and one for each waiting campaign.

    Four queries, and five more if a campaign waits."""
    campaigns = list(Campaign.objects.filter(state=Campaign.State.RUNNING).select_related("host")[:20])
    runs: dict[UUID, list[Run]] = {}
    for run in Run.objects.active().filter(campaign__in=campaigns).select_related("host").order_by("host__name"):
        runs.setdefault(run.campaign_id, []).append(run)
    live_by_run = live(run for active in runs.values() for run in active)
    progresses = queries.progresses(campaigns)
    idle = {campaign.host for campaign in campaigns if campaign.pk not in runs}
    why = schedule.waiting_reasons(idle, timezone.now()) if idle else {}
    lines = []
    for campaign in campaigns:
        progress = progresses[campaign.pk]
        for run in runs.get(campaign.pk, []):
            lines.append(Now(campaign, run.host, progress, run, live_by_run.get(run.pk), ""))
        if campaign.pk not in runs:
            lines.append(Now(campaign, campaign.host, progress, None, None, why.get(campaign.host_id, "")))
    return lines


@dataclass(frozen=True)
class Task:
    """Something that waits for a user."""

    kind: str
    text: str
    url_name: str
    key: Any


@dataclass(frozen=True)
class HostToCheck:
    """A host that a user must check: the problems that runs left there, each with its run if that still exists."""

    host: Host
    troubles: list[tuple[Trouble, Run | None]]
    since: datetime | None
    waiting: int

    @property
    def dirty(self) -> bool:
        """Whether the problem lists its values."""
        return any(trouble.kind == Trouble.Kind.DIRTY for trouble, _ in self.troubles)


def problems() -> list[HostToCheck]:
    """Return quarantined hosts first, then those with changed values. Four queries."""
    troubles = list(Trouble.objects.filter(closed_at=None).select_related("host")[:MOST_TROUBLES])
    hosts = {trouble.host_id: trouble.host for trouble in troubles}
    hosts |= {host.pk: host for host in Host.objects.filter(state=Host.State.QUARANTINED)}
    if not hosts:
        return []
    runs = Run.objects.filter(pk__in={trouble.run for trouble in troubles}).select_related("campaign__created_by")
    known = {run.pk: run for run in runs.defer("spec", "manifest")}
    since, waiting = _since(hosts.values()), _waiting(hosts)
    listed = [
        HostToCheck(
            host, [(t, known.get(t.run)) for t in troubles if t.host_id == pk], since.get(host.name), waiting.get(pk, 0)
        )
        for pk, host in hosts.items()
    ]
    return sorted(listed, key=lambda each: (each.host.state != Host.State.QUARANTINED, each.host.name))


def _since(hosts: Iterable[Host]) -> dict[str, datetime]:
    """Return when each host was quarantined last."""
    names = [host.name for host in hosts if host.state == Host.State.QUARANTINED]
    acts = AuditEntry.objects.filter(action="host.quarantine", target__in=names).order_by("at")
    return dict(acts.values_list("target", "at"))


def _waiting(hosts: Mapping[int, Host]) -> dict[int, int]:
    """Return the number of runs that wait for each host."""
    queued = Run.objects.filter(host__in=hosts, state=Run.State.QUEUED, campaign__state=Campaign.State.RUNNING)
    return dict(queued.order_by().values_list("host_id").annotate(Count("pk")))


def open_tasks() -> list[Task]:
    """Return the open tasks: hosts to approve, check or release; campaigns with failed runs; decisions to review."""
    return [*_hosts(), *_campaigns(), *_decisions()]


def _hosts() -> list[Task]:
    offered = Count("host_keys", filter=Q(host_keys__state=HostKey.State.OFFERED))
    hosts = Host.objects.annotate(offered=offered).exclude(state__in=(Host.State.READY, Host.State.ARCHIVE), offered=0)
    hosts = hosts.exclude(state=Host.State.QUARANTINED, offered=0)  # already listed by problems()
    return [Task(host.state, _why(host), "host_detail", host.name) for host in hosts]


def _why(host: Host) -> str:
    if host.state in (Host.State.QUARANTINED, Host.State.UNREACHABLE, Host.State.UNFIT):
        return f"{host} is {host_state(host.state)}: {host.state_reason}"
    return f"{host}: compare and approve its host key" if host.offered else f"{host}: fetch its host key"  # type: ignore[attr-defined]


def _campaigns() -> list[Task]:
    since = timezone.now() - timedelta(days=FAILED_DAYS)
    failed = Run.objects.filter(queries.FAILED, campaign=OuterRef("pk"))
    ran = Campaign.objects.filter(created_at__gt=since, archived_at=None).exclude(kind=Campaign.Kind.IMPORTED)
    campaigns = queries.with_run_counts(ran.filter(Exists(failed)).order_by("-created_at")[:RECENT])
    return [
        Task("failed", f"{campaign}: {_count(campaign)} not ok", "campaign_detail", campaign.pk)
        for campaign in campaigns
    ]


def _count(campaign: Any) -> str:
    return f"{campaign.failed} run{'' if campaign.failed == 1 else 's'}"


def _decisions() -> list[Task]:
    alive = (Decision.Status.ACCEPTED, Decision.Status.EXPIRED)
    due = Decision.objects.filter(review_on__lte=timezone.localdate(), status__in=alive)
    agreed = [Task("new", f"{decision}: review date reached", "decision_detail", decision.pk) for decision in due]
    contrary = [*reviews.contradicted(), *Decision.objects.filter(status=Decision.Status.CONTRADICTED)]
    went = Standing.objects.filter(decision=OuterRef("pk"), stale_since__isnull=False)
    stale = Decision.objects.alive().filter(Exists(went)).defer("evidence")
    return [
        *(
            Task("failed", f"{decision}: newer results contradict it", "decision_detail", decision.pk)
            for decision in contrary
        ),
        *(
            Task("stale", f"{decision}: hosts changed, so it may no longer hold", "decision_detail", decision.pk)
            for decision in stale
        ),
        *agreed,
    ]


def recent_campaigns() -> list[Campaign]:
    others = queries.listed().filter(archived_at=None).exclude(state=Campaign.State.RUNNING)
    return queries.with_run_counts(others.order_by("-created_at")[:RECENT])


def levels(campaign: Campaign) -> list[str]:
    """Return the combinations that ran, in the order of the design, as in the table of results."""
    runs = list(campaign.runs.select_related("campaign").only("cell", "campaign", "position").order_by("position"))
    there = {run.label for run in runs}
    return [label for label in labels_of(campaign, runs) if label in there]
