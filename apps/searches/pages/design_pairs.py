"""What a search varies, measures and confirms, as its page lists it."""

from __future__ import annotations

from collections.abc import Iterator

from django.template.defaultfilters import date, pluralize

from apps.accounts.templatetags.pages import brief, percent
from apps.searches import results, rounds
from apps.searches.constraints import MeasuredConstraint
from apps.searches.models import Search
from apps.searches.space import Dimension, Space
from apps.web.pairs import BREAK, Pair, Part, code, joined, muted, pair

MINUTE = "Y-m-d H:i"


def design_pairs(search: Search, varied: Space) -> Iterator[Pair]:
    yield pair("Settings", *joined(BREAK, (_setting(search, each) for each in varied.dimensions)))
    default = [(code(path), f" {brief(value)}") for path, value in rounds.default_level(search.campaign).items()]
    nothing = "the values of the profile and the defaults of PostgreSQL"
    yield pair("Default", *joined(", ", default, none=nothing))
    metrics = " and ".join(filter(None, [search.campaign.metric, search.second_metric]))
    margin = f"minimum effect of interest {percent(search.campaign.delta)}"
    yield pair("Metrics" if search.second_metric else "Metric", f"{metrics}, {margin}")
    if limits := results.default_checks(search):
        yield pair("Constraints", *joined(BREAK, map(_limit, limits)))
    blocks = f"{search.blocks} block{pluralize(search.blocks)}"
    yield pair("Rounds", f"{search.candidates} candidates beside the default, {blocks}, randomised; seed {search.seed}")
    yield pair("Confirmation", f"{_confirmed(search)} beside the default, {search.confirmation_blocks} blocks")
    if search.earlier or search.earlier_left_out:
        yield pair("Earlier trials", *_earlier(search))
    yield pair("Owner", search.owner, muted("campaigns run with this user's permissions"))
    ended = f", ended {date(search.ended_at, MINUTE)}" if search.ended_at else ""
    yield pair("Created", f"{date(search.created_at, MINUTE)}{ended}")


def _setting(search: Search, dimension: Dimension) -> tuple[Part | str, ...]:
    name, condition = dimension.name, dimension.when
    fixed = Part(f"fixed at {dimension.text(search.fixed[name])}", "strong") if name in search.fixed else ""
    when = muted(f"when {condition[0]} = {', '.join(condition[1])}") if condition else ""
    return code(name), f" {dimension.shown} ", fixed, when


def _limit(check: MeasuredConstraint) -> tuple[Part, ...]:
    default = f"{check.text}{'' if check.is_met else ', which breaks it'}" if check.text else "not measured yet"
    return code(check.constraint.line), muted(f"default: {default}")


def _confirmed(search: Search) -> str:
    if search.picked:
        return f"trial{pluralize(search.picked)} {', '.join(map(str, search.picked))}, picked by a user,"
    return f"at most {search.finalists} candidate{pluralize(search.finalists)}"


def _earlier(search: Search) -> Iterator[Part | str]:
    trials = f"{len(search.earlier)} trial{pluralize(search.earlier)}"
    yield f"The optimiser learns from {trials} of earlier searches. They are not confirmed."
    if search.earlier_left_out:
        reasons = ", ".join(f"{count} ({reason})" for reason, count in search.earlier_left_out.items())
        yield from (BREAK, muted(f"Left out: {reasons}"))
