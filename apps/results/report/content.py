"""The content of a report, in order; its three formats only differ in presentation. Only reads (SELECT)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from apps.campaigns.design import descriptions
from apps.campaigns.history import Entry, history
from apps.campaigns.models import Campaign, Run
from apps.hosts.facts import topology
from apps.hosts.models import Facts
from apps.results import queries
from apps.results.answers.judgements import judgements
from apps.results.answers.sentences import Judgement
from apps.results.answers.summary import SummaryTable, summary_table
from apps.results.answers.table import CampaignTable, LevelRow
from apps.results.exchange import exports
from common import verdicts
from common.wording import percent, signed

MOST_FAILED = 50
METHOD = (
    "The unit of analysis is the run, never a second or a transaction of it. All computations use logarithms: "
    "means are geometric and changes are ratios. Only successful runs count, and their settings are proven. The "
    "other runs are listed."
)
WITHIN_BLOCKS = "The 95 % CIs of means are within blocks: they exclude the variation between blocks."


@dataclass(frozen=True)
class Environment:
    """A host while its runs ran: (name, value). `versions`: number of versions of its facts during the runs."""

    host: str
    facts: list[tuple[str, str]]
    versions: int


@dataclass(frozen=True)
class CampaignReport:
    campaign: Campaign
    made_at: str
    table: CampaignTable
    summary: SummaryTable | None
    findings: list[Judgement]
    environments: list[Environment]
    design: list[str]
    threats: list[str]
    failed: list[Run]
    outcomes: dict[str, int]
    history: list[Entry]
    csv: str

    @property
    def title(self) -> str:
        return self.campaign.name

    @property
    def method(self) -> list[str]:
        table_method = [f"{self.table.method[:1].upper()}{self.table.method[1:]}."] if self.table.method else []
        definition = [f"{self.table.metric} is {self.table.definition}."] if self.table.definition else []
        means = [WITHIN_BLOCKS] if self.table.within_blocks else []
        return [
            METHOD,
            *table_method,
            *means,
            *definition,
            f"The minimum effect of interest is {100 * self.table.delta:g} %.",
        ]

    @property
    def counted(self) -> str:
        """The numbers of runs: "40 runs: 38 ok, 2 failed"."""
        total = sum(self.outcomes.values())
        counts = ", ".join(f"{count} {outcome or 'not ended'}" for outcome, count in self.outcomes.items())
        return f"{total} run{'' if total == 1 else 's'}: {counts}"


def report_of(campaign: Campaign) -> CampaignReport:
    """Return the content. A dozen queries for any number of runs, and the table of runs as CSV."""
    table = queries.campaign_table(campaign)
    summary = summary_table(campaign)
    failed = (
        campaign.runs.exclude(outcome__in=("", Run.Outcome.OK)).select_related("campaign", "host").order_by("position")
    )
    outcomes = Counter(campaign.runs.order_by().values_list("outcome", flat=True))
    return CampaignReport(
        campaign=campaign,
        made_at=f"{timezone.now():%Y-%m-%d %H:%M} UTC",
        table=table,
        summary=summary if summary.adds else None,
        findings=judgements(campaign, table),
        environments=_environments(campaign),
        design=descriptions.sentences(campaign),
        threats=descriptions.threats(campaign),
        failed=list(failed.defer("spec", "manifest")[:MOST_FAILED]),
        outcomes=dict(outcomes.most_common()),
        history=history(campaign),
        csv="".join(exports.runs_csv(campaign)),
    )


def _environments(campaign: Campaign) -> list[Environment]:
    """Return each host, with the newest facts of a run of the campaign."""
    recorded = campaign.runs.exclude(facts=None).order_by().values_list("host__name", "facts").distinct()
    by_host: dict[str, list[int]] = {}
    for host, facts in recorded:
        by_host.setdefault(host, []).append(facts)
    known = Facts.objects.in_bulk({max(ids) for ids in by_host.values()})
    environments = [
        Environment(host, _key_facts(known[max(ids)].data), len(ids)) for host, ids in sorted(by_host.items())
    ]
    return environments or [Environment(campaign.host.name, [], 0)]


def _key_facts(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the main facts of a host, without those that an old agent did not report."""
    memory = (facts.get("memory") or {}).get("total_kb")
    clusters = sorted({str(installation.get("version", "")) for installation in facts.get("postgresql") or []} - {""})
    pages = facts.get("transparent_huge_pages") or {}
    firmware = facts.get("firmware") or {}
    machine = " ".join(filter(None, [firmware.get("sys_vendor"), firmware.get("product_name")]))
    rows = [
        ("Machine", machine or facts.get("virtualization") or ""),
        ("Topology", topology.line(facts)),
        ("Memory", f"{memory / 1024**2:.1f} GiB" if memory else ""),
        ("System", (facts.get("os") or {}).get("pretty", "")),
        ("Kernel", (facts.get("kernel") or {}).get("release", "")),
        ("PostgreSQL installed", ", ".join(clusters)),
        ("Transparent huge pages", pages.get("enabled", "")),
    ]
    return [(name, str(value)) for name, value in rows if value]


def relative(level: LevelRow, baseline: str) -> str:
    """Return "+2.94 % [+2.01, +3.87]", "baseline", or "" without an interval."""
    if level.label == baseline:
        return "baseline"
    if level.relative_percent is None:
        return ""
    if level.relative_low is None or level.relative_high is None:
        return percent(level.relative_percent)
    return f"{percent(level.relative_percent)} [{signed(level.relative_low)}, {signed(level.relative_high)}]"


def mean(level: LevelRow) -> str:
    if level.mean is None:
        return ""
    if level.low is None or level.high is None:
        return f"{level.mean:,.5g}"
    return f"{level.mean:,.5g} [{level.low:,.5g}, {level.high:,.5g}]"


def verdict_text(level: LevelRow) -> str:
    word = verdicts.verdict(level.verdict).word
    return f"{word} (preliminary)" if word and level.preliminary else word
