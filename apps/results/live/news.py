"""News of a run or a campaign since a page's last update. Only reads (SELECT)."""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from apps.campaigns.execution import by_hand, nudges
from apps.campaigns.models import Campaign, Run, RunEvent
from apps.campaigns.queries import MOST_EVENT_BYTES
from apps.results.live.hub import Word
from apps.results.runs import page_content
from apps.results.store import series

log = logging.getLogger(__name__)

BATCH, FIRST = 500, 20  # events: at most, and how many are read at first
MISSED = 3  # missing samples after which a source counts as silent
SILENT_S = 12.0  # longer than events gather on the host of a run that no user watches
CAMPAIGN_EVERY_S = 1.0
MOST_WATCHED = 4  # runs of one campaign whose events are read every second while a user watches the campaign
STATE_FIELDS = ("state", "outcome", "agent_state", "agent_state_at", "step", "last_seq", "cancel_requested_at", "error")


def watched() -> Any:
    """Return runs without the fields that a viewer need not read each time: spec, manifest, proof."""
    return Run.objects.only("pk", "started_at", *STATE_FIELDS)


def of_run(run: Run, after: int) -> dict[str, Any]:
    """Return the news after event `after`: {"seq", "state", ..., "samples", "progress", "lines"}.

    Only the newest batch, with `skipped` if there are more: the page then draws its chart again. `age_s`: age of the
    newest event; None while the run waits for a change by hand."""
    events, has_more = _newest(run.event_log.filter(seq__gt=after, seq__lte=max(run.last_seq, after)))
    samples, lines = _shown(events)
    progress = next((event.data for event in reversed(events) if event.kind == "progress"), None)
    newest = events[-1] if events else run.event_log.order_by("-seq").first()
    return {
        "seq": events[-1].seq if events else after,
        "skipped": has_more,
        "state": run.state,
        "outcome": run.outcome,
        "agent_state": run.agent_state,
        "doing": run.doing,
        "step": run.step,
        "trouble": (run.error or {}).get("message", ""),
        "cancelling": run.cancel_requested_at is not None,
        "changes": by_hand.changes(run),
        "age_s": _age(newest.at) if newest and run.agent_state != by_hand.WAITING else None,
        "ended": run.state == Run.State.ENDED,
        "samples": samples,
        "progress": {name: progress.get(name) for name in ("step", "done", "eta_s", "note")} if progress else None,
        "lines": lines,
    }


def _newest(listed: QuerySet[RunEvent]) -> tuple[list[RunEvent], bool]:
    """Return the newest events in their order, and whether there may be more: at most BATCH, and no more once they have
    MOST_EVENT_BYTES."""
    newest = listed.order_by("-seq")
    events = list(newest[:FIRST])
    size = sum(len(str(event.data)) for event in events)
    if len(events) == FIRST and size < MOST_EVENT_BYTES:
        for event in newest[FIRST:BATCH].iterator(chunk_size=FIRST):
            events.append(event)
            size += len(str(event.data))
            if size >= MOST_EVENT_BYTES:
                break
    return events[::-1], len(events) == BATCH or size >= MOST_EVENT_BYTES


def _shown(events: Iterable[RunEvent]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return (samples, lines of the log). An event that cannot be shown becomes a line that says so, because the others
    must be shown."""
    samples, lines = [], []
    for event in events:
        try:
            if event.kind == "sample":
                samples.append(series.shown_sample(event.seq, event.data))
            elif event.kind != "progress":
                lines.append(page_content.line_of(event))
        except Exception:
            log.exception("event %d of run %s cannot be shown", event.seq, event.run_id)
            lines.append(page_content.line_of(event, "this event cannot be shown; the log of the server has the cause"))
    return samples, lines


def _age(at: datetime) -> float:
    return max(0.0, (timezone.now() - at).total_seconds())


def silent_after(run: Run) -> float:
    """Return the seconds without an event after which the agent counts as silent."""
    return max(SILENT_S, MISSED * float(run.spec["collect"]["interval_s"]))


class RunWatch:
    """A run for all of its viewers. `seq`: the last event that they have."""

    def __init__(self, run: Run) -> None:
        self.pk, self.seq, self._sent_state = run.pk, run.last_seq, _state(run)

    def read_news(self) -> Word | None:
        """Return the news. One query without news, two otherwise. Marks the run as watched."""
        nudges.watch(self.pk)
        run = watched().filter(pk=self.pk).first()
        if run is None:
            return Word(self.seq, None, last=True)
        if run.last_seq == self.seq and _state(run) == self._sent_state:
            return None
        news = of_run(run, self.seq)
        self.seq, self._sent_state = run.last_seq, _state(run)
        return Word(self.seq, news, last=news["ended"])


def _state(run: Run) -> tuple[Any, ...]:
    return run.state, run.agent_state, run.step, run.cancel_requested_at, run.error


class CampaignWatch:
    """A campaign for all of its viewers, and the first of its runs. `seq`: identifies the state that is shown."""

    def __init__(self, pk: UUID, seq: int) -> None:
        self.pk, self.seq, self._next = pk, seq, 0.0

    def read_news(self) -> Word | None:
        if time.monotonic() < self._next:
            return None
        self._next = time.monotonic() + CAMPAIGN_EVERY_S
        news = of_campaign(self.pk)
        if news is None:
            return Word(self.seq, None, last=True)
        watch_runs(news)
        if news["seq"] == self.seq:
            return None
        self.seq = news["seq"]
        return Word(self.seq, news, last=not news["moving"])


def watch_runs(news: dict[str, Any]) -> None:
    """Mark the first active runs of a campaign's news as watched."""
    for run, *_ in news["active"][:MOST_WATCHED]:
        nudges.watch(run)


def of_campaign(pk: UUID) -> dict[str, Any] | None:
    """Return the progress in three queries, with a `seq` that changes with it. None if the campaign does not exist."""
    campaign = Campaign.objects.filter(pk=pk).values("state", "ended_at", "host__state").first()
    if campaign is None:
        return None
    runs = Run.objects.filter(campaign=pk).order_by()
    ended = Q(state=Run.State.ENDED)
    counts = runs.aggregate(total=Count("pk"), ended=Count("pk", filter=ended), read=Count("ingested_at"))
    active = (
        runs.filter(state__in=[Run.State.SUBMITTING, Run.State.RUNNING])
        .order_by("pk")
        .values_list("pk", "agent_state", "step")
    )
    moving = campaign["state"] != Campaign.State.DRAFT and (
        campaign["ended_at"] is None or counts["read"] < counts["ended"]
    )
    doing = [[str(key), state, step] for key, state, step in active]
    news = {"state": campaign["state"], "host": campaign["host__state"], "moving": moving, "active": doing, **counts}
    return {"seq": zlib.crc32(orjson.dumps(news)), **news}
