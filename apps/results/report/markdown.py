"""A report for a wiki: the same text and tables, without charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from apps.campaigns.models import Campaign
from apps.results.report.content import CampaignReport, mean, relative, report_of, verdict_text

SPECIAL = str.maketrans({each: f"\\{each}" for each in "\\`*_{}[]<>#|~"})


def report_markdown(campaign: Campaign) -> Iterator[str]:
    """Yield lines. Text of users is escaped."""
    report = report_of(campaign)
    yield from (f"{line}\n" for line in _lines(report))


def _lines(report: CampaignReport) -> Iterator[str]:
    campaign, table = report.campaign, report.table
    yield f"# {_plain(report.title)}"
    yield f"\n{_plain(campaign.question)}\n"
    yield f"> {_plain(table.sentence)}\n"
    yield f"{report.counted}. Made {report.made_at}, campaign `{campaign.pk}`."
    yield "\n## Results\n"
    head = [table.factor_names, "ok", f"{table.metric} ({table.unit})", f"against {table.baseline}", "verdict"]
    rows = [
        [
            level.label,
            f"{level.ok} of {level.planned}",
            mean(level),
            relative(level, table.baseline),
            verdict_text(level),
        ]
        for level in table.levels
    ]
    yield from _table(head, rows)
    yield from _section("Findings", [finding.sentence for finding in report.findings])
    yield from _section("Method", report.method)
    yield from _section("Design", [*report.design, *_factors(campaign)])
    yield "\n## Environment\n"
    for environment in report.environments:
        yield from _table(["host", environment.host], [[name, value] for name, value in environment.facts])
        if environment.versions > 1:
            host = _plain(environment.host)
            yield f"\n{host} changed during the campaign: {environment.versions} versions of its facts."
    yield from _section("Threats to validity", report.threats)
    if report.failed:
        yield "\n## Runs that were not successful\n"
        failed_rows = [
            [str(run.position + 1), run.label, run.outcome, (run.error or {}).get("message", "")]
            for run in report.failed
        ]
        yield from _table(["run", "levels", "outcome", "why"], failed_rows)


def _factors(campaign: Campaign) -> Iterator[str]:
    for factor in campaign.factors:
        yield f"{factor['name']}: {', '.join(level['label'] for level in factor['levels'])}."


def _section(title: str, sentences: Sequence[str]) -> Iterator[str]:
    if sentences:
        yield f"\n## {title}\n"
        yield from (f"- {_plain(sentence)}" for sentence in sentences)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(_plain(cell) for cell in head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(_plain(cell) for cell in row)} |"
    yield ""


def _plain(text: str) -> str:
    return " ".join(text.translate(SPECIAL).split())
