"""Renders a random campaign: table, answer card and findings, and the contradictions in them."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence

from apps.campaigns.models import Campaign
from apps.results.answers.answer_card import AnswerCard, answer_card
from apps.results.answers.headline import ORDER
from apps.results.answers.interim_analyses import RUNNING
from apps.results.answers.judgements import certainty, effects, latency, levels, runs
from apps.results.answers.judgements.judged_campaign import JudgedCampaign
from apps.results.answers.result_table import result_table
from apps.results.answers.sentences import Judgement
from apps.results.answers.table import CampaignTable
from common.verdicts import verdict
from stats.model import decide
from tests.truth.sentences.contradictions import contradictions, order_of, verdict_in
from tests.truth.sentences.other_pages import wrong_of_table, wrong_on_other_pages
from tests.truth.sentences.random_campaigns import RUN, Random, random_campaign

# Topics that need no database.
TOPICS: tuple[Callable[[JudgedCampaign], Iterable[Judgement]], ...] = (
    latency.at_fixed_rate,
    levels.too_few,
    levels.comparisons,
    levels.failures,
    levels.cpu,
    levels.best,
    effects.effects,
    certainty.noise,
    certainty.sensitivity,
    certainty.needed,
    certainty.order_trend,
    runs.failed,
    runs.zeros,
    levels.many,
    latency.loops,
)
OF_TPS = re.compile(r": tps [+-]")


def table_of(made: Random) -> CampaignTable:
    return result_table(made.campaign, made.metric, made.labels, made.runs, made.values, made.newest)


def findings(made: Random, table: CampaignTable) -> list[Judgement]:
    judged = JudgedCampaign(made.campaign, table, None)
    vars(judged)["run_s"] = RUN.total_seconds()
    if not judged.rows:
        nothing = Judgement("data", table.sentence, "unknown")
        return [nothing, *latency.at_fixed_rate(judged), *runs.failed(judged), *runs.zeros(judged)]
    return [each for topic in TOPICS for each in topic(judged)]


def card_of(made: Random, table: CampaignTable) -> AnswerCard:
    ended = made.campaign.state in (Campaign.State.FINISHED, Campaign.State.CANCELLED)
    return answer_card(
        table, ended=ended, retriable=made.retriable, run_s=RUN.total_seconds(), planned=made.campaign.repetitions
    )


def sentences(number: int) -> list[str]:
    """All sentences of one random campaign."""
    made = random_campaign(number)
    table = table_of(made)
    card = card_of(made, table)
    written = [table.sentence, table.disagreement, card.word, card.note, *card.badges]
    written += [level.sentence for level in table.levels]
    written += [finding.sentence for finding in findings(made, table)]
    return [each for each in written if each]


def wrong(number: int) -> list[str]:
    """Errors and contradictions in one random campaign."""
    try:
        made = random_campaign(number)
        table = table_of(made)
        card = card_of(made, table)
        on_page = [*_wrong_rows(made, table), *_wrong_card(made, table, card), *_wrong_findings(made, table, card)]
        return [*on_page, *wrong_of_table(number, made.campaign, table), *wrong_on_other_pages(number)]
    except Exception as error:  # the error is the result
        place = traceback.extract_tb(error.__traceback__)[-1]
        return [f"{type(error).__name__} in {place.name}: {error}"]


def _wrong_rows(made: Random, table: CampaignTable) -> Iterator[str]:
    better, delta = made.metric.better, made.campaign.delta
    for text in (table.sentence, table.disagreement, table.method):
        yield from (f"{each}: {text}" for each in contradictions(text, better, delta))
    for level in table.levels:
        # While a campaign runs, its verdicts stay: the tests of failures hold for one reading.
        has_ended = table.unplanned_analysis != RUNNING
        if has_ended and level.failures and level.verdict in ("better", "direction_better"):
            yield f"{level.verdict} although more transactions fail: {level.sentence}"
        if level.sentence and not level.sentence.startswith("Too few") and "cannot be compared" not in level.sentence:
            stated = verdict_in(level.sentence)
            if stated != level.verdict:
                yield f"verdict {level.verdict}, sentence {stated}: {level.sentence}"
        if level.relative_low is None or level.relative_high is None:
            continue
        bounds = (level.relative_low, level.relative_high)
        expected = decide(bounds, bounds, delta, better)  # type: ignore[arg-type]
        if level.verdict in ("better", "worse", "undetectable") and expected not in (level.verdict, "equivalent"):
            yield f"verdict {level.verdict}, interval {expected}: {level.sentence}"
        if level.mean is None or level.low is None or level.high is None:
            continue
        if not level.low * (1 - 1e-9) <= level.mean <= level.high * (1 + 1e-9):
            yield f"mean {level.mean:g} outside of {level.low:g} to {level.high:g}"


def _wrong_card(made: Random, table: CampaignTable, card: AnswerCard) -> Iterator[str]:
    for text in (card.word, card.note, *card.badges):
        yield from (f"{each}: {text}" for each in contradictions(text, made.metric.better, made.campaign.delta))
    if card.level is None:
        if any(level.verdict for level in table.levels):
            yield "a card without a level, although a level has a verdict"
        return
    verdicts = [level.verdict for level in table.levels if level.verdict]
    yield from order_of(verdicts, card.level.verdict, ORDER)
    if card.word != "Too few hosts" and card.word != verdict(card.level.verdict).word.capitalize():
        yield f"card says {card.word}, level is {card.level.verdict}"
    if card.tone != verdict(card.level.verdict).tone:
        yield f"card has the tone {card.tone}, level is {card.level.verdict}"
    if card.bar and card.level.relative_low is not None and card.level.relative_high is not None:
        for end, place in ((card.level.relative_low, card.bar.ends[0]), (card.level.relative_high, card.bar.ends[1])):
            if (end > 0) != (place > card.bar.zero) and abs(place - card.bar.zero) > 0.2:
                yield f"bar is on the other side of 0 than {end:g} %"
    if card.step == "repeat" and card.repetitions <= min(card.level.ok, _baseline_runs(table)):
        yield f"proposes {card.repetitions} repetitions, which the campaign already has"
    if card.step == "decide" and card.level.preliminary:
        yield "proposes to decide on a preliminary verdict"


def _baseline_runs(table: CampaignTable) -> int:
    return next(level.ok for level in table.levels if level.label == table.baseline)


def _wrong_findings(made: Random, table: CampaignTable, card: AnswerCard) -> Iterator[str]:
    written = findings(made, table)
    for finding in written:
        errors = [*contradictions(finding.sentence, made.metric.better, made.campaign.delta), *_of_topic(finding)]
        yield from (f"{error}: {finding.sentence}" for error in errors)
    yield from _of_fixed_rate(made, written)
    analysis = table.interim_analysis
    why = table.unplanned_analysis
    unplanned = analysis and analysis["comparison"] and why not in ("", RUNNING) and not analysis["met"]
    if unplanned and "unplanned analysis" not in card.badges:
        yield "no badge for an unplanned analysis"


def _of_fixed_rate(made: Random, written: Sequence[Judgement]) -> Iterator[str]:
    if made.metric.name != made.campaign.metric and "fixed rate" not in {finding.topic for finding in written}:
        yield f"compares {made.metric.name}, but does not say why"
    if made.campaign.steps[0]["options"] and any(OF_TPS.search(each.sentence) for each in written):
        yield "compares tps at a fixed rate"


def _of_topic(finding: Judgement) -> Iterator[str]:
    figures = finding.figures
    if finding.topic == "sensitivity":
        within = " within the minimum effect" in finding.sentence
        if within == (finding.tone == "warning"):
            yield "within the minimum effect, but a warning"
    if finding.topic == "drift" and figures.get("total_percent") is not None:
        total, (low, high) = figures["total_percent"], figures["interval"]
        if "drifted" in finding.sentence and low <= 0 <= high:
            yield "says drifted, but the interval includes 0"
        if low * high > 0 and total * low < 0:
            yield "the drift over all runs has another sign than that of one run"
    needed = finding.topic == "runs needed" and figures["runs_needed"] <= figures["runs"]
    if needed and "exist" not in finding.sentence:
        yield "needs fewer runs than there are"
