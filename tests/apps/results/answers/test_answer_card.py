"""The answer card of a campaign."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from apps.results.answers.answer_card import WIDER, answer_card
from apps.results.answers.headline import headline
from apps.results.answers.hosts import HostAnswer
from apps.results.answers.interim_analyses import RUNNING
from apps.results.answers.sentences import Judgement, key_findings
from apps.results.answers.table import CampaignTable, LevelRow


def level(label: str, verdict: str = "", percent: float | None = None, *, ok: int = 5, **more: Any) -> LevelRow:
    ends = {} if percent is None else {"relative_low": percent - 1, "relative_high": percent + 1}
    outcomes = {"ok": ok, **({"failed": more.pop("failed")} if "failed" in more else {})}
    return LevelRow(label, [], 5, outcomes, name=label, verdict=verdict, relative_percent=percent, ok=ok, **ends | more)


def table(*levels: LevelRow, better: str = "higher") -> CampaignTable:
    return CampaignTable("tps", "tps", better, "", "f", 0.02, levels[0].label, list(levels), "", "", None)


BASE = level("off")


@pytest.mark.parametrize(
    ("levels", "chosen"),
    [
        ([level("a", "worse", -50.0), level("b", "better", 6.0)], "b"),
        ([level("a", "better", 6.0), level("b", "better", 60.0)], "b"),
        ([level("a", "points_only", -18.0, ok=2), level("b", "better", 3.0)], "b"),
        ([level("a", "equivalent", 0.1), level("b", "undetectable", 4.0)], "b"),
    ],
)
def test_the_surest_gain_is_the_answer_and_of_several_the_largest(levels: list[LevelRow], chosen: str) -> None:
    answer = headline([BASE, *levels], "higher")

    assert answer and answer.label == chosen


def test_where_lower_is_better_the_lowest_wins() -> None:
    answer = headline([BASE, level("a", "better", -5.0), level("b", "better", -9.0)], "lower")

    assert answer and answer.label == "b"


def test_a_sure_gain_asks_for_a_decision() -> None:
    card = answer_card(table(BASE, level("on", "better", 11.8)), ended=True, planned=5)

    assert (card.word, card.tone, card.step, list(card.badges)) == (
        "Better",
        "better",
        "decide",
        ["5 of 5 runs per level"],
    )
    assert card.bar and card.bar.margin[1] < card.bar.ends[0] < card.bar.estimate < card.bar.ends[1]


def test_a_preliminary_verdict_asks_for_the_missing_repetitions_and_says_how_long_they_take() -> None:
    few = [level("off", ok=3), level("on", "better", 11.8, ok=3, preliminary=True)]

    card = answer_card(table(*few), ended=True, planned=3, run_s=60.0)

    assert (card.step, card.repetitions, card.seconds) == ("extend", 2, 240.0)
    assert card.badges[0] == "preliminary"


def test_an_inconclusive_verdict_asks_for_a_campaign_of_the_runs_needed() -> None:
    open_ = level("on", "undetectable", 1.0, mde_percent=3.1, runs_needed=20)

    card = answer_card(table(BASE, open_), ended=True, planned=5, run_s=60.0)

    assert (card.word, card.step, card.repetitions, card.seconds) == ("Inconclusive", "repeat", 20, 2400.0)
    assert card.note == "Minimum detectable effect: 3.1 % (80 % power)."


def test_an_effect_that_needs_more_than_a_week_is_not_resolvable() -> None:
    open_ = level("on", "undetectable", 1.0, mde_percent=145.0, runs_needed=4375)

    card = answer_card(table(BASE, open_), ended=True, planned=5, run_s=600.0)

    assert card.step == "" and card.note.startswith("An effect of 2 % is not resolvable on this host within a week.")


def test_failed_runs_are_on_the_card_with_retry_as_the_next_step() -> None:
    few = level("on", "better", 11.8, ok=3, preliminary=True, failed=2)

    card = answer_card(table(BASE, few), ended=True, planned=5, retriable=2)

    assert card.step == "retry"
    assert "2 of 10 runs failed or were cancelled" in card.badges


@pytest.mark.parametrize(
    ("levels", "note"),
    [
        ([level("off", ok=0), level("on", ok=0)], "No run has ended yet."),
        ([level("off", ok=0, failed=3), level("on", ok=0, failed=3)], "Every run failed or was cancelled."),
        ([level("off", ok=0, failed=3), level("on", ok=3)], "The baseline off has no successful run."),
        ([level("off", ok=3), level("on", ok=0)], "Only the baseline has results."),
    ],
)
def test_without_a_comparison_the_card_says_why(levels: list[LevelRow], note: str) -> None:
    card = answer_card(table(*levels), ended=True)

    assert (card.level, card.note) == (None, note)


def test_at_most_five_findings_are_shown_and_none_is_lost() -> None:
    topics = ["noise", "data", "failed", "comparison", "comparison", "best", "latency", "drift", "sensitivity"]
    judgements = [Judgement(topic, f"{place}", "note") for place, topic in enumerate(topics)]

    key, others = key_findings(judgements)

    assert [each.topic for each in key] == ["data", "failed", "comparison", "best", "latency"]
    assert sorted(each.sentence for each in key + others) == sorted(judgement.sentence for judgement in judgements)


def test_one_run_per_level_is_in_the_singular() -> None:
    few = table(level("12", ok=1), level("14", "points_only", 89.1, ok=1))

    assert "1 run per level" in answer_card(few, ended=True, planned=0).badges


def test_no_figure_breaks_the_scale() -> None:
    for percent in (0.0, 1e-9, 99999.0, -99.999):
        card = answer_card(table(BASE, level("on", "undetectable", percent)), ended=True)
        assert card.bar and 2 <= len(card.bar.ticks) <= 7

    endless = replace(level("on", "undetectable", 1.0), relative_high=float("inf"))
    assert answer_card(table(BASE, endless), ended=True).bar is None


@pytest.mark.parametrize("percent", [390.0, -97.0, 1000.0, 3.0])
def test_the_labels_of_the_scale_fit_into_the_drawing(percent: float) -> None:
    card = answer_card(table(BASE, level("on", "better", percent)), ended=True)

    assert card.bar and all(45 <= x <= 600 - 45 for x, _ in card.bar.ticks)


def test_on_several_hosts_the_planned_runs_are_those_of_all_hosts() -> None:
    hosts = [HostAnswer(place, f"rack-{place}", None, []) for place in (1, 2)]
    both = replace(table(level("off", ok=6), level("on", "points_only", 47.0, ok=6)), hosts=hosts)

    card = answer_card(both, ended=True, planned=3)

    assert list(card.badges) == ["6 of 6 runs per level"]
    assert (card.word, card.step, card.note) == (
        "Too few hosts",
        "",
        "A verdict over all hosts needs 3 hosts. Each host has its own verdict below.",
    )


@pytest.mark.parametrize(("analysed", "note"), [("on", ""), ("other", WIDER)])
def test_the_interval_of_a_stopping_rule_is_not_called_wider(analysed: str, note: str) -> None:
    analysis = {"number": 2, "met": False, "comparison": {"a": "off", "b": analysed}}
    running = replace(table(BASE, level("on", "better", 11.8)), unplanned_analysis=RUNNING, interim_analysis=analysis)

    assert answer_card(running, ended=False).note == note
