"""Counts what a search lost, doubled or attributed to a wrong trial, while its server was killed.

The truth is what the agents sealed. The values that PostgreSQL had in each run say which trial the run belongs to, not
the label that the server gave it.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from apps.campaigns.models import Campaign, Run
from apps.results.models import Measurement
from apps.searches import budget, results, rounds, space
from apps.searches.models import Round, Search, Trial
from apps.searches.space import Space, Values
from tests.faults.counts import audit
from tests.faults.searches.findings import SearchFindings

Key = tuple[tuple[str, Any], ...]  # of values, sorted by the name of the setting


def of_search(search: Search) -> SearchFindings:
    """The findings for a search that has ended. Its campaigns are those whose names begin with its name."""
    trials = list(search.trials.order_by("number"))
    ran = Run.objects.filter(campaign__search_round__search=search).order_by("started_at")
    campaigns = list(search.rounds.select_related("campaign").order_by("number"))
    return SearchFindings(
        trials=len(trials),
        rounds=len(campaigns),
        runs=ran.count(),
        state=search.state,
        lost=[*_lost_trials(trials, campaigns), *_lost_rounds(campaigns), *_lost_runs(campaigns)],
        doubled=[*_doubled(search, trials, campaigns), *_over_budget(search, ran.count())],
        misattributed=[*_wrong_levels(search, trials, campaigns), *_wrong_values(search), *_wrong_ratios(search)],
        events=audit.of_runs(ran),
    )


def _labels(campaign: Campaign) -> list[str]:
    return [level["label"] for level in campaign.factors[0]["levels"]]


def _lost_trials(trials: list[Trial], campaigns: list[Round]) -> Iterator[str]:
    if [trial.number for trial in trials] != list(range(1, len(trials) + 1)):
        yield f"the numbers of trials have gaps: {[trial.number for trial in trials]}"
    planned = {label for campaign in campaigns for label in _labels(campaign.campaign)}
    for trial in trials:
        if trial.label not in planned:
            yield f"{trial} is in no round"
        if trial.state == Trial.State.ASKED:
            yield f"{trial} has no result"


def _lost_rounds(campaigns: list[Round]) -> Iterator[str]:
    if [campaign.number for campaign in campaigns] != list(range(1, len(campaigns) + 1)):
        yield f"the numbers of rounds have gaps: {[campaign.number for campaign in campaigns]}"
    for campaign in campaigns:
        if campaign.state != Round.State.DONE or campaign.campaign.state != Campaign.State.FINISHED:
            yield f"{campaign} is {campaign.state}, its campaign {campaign.campaign.state}"


def _lost_runs(campaigns: list[Round]) -> Iterator[str]:
    for campaign in campaigns:
        planned = len(_labels(campaign.campaign)) * campaign.campaign.repetitions
        measured = audit.measured_once(campaign.campaign.runs.all())
        if measured != planned:
            yield f"{campaign.campaign}: {measured} of {planned} runs were measured once"


def _doubled(search: Search, trials: list[Trial], campaigns: list[Round]) -> Iterator[str]:
    for key, count in Counter(_key(trial.values) for trial in trials).items():
        if count > 1:
            yield f"{count} trials have the values {key}"
    for campaign in campaigns:
        cells = Counter((run.block, run.cell[results.FACTOR]) for run in campaign.campaign.runs.all())
        yield from (f"{campaign.campaign}: {count} runs of {cell}" for cell, count in cells.items() if count > 1)
    named = Campaign.objects.filter(cloned_from=search.campaign, name__startswith=f"{search.name}: ")
    if named.count() != len(campaigns):
        yield f"{named.count()} campaigns for {len(campaigns)} rounds"
    confirmations = Counter(campaign.kind for campaign in campaigns)[Round.Kind.CONFIRMATION]
    if confirmations > 1:
        yield f"{confirmations} confirmations"


def _over_budget(search: Search, runs: int) -> Iterator[str]:
    spent = budget.of(search).spent_runs
    if spent != runs or (search.budget_runs is not None and runs > search.budget_runs):
        yield f"{runs} runs, {spent} of them counted, for a budget of {search.budget_runs}"


def _wrong_levels(search: Search, trials: list[Trial], campaigns: list[Round]) -> Iterator[str]:
    """Levels that do not set the values of their trial."""
    default, varied = rounds.default_level(search.campaign), space.read(search.space)
    expected = {trial.label: {**default, **varied.level(trial.values)} for trial in trials} | {results.DEFAULT: default}
    for campaign in campaigns:
        for level in campaign.campaign.factors[0]["levels"]:
            if level["set"] != expected.get(level["label"]):
                yield f"{campaign.campaign}: {level['label']} sets {level['set']}, not {expected.get(level['label'])}"


def _wrong_values(search: Search) -> Iterator[str]:
    """Runs in which PostgreSQL did not have the values of the trial that they are labelled with."""
    by_label = _values_by_label(search)
    for run in Run.objects.filter(campaign__search_round__search=search, outcome=Run.Outcome.OK):
        label, observed = run.cell[results.FACTOR], in_effect(run, space.read(search.space))
        if observed != by_label.get(label):
            yield f"{run} is of {label}, {by_label.get(label)}; PostgreSQL had {observed}"


def _wrong_ratios(search: Search) -> Iterator[str]:
    """Trials whose figures differ from those of the runs with their values in the blocks of the default."""
    default = _values_by_label(search)[results.DEFAULT]
    blocks: dict[tuple[Any, int], dict[Key, float]] = {}
    searched = Run.objects.filter(campaign__search_round__search=search, outcome=Run.Outcome.OK)
    for run in searched.filter(campaign__search_round__kind=Round.Kind.SEARCH):
        figure = Measurement.objects.get(run=run, name=search.campaign.metric).value
        blocks.setdefault((run.campaign_id, run.block), {})[in_effect(run, space.read(search.space))] = figure
    for trial in search.trials.all():
        key = _key(trial.values)
        ratios = [math.log(own[key] / own[default]) for own in blocks.values() if key in own and default in own]
        mean = sum(ratios) / len(ratios) if ratios else math.nan
        if trial.blocks != len(ratios) or trial.log_ratio is None or not math.isclose(trial.log_ratio, mean):
            yield f"{trial} has {trial.log_ratio} of {trial.blocks} blocks; its runs have {mean} of {len(ratios)}"


def _values_by_label(search: Search) -> dict[str, Key]:
    default, varied = rounds.default_level(search.campaign), space.read(search.space)
    values = {
        dimension.name: _value(varied, dimension.name, str(default[dimension.path])) for dimension in varied.dimensions
    }
    return {trial.label: _key(trial.values) for trial in search.trials.all()} | {results.DEFAULT: _key(values)}


def in_effect(run: Run, varied: Space) -> Key:
    """The values of the varied settings that PostgreSQL had, by the events that the agent sealed."""
    names = {dimension.name for dimension in varied.dimensions}
    proofs = [line["data"] for line in audit.lines_of(run) if line["kind"] == "proof"]
    own = [proof for proof in proofs if proof["setting"] == "postgresql" and proof["subject"] in names]
    return _key({each["subject"]: _value(varied, each["subject"], each["found"]) for each in own})


def _value(varied: Space, name: str, text: str) -> Any:
    dimension = next(each for each in varied.dimensions if each.name == name)
    return space.value_of(name, dimension, text)


def _key(values: Mapping[str, Any] | Values) -> Key:
    """Numbers as PostgreSQL shows them: six digits."""
    return tuple(sorted((name, value if isinstance(value, str) else f"{value:.6g}") for name, value in values.items()))


def main(search_id: str) -> None:
    """Print the findings of a search as JSON."""
    sys.stdout.write(json.dumps(asdict(of_search(Search.objects.get(pk=search_id)))) + "\n")
