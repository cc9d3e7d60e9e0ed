"""Single runs: those that do not count, differences between them, and findings from their samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, Min, Q, Value

from apps.campaigns.models import DataUse, Run
from apps.campaigns.queries import breaks
from apps.results.answers import interim_analyses
from apps.results.answers.judgements.judged_campaign import JudgedCampaign
from apps.results.answers.sentences import Judgement
from apps.results.models import StepStability
from common.wording import and_of, counted, first_of

MOST_NAMED = 10
# Of runs: which ones, and the finding.
UNSTEADY: Mapping[str, tuple[str, Q, str]] = {
    "unsteady": ("warm-up", Q(steady=False), "reached no steady state"),
    "trending": ("trend", Q(trending=True), "kept rising or falling after the warm-up"),
    "stalled": ("stalls", Q(stalled_s__gt=0), "stalled"),
    "few": ("checkpoints", Q(few_checkpoints=True), "write but had fewer than 2 checkpoints"),
}


def failed(judged: JudgedCampaign) -> Iterator[Judgement]:
    """Yield the runs that do not count. If they all belong to one level, that level looks better than it is."""
    lost = {level.label: level.not_ok for level in judged.table.levels if level.not_ok}
    total = sum(lost.values())
    if not total:
        return
    ended = sum(count for level in judged.table.levels for outcome, count in level.outcomes.items() if outcome)
    one_level = total > 1 and len(lost) == 1 and len(judged.table.levels) > 1
    where = f", all of level {next(iter(lost))}," if one_level else ""
    sentence = f"{total} of {counted(ended, 'run')} failed or were cancelled{where} and are excluded."
    yield Judgement("failed", sentence, "warning", {"failed": lost, "ended": ended})


def zeros(judged: JudgedCampaign) -> Iterator[Judgement]:
    """Yield the runs with a result of zero. Their level looks better without them."""
    counts = {level.label: level.zeros for level in judged.table.levels if level.zeros}
    if counts:
        total, metric = sum(counts.values()), judged.table.metric
        verb = "are" if total > 1 else "is"
        sentence = f"{counted(total, 'run')} with {metric} 0 cannot be compared and {verb} excluded."
        yield Judgement("zeros", sentence, "warning", {"zeros": counts})


def other_data(judged: JudgedCampaign) -> Iterator[Judgement]:
    """Yield the data sets that changed between runs, as a dump does that is replaced: these runs are not comparable."""
    uses = DataUse.objects.filter(run__campaign=judged.campaign, run__outcome=Run.Outcome.OK).exclude(fingerprint="")
    if judged.host is not None:
        uses = uses.filter(run__host=judged.host)
    counts: dict[tuple[str, str], list[int]] = {}
    versions = uses.values_list("definition", "name", "fingerprint").annotate(
        runs=Count("run"), first=Min("run__position")
    )
    for definition, name, _, runs, _ in versions.order_by("definition", "first"):
        counts.setdefault((definition, name), []).append(runs)
    for (_, name), runs in counts.items():
        if len(runs) > 1:
            sentence = (
                f"The runs did not load the same data: the data set {name} had {len(runs)} versions, in "
                f"{and_of([str(count) for count in runs])} runs. Clone the campaign, and keep the dump unchanged "
                "while it runs."
            )
            yield Judgement("data", sentence, "warning", {"dataset": name, "runs": runs})


def unlike(judged: JudgedCampaign) -> Iterator[Judgement]:
    """Yield changes of the host between runs, and runs that were added because of earlier results."""
    for host_break in breaks(judged.campaign.pk):
        yield Judgement(
            "host",
            host_break.sentence,
            "warning",
            {"before": host_break.before_position, "after": host_break.after_position},
        )
    if judged.is_running:
        yield Judgement("running", interim_analyses.NOT_ENDED, "note")
    if judged.campaign.state == judged.campaign.State.CANCELLED and judged.table.unplanned_analysis:
        never = sum(level.outcomes.get("", 0) for level in judged.table.levels)
        when = f"before {counted(never, 'planned run')} began" if never else "during its last runs"
        sentence = f"Cancelled {when}. The 95 % CIs are wider to allow for that."
        yield Judgement("extension", sentence, "warning", {"not_begun": never})
    for extension in judged.campaign.extensions:
        if extension["seen"]:
            yield Judgement("extension", extended(extension), "warning", {"seen": extension["seen"]})


def extended(extension: Mapping[str, Any]) -> str:
    """Return the warning that runs were added to a campaign after its first results."""
    return (
        f"Extended on {extension['at'][:10]} after {counted(extension['seen'], 'run')} had results. The 95 % CIs "
        "are wider so that they hold however many runs are added."
    )


def stability(judged: JudgedCampaign) -> Iterator[Judgement]:
    """Yield the numbers of runs with warm-up, stalls or other findings in their samples."""
    rows = StepStability.objects.filter(run__campaign=judged.campaign, run__outcome=Run.Outcome.OK)
    if judged.host is not None:
        rows = rows.filter(run__host=judged.host)
    counts = rows.aggregate(
        judged=Count("run", distinct=True),
        known=Count("run", distinct=True, filter=Q(steady__isnull=False)),
        **{name: _positions(which) for name, (_, which, _) in UNSTEADY.items()},
    )
    analysed, known = counts["judged"], counts["known"]
    if analysed > known:
        sentence = f"{analysed - known} of {analysed} runs were too short to detect a warm-up."
        yield Judgement("warm-up", sentence, "unknown", {"runs": analysed - known})
    for name, (topic, _, phrase) in UNSTEADY.items():
        if counts[name]:
            numbers = [str(place + 1) for place in counts[name]]
            which = f"run{'s' * (len(numbers) > 1)} {first_of(numbers, MOST_NAMED)}"
            sentence = f"{len(numbers)} of {analysed} runs {phrase}: {which}."
            yield Judgement(topic, sentence, "warning", {"runs": len(numbers)})
    if known and not any(counts[name] for name in UNSTEADY):
        yield Judgement("warm-up", f"None of {known} runs shows an unsteady rate, a trend or a stall.", "note")


def _positions(which: Q) -> ArrayAgg:
    return ArrayAgg("run__position", filter=which, distinct=True, order_by="run__position", default=Value([]))
