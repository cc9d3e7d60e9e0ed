"""The team's timeline, page by page. Only reads (SELECT)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Team
from apps.campaigns import queries
from apps.campaigns.models import Campaign
from apps.decisions.models import Decision, DecisionQuerySet, Event
from apps.hosts.models import Host
from apps.request_values import first_moment, last_moment
from apps.searches.models import Round
from common.errors import PlanError

SHOWN = 50
# At the same time, decisions come first.
CAMPAIGN, EVENT, DECISION = range(3)


@dataclass(frozen=True)
class Criteria:
    """The filter of the timeline; empty fields filter nothing."""

    host: Host | None = None
    text: str = ""
    person: str = ""
    setting: str = ""
    team: Team | None = None
    since: date | None = None
    until: date | None = None

    def __bool__(self) -> bool:
        return any((self.host, self.text, self.person, self.setting, self.team, self.since, self.until))


@dataclass(frozen=True)
class TimelineEntry:
    """One line of the timeline: a decision, a campaign that ended, or an event of a decision."""

    at: datetime
    rank: int
    what: Decision | Campaign | Event = field(repr=False)

    @property
    def decision(self) -> Decision | None:
        return self.what if isinstance(self.what, Decision) else None

    @property
    def campaign(self) -> Campaign | None:
        return self.what if isinstance(self.what, Campaign) else None

    @property
    def event(self) -> Event | None:
        return self.what if isinstance(self.what, Event) else None

    @property
    def kind(self) -> str:
        """decision, campaign, or the kind of the event."""
        return self.event.kind if self.event else ("campaign", "", "decision")[self.rank]

    @property
    def title(self) -> str:
        return f"{self.event.decision.title} {self.event.get_kind_display()}" if self.event else str(self.what)

    @property
    def text(self) -> str:
        if self.event:
            return self.event.text
        return self.decision.decision if self.decision else self.campaign.question if self.campaign else ""

    @property
    def who(self) -> str:
        """The user; empty if the system acted."""
        by = self.event.by if self.event else self.decision.author if self.decision else None
        by = self.campaign.created_by if self.campaign else by
        return by.username if by else ""

    @property
    def path(self) -> str:
        if self.campaign:
            return reverse("campaign_detail", args=[self.campaign.pk])
        decision = self.event.decision if self.event else self.what
        return reverse("decision_detail", args=[decision.pk])

    @property
    def day(self) -> date:
        return timezone.localtime(self.at).date()

    @property
    def place(self) -> tuple[datetime, int, str]:
        return self.at, self.rank, str(self.what.pk).rjust(36, "0")

    @property
    def cursor(self) -> str:
        at, rank, key = self.place
        return f"{at.isoformat()}~{rank}~{key}"


@dataclass(frozen=True)
class Timeline:
    """A page of the timeline, and the cursor of older entries; "" if there are none."""

    entries: list[TimelineEntry]
    older: str


def timeline(criteria: Criteria, cursor: str = "", size: int = SHOWN) -> Timeline:
    """Return a page, newest first, older than `cursor` of the page before. Four queries, and two for the objects that
    it names.

    PlanError for an invalid cursor."""
    place = _place(cursor) if cursor else None
    entries = [
        *_entries(DECISION, "created_at", _decisions(criteria), criteria, place, size),
        *_entries(CAMPAIGN, "ended_at", _campaigns(criteria), criteria, place, size),
        *_entries(EVENT, "at", _events(criteria), criteria, place, size),
    ]
    entries.sort(key=lambda entry: entry.place, reverse=True)
    queries.with_run_counts(entry.campaign for entry in entries[:size] if entry.campaign)
    return Timeline(entries[:size], entries[size - 1].cursor if len(entries) > size else "")


def _entries(
    rank: int, name: str, rows: QuerySet[Any], criteria: Criteria, place: tuple[datetime, int, str] | None, size: int
) -> list[TimelineEntry]:
    if criteria.since:
        rows = rows.filter(**{f"{name}__gte": first_moment(criteria.since)})
    if criteria.until:
        rows = rows.filter(**{f"{name}__lte": last_moment(criteria.until)})
    if place:
        at, cut, key = place
        tie = Q(**{name: at}) if rank < cut else Q(pk__lt=_key(rank, key)) if rank == cut else Q(pk__in=[])
        rows = rows.filter(Q(**{f"{name}__lte": at}) & (Q(**{f"{name}__lt": at}) | tie))
    return [TimelineEntry(getattr(row, name), rank, row) for row in rows.order_by(f"-{name}", "-pk")[: size + 1]]


def decisions_with_names() -> DecisionQuerySet:
    return Decision.objects.select_related("author", "campaign").prefetch_related("hosts").defer("evidence")


def _decisions(criteria: Criteria) -> QuerySet[Decision]:
    decisions = _about(criteria, decisions_with_names().annotate(comments_count=Count("comments")))
    if criteria.text:
        matches = (
            Q(title__icontains=criteria.text)
            | Q(decision__icontains=criteria.text)
            | Q(question__icontains=criteria.text)
        )
        decisions = decisions.filter(matches)
    return decisions.filter(author__username=criteria.person) if criteria.person else decisions


def _about(criteria: Criteria, decisions: DecisionQuerySet) -> DecisionQuerySet:
    matching = decisions.about(criteria.host) if criteria.host else decisions
    matching = matching.filter(team=criteria.team) if criteria.team else matching
    return matching.filter(names__contains=[criteria.setting]) if criteria.setting else matching


def _campaigns(criteria: Criteria) -> QuerySet[Campaign]:
    ended = queries.listed().filter(ended_at__isnull=False).exclude(search_round__kind=Round.Kind.SEARCH)
    if criteria.host:
        ended = ended.filter(host=criteria.host)
    if criteria.team:
        ended = ended.filter(host__team=criteria.team)
    if criteria.text:
        ended = ended.filter(Q(name__icontains=criteria.text) | Q(question__icontains=criteria.text))
    if criteria.setting:
        ended = ended.annotate(varied=Cast("factors", TextField())).filter(
            varied__contains=f'"settings.{criteria.setting}'
        )
    return ended.filter(created_by__username=criteria.person) if criteria.person else ended


def _events(criteria: Criteria) -> QuerySet[Event]:
    events = Event.objects.select_related("decision", "host", "by", "campaign").defer("decision__evidence")
    if criteria.host:
        others = Q(host=None, decision__in=Decision.objects.about(criteria.host).values("pk"))
        events = events.filter(Q(host=criteria.host) | others)
    if criteria.team:
        events = events.filter(decision__team=criteria.team)
    if criteria.setting:
        events = events.filter(decision__names__contains=[criteria.setting])
    if criteria.text:
        events = events.filter(Q(text__icontains=criteria.text) | Q(decision__title__icontains=criteria.text))
    return events.filter(by__username=criteria.person) if criteria.person else events


def _key(rank: int, key: str) -> Any:
    return str(UUID(key)) if rank == CAMPAIGN else int(key)


def _place(cursor: str) -> tuple[datetime, int, str]:
    try:
        at, rank, key = cursor.split("~")
        moment, cut = datetime.fromisoformat(at), int(rank)
        _key(cut, key)
        if moment.tzinfo is None or cut not in (CAMPAIGN, EVENT, DECISION):
            raise ValueError
        return moment, cut, key
    except ValueError as error:
        hint = "omit it to begin with the newest"
        raise PlanError("cursor", f"{cursor[:60]!r} is not a cursor of the timeline", hint=hint) from error
