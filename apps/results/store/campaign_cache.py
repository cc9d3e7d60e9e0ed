"""Cached answers that need all runs of a campaign: table, summary, judgements, figures."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec
from django.db.models import Count, DecimalField, Max, Sum
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from agents.wire.protocol import digest
from apps.campaigns.execution.schedule import Counts, counts
from apps.campaigns.models import Campaign, Run
from apps.campaigns.queries import Break, Progress, breaks, median_s, progress
from apps.results import charts, queries
from apps.results.answers.changes.of_campaign import campaign_changes
from apps.results.answers.headline import headline
from apps.results.answers.interim_analyses import RUNNING
from apps.results.answers.judgements import judgements
from apps.results.answers.key_figures import KeyFigure, key_figures
from apps.results.answers.sentences import Judgement, by_topic, key_findings
from apps.results.answers.summary import SummaryTable, summary_table
from apps.results.answers.table import CampaignTable
from apps.results.models import CachedAnswer
from apps.results.store.answer_cache import cached_answer, json_of, program, store_answer, stored_answers
from common.errors import PlanError

# With at least this many runs, the task that reads a run's results also fills the cache.
FILLED_FROM = 500
ASKED = (
    *("kind", "factors", "design", "cells", "sample", "seed", "metric", "delta", "stop", "workload_id"),
    *("state", "extensions"),  # on which its intervals depend
)
ASKED_FOR, MOST_ASKED = "asked ", 100
# Parts of a campaign's page, and all of its cached contents, which one query reads.
LEVELS, SUMMARY, FINDINGS = (
    "results/tables/_levels.html",
    "results/tables/_summary.html",
    "results/findings/_findings.html",
)
CHANGES = "results/findings/_changes.html"
OF_A_PAGE = ("progress", "run_s", "breaks", "hosts", "table", LEVELS, SUMMARY, FINDINGS, CHANGES)


@dataclass
class CampaignCache:
    """Cached answers of a campaign: of one of its hosts, or of all."""

    campaign: Campaign
    host: int | None = None

    @cached_property
    def key(self) -> str:
        """A digest of all sources of its answers: one query, two with a stopping rule."""
        # Only the index run_content is read for it. PostgreSQL adds such numbers without overflow.
        content = Sum("content_hash", output_field=DecimalField(max_digits=40, decimal_places=0))
        totals = Run.objects.filter(campaign=self.campaign).order_by().aggregate(count=Count("*"), content=content)
        analysis = self.campaign.interim_analyses.aggregate(last=Max("pk"))["last"] if self.campaign.stop else None
        design = [getattr(self.campaign, name) for name in ASKED]
        return digest([design, totals["count"], str(totals["content"]), analysis, program()])

    def table(self) -> CampaignTable:
        """Return the table without its points: with many runs they are most of it, and a page shows them as a chart."""
        cached = self._get("table", lambda: _bare(self._whole))
        return msgspec.json.decode(cached, type=CampaignTable)

    def summary(self) -> SummaryTable:
        cached = self._get("summary", lambda: summary_table(self.campaign, self.host))
        return msgspec.json.decode(cached, type=SummaryTable)

    def key_figures(self, label: str) -> list[KeyFigure]:
        """Return the key figures of the level with this label."""
        name = f"key figures {digest(label)[:16]}"
        rows = self._get(name, lambda: key_figures(self.campaign, label, self.host))
        return msgspec.json.decode(rows, type=list[KeyFigure])

    def progress(self) -> Progress:
        """Return the progress, with the time left as of the last start or end of a run."""
        cached = self._get("progress", lambda: progress(self.campaign))
        return msgspec.json.decode(cached, type=Progress)

    def run_s(self) -> float | None:
        """Return the median duration of the runs that were ok, in seconds; None without any."""
        cached = self._get("run_s", lambda: median_s(self.campaign.runs.all()))
        return msgspec.json.decode(cached, type=float | None)

    def breaks(self) -> list[Break]:
        cached = self._get("breaks", lambda: breaks(self.campaign.pk))
        return msgspec.json.decode(cached, type=list[Break])

    def hosts(self) -> dict[int, Counts]:
        """Return the numbers of runs on each host: ended, all, and not ok."""
        cached = self._get("hosts", lambda: counts(self.campaign))
        return msgspec.json.decode(cached, type=dict[int, Counts])

    def levels_drawn(self) -> SafeString:
        """Return the table as HTML. Nothing in it depends on the user."""
        return self._drawn(LEVELS, lambda: {"campaign": self.campaign, "table": self.table()})

    def summary_drawn(self) -> SafeString:
        """Return the summary as HTML; "" if it has no more than the table."""
        return self._drawn(SUMMARY, lambda: {"campaign": self.campaign, "summary": self.summary()})

    def judgements_drawn(self) -> SafeString:
        return self._drawn(FINDINGS, self._findings)

    def changes_drawn(self) -> SafeString:
        """Return the changes with each level as HTML; "" if no collector ran."""
        return self._drawn(CHANGES, self._changes)

    def _changes(self) -> dict[str, Any]:
        """The level of the answer first; the page folds the others."""
        changes = campaign_changes(self.campaign, self._whole)
        best = headline(self.table().levels, self.table().better)
        levels = changes.first(best.label if best else "")
        is_running = self._whole.unplanned_analysis == RUNNING
        return {"changes": changes, "first": levels[:1], "others": levels[1:], "is_running": is_running}

    def _findings(self) -> dict[str, Any]:
        key, others = key_findings(self.judgements())
        return {"key": key, "topics": by_topic(others), "others": len(others)}

    def judgements(self) -> list[Judgement]:
        cached = self._get("judgements", lambda: judgements(self.campaign, self._whole, self.host))
        return msgspec.json.decode(cached, type=list[Judgement])

    def figure(self, theme: str, differences: bool = False, narrow: bool = False) -> bytes:
        """Return the campaign's chart as JSON: runs by level, or differences between levels; for a wide or narrow
        page."""
        palette, draw = charts.theme(theme), charts.difference_chart if differences else charts.level_chart
        what = "differences" if differences else "figure"
        name = f"{what}{' narrow' if narrow else ''}{' dark' if palette is charts.DARK else ''}"
        return self._get(name, lambda: draw(self._whole, palette, narrow))

    def answer(self, serialize: Callable[[CampaignTable], Any]) -> bytes:
        """Return the whole table with all its points, for the API."""
        return self._get("answer", lambda: serialize(self._whole))

    def cached_query(self, what: str, compute: Callable[[], Any]) -> bytes:
        """Return the answer to the query of a URL, as JSON. The newest MOST_ASKED of each campaign are cached."""
        if not self._known:
            return json_of(compute())
        name, key = self._named(f"{ASKED_FOR}{digest(what)[:16]}"), self.key
        if name in (stored := stored_answers(self.campaign, [name], key)):
            return stored[name]
        answer = store_answer(self.campaign, name, key, compute)
        newest = CachedAnswer.objects.filter(campaign=self.campaign, name__startswith=ASKED_FOR).order_by("-stored_at")
        CachedAnswer.objects.filter(pk__in=list(newest.values_list("pk", flat=True)[MOST_ASKED:])).delete()
        return answer

    def fill(self) -> None:
        """Compute what a page shows first."""
        self.table(), self.summary_drawn(), self.figure("light")

    @cached_property
    def _whole(self) -> CampaignTable:
        return queries.campaign_table(self.campaign, self.host)

    @cached_property
    def _known(self) -> bool:
        """Whether the campaign has this host. Nothing is stored for others, so that requests cannot fill the table."""
        return self.host is None or self.campaign.runs.filter(host=self.host).exists()

    def _drawn(self, template: str, context: Callable[[], dict[str, Any]]) -> SafeString:
        cached = self._get(template, lambda: render_to_string(template, context()))
        return SafeString(msgspec.json.decode(cached, type=str))

    def _get(self, name: str, compute: Callable[[], Any]) -> bytes:
        if not self._known:
            return json_of(compute())
        # The key is made before the runs are read: what changes meanwhile makes another one.
        named, key = self._named(name), self.key
        if name not in OF_A_PAGE:
            return cached_answer(self.campaign, named, key, compute)
        if named not in self._stored:
            self._stored[named] = store_answer(self.campaign, named, key, compute)
        return self._stored[named]

    def _named(self, name: str) -> str:
        return name if self.host is None else f"{name} on {self.host}"

    @cached_property
    def _stored(self) -> dict[str, bytes]:
        return stored_answers(self.campaign, [self._named(name) for name in OF_A_PAGE], self.key)


def _bare(table: CampaignTable) -> CampaignTable:
    return replace(table, levels=[replace(level, points=[]) for level in table.levels])


def fill(campaign: Campaign) -> None:
    """Fill the cache after a run of a large campaign was read."""
    if campaign.metric and campaign.runs.count() >= FILLED_FROM:
        with suppress(PlanError):  # figures that cannot be compared; the page reports that
            CampaignCache(campaign).fill()
