"""Compare a newer campaign with the frozen evidence of a decision. Only reads (SELECT)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from apps.campaigns.models import Campaign
from apps.decisions.models import Decision, Review
from apps.results import queries
from apps.results.answers.interim_analyses import RUNNING
from apps.results.answers.table import CampaignTable, LevelRow
from common import verdicts
from common.verdicts import BETTER_FAILING
from stats.model import PRELIMINARY_BELOW

Verdict = Review.Verdict
# An effect can differ from day to day; a verdict has the variation within its own campaign only.
TWO_CAMPAIGNS = (
    "How effects vary between campaigns is not included; repeat the campaign before you replace the decision."
)
FAILS_MORE = "A level is better, but more of its runs or transactions fail than at the baseline."
NEITHER = "This neither confirms nor contradicts the decision."


def review_verdict(decision: Decision, campaign: Campaign, host: int | None = None) -> tuple[str, str]:
    """Return (verdict, sentence), of one host or of all."""
    return against_evidence(decision.evidence, campaign, lambda: queries.campaign_table(campaign, host))


def against_evidence(
    frozen: Mapping[str, Any], campaign: Campaign, read_table: Callable[[], CampaignTable]
) -> tuple[str, str]:
    """Return (verdict, sentence). A contradiction in one level outweighs the others."""
    then = {row["label"]: row["verdict"] for row in frozen["table"]["levels"]}
    if not _same_levels(frozen["campaign"]["factors"], campaign.factors):
        return Verdict.OPEN, "It compared different settings."
    table = read_table()
    if table.baseline != frozen["table"]["baseline"]:
        return (
            Verdict.OPEN,
            f"It compared with {table.baseline}; the evidence compared with {frozen['table']['baseline']}.",
        )
    if table.metric != frozen["table"]["metric"]:
        return Verdict.OPEN, f"It compared {table.metric}; the evidence compared {frozen['table']['metric']}."
    sure = [row for row in table.levels if _is_certain(row.verdict) and not row.preliminary]
    certain = [row for row in sure if _is_certain(then.get(row.label, ""))]
    contrary = [row for row in certain if row.verdict != then[row.label]]
    if contrary:
        return Verdict.CONTRADICTS, " ".join([*(_sentence(row, then[row.label]) for row in contrary), TWO_CAMPAIGNS])
    failing = [row for row in table.levels if _fails_now(row, then.get(row.label, ""))]
    if failing:
        return Verdict.OPEN, " ".join([*(_sentence(row, then[row.label]) for row in failing), NEITHER])
    if certain:
        return Verdict.CONFIRMS, " ".join(row.sentence for row in certain)
    return Verdict.OPEN, "No comparison that both campaigns made is certain in both."


def caution(compared: Sequence[tuple[str, bool]], unplanned_analysis: str = "") -> str:
    """Return why a decision on these (verdict, is preliminary) pairs is premature; "" if it is not.
    `unplanned_analysis`: as the table has it."""
    if unplanned_analysis == RUNNING:
        return "The result is preliminary: the campaign had not ended."
    names = [name for name, _ in compared]
    if BETTER_FAILING in names and not any(verdicts.verdict(name).is_better for name in names):
        return FAILS_MORE
    decisive = [preliminary for name, preliminary in compared if verdicts.verdict(name).is_decisive]
    if not decisive:
        return "The result is inconclusive: no level is shown to be better, worse or equivalent."
    return f"The result is preliminary: some levels have fewer than {PRELIMINARY_BELOW} runs." if all(decisive) else ""


def _is_certain(name: str) -> bool:
    return verdicts.verdict(name).is_certain


def _fails_now(row: LevelRow, then: str) -> bool:
    """Return whether a level that was better is still better, but fails more often than the baseline."""
    return row.verdict == BETTER_FAILING and then == "better" and not row.preliminary


def _sentence(row: LevelRow, then: str) -> str:
    return f"The evidence found {row.label} {then}. Now: {row.sentence}"


def _same_levels(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> bool:
    """Return whether they have the same factors, and equal labels set equal values."""
    one, other = _sets(ours), _sets(theirs)
    factors = {factor for factor, _ in one} == {factor for factor, _ in other}
    return factors and all(one[each] == other[each] for each in one.keys() & other.keys())


def _sets(factors: list[dict[str, Any]]) -> dict[tuple[str, str], Any]:
    return {(factor["name"], level["label"]): level["set"] for factor in factors for level in factor["levels"]}
