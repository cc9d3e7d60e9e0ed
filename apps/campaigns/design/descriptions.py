"""Sentences about the design of a campaign and the effects that it cannot separate, for pages and the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from apps.campaigns.design import nuisance, orders
from apps.campaigns.design.factors import Cell, Factor, read, text_of
from apps.campaigns.design.plan import cells_of
from apps.campaigns.design.request import Arrangement
from apps.campaigns.models import Campaign
from common.wording import and_of, counted

DRIFT = "drift within a block (temperature, page cache, autovacuum)"


def sentences(campaign: Campaign, drawn: bool = True) -> list[str]:
    """Return sentences on the combinations, their order, and what keeps other conditions equal.

    The seed of a campaign that is not saved yet may still be `drawn` when it is saved."""
    if campaign.kind != Campaign.Kind.COMPARISON:
        return []
    factors = read(campaign.factors)
    combinations = cells_of(Arrangement.of(campaign))
    varied = _varied(factors)
    seed = f"seed {campaign.seed}" if drawn else "its seed is drawn when the draft is saved"
    return [
        _combinations(campaign, varied, combinations, seed),
        *_conditions(factors),
        *_order(campaign, varied, seed),
        *_reboot(campaign),
        *_alike(campaign.nuisance),
    ]


def _varied(factors: Sequence[Factor]) -> Sequence[Factor]:
    """Without fixed settings, which are factors with one level; all of them if there are no others."""
    return [factor for factor in factors if len(factor.levels) > 1] or factors


def _combinations(campaign: Campaign, factors: Sequence[Factor], combinations: Sequence[Cell], seed: str) -> str:
    """Describe the combinations; with a single factor, they are its levels."""
    count, sizes = len(combinations), [len(factor.levels) for factor in factors]
    design, one = Campaign.Design, len(factors) == 1
    if campaign.design == design.ONE_AT_A_TIME:
        levels = {each.name: combinations[0][each.name] for each in factors if each.name in combinations[0]}
        return f"One factor at a time, from {text_of(levels)}: {counted(count, 'combination')}."
    if campaign.design == design.LIST:
        return f"The {counted(count, 'combination')} that {'is' if count == 1 else 'are'} listed."
    if campaign.design == design.LATIN_SQUARE and not one:
        rows, columns, inside = (factor.name for factor in factors)
        return f"A Latin square of {rows} and {columns} containing {inside}: {count} of {prod(sizes)} combinations."
    if campaign.design == design.RANDOM_SAMPLE:
        return f"{counted(count, 'combination')} drawn from a space of up to {prod(sizes)} ({seed})."
    if one:
        return f"{counted(count, 'level')} of {factors[0].name}."
    allowed = " that the conditions allow" if any(factor.follows for factor in factors) else ""
    return f"Every combination of {' × '.join(map(str, sizes))} levels{allowed}: {count}."


def _conditions(factors: Sequence[Factor]) -> Iterator[str]:
    for factor in factors:
        for level in factor.levels:
            for name, labels in level.when.items():
                yield f"{factor.name} {level.label} only with {name} {' or '.join(labels)}."


def _order(campaign: Campaign, factors: Sequence[Factor], seed: str) -> Iterator[str]:
    blocks = counted(campaign.repetitions, "block")
    if campaign.design == Campaign.Design.LATIN_SQUARE and len(factors) == 1:
        yield f"{blocks}, each a row of a Latin square: every level once at each position of a block ({seed})."
        return
    named = {
        "randomised": f"each in a random order ({seed})",
        "as_given": "in the given order",
        "descending": "in the given order, backwards",
        "abba": "in the given order, every second block backwards (ABBA)",
        "fewest_restarts": f"with as few restarts as possible, otherwise in a random order ({seed})",
    }
    yield f"{blocks} of all combinations, {named[campaign.order]}."
    for factor in factors:
        if factor.order:
            yield f"Within a block, {factor.name} runs {factor.order}."


def _reboot(campaign: Campaign) -> Iterator[str]:
    if campaign.reboot != Campaign.Reboot.NEVER:
        yield f"The host is restarted {campaign.get_reboot_display()}."


def _alike(alike: Mapping[str, Any]) -> Iterator[str]:
    run, step, warm = [], [], alike.get("warm_up") or {}
    if alike.get("drop_caches"):
        run.append("the page cache is dropped while PostgreSQL is down")
    if alike.get("cool_down_s"):
        run.append(f"the host cools down for {alike['cool_down_s']:g} s")
    if alike.get("checkpoint"):
        step.append("a CHECKPOINT runs")
    if alike.get("drop_caches") == "step":
        step.append("the page cache is dropped again")
    if run:
        yield f"Before each run {' and '.join(run)}."
    if warm:
        yield f"The first measured load runs before it as a warm-up, {_until(warm)}."
    if step:
        yield f"Before each measured step {' and '.join(step)}."


def _until(warm: Mapping[str, Any]) -> str:
    if "time_s" in warm:
        return f"for {warm['time_s']} s"
    window, within = warm.get("window_s", nuisance.WINDOW_S), warm.get("within", nuisance.WITHIN)
    rule = f"windows of {window} s, drift within {within * 100:.3g}\u202f%"
    return f"until its rate is steady, at most {warm['limit_s']} s ({rule})"


def threats(campaign: Campaign) -> list[str]:
    """Return the effects that the design cannot separate, for readers of its result."""
    if campaign.kind != Campaign.Kind.COMPARISON:
        return []
    factors = read(campaign.factors)
    combinations = cells_of(Arrangement.of(campaign))
    varied = _varied(factors)
    return [*_threats_of_order(campaign, varied, combinations), *_threats_of_design(campaign, varied)]


def _threats_of_order(campaign: Campaign, factors: Sequence[Factor], combinations: Sequence[Cell]) -> Iterator[str]:
    order = Campaign.Order
    if campaign.order in (order.AS_GIVEN, order.DESCENDING):
        yield f"Each block has the same order: {DRIFT} looks like an effect of the levels."
    if campaign.order == order.ABBA:
        yield "ABBA cancels a steady drift. A sudden drift, or one that repeats in each block, looks like an effect."
    if campaign.order == order.FEWEST_RESTARTS:
        yield _together(campaign, factors, combinations)
    fixed = and_of([factor.name for factor in factors if factor.order])
    if fixed:
        yield f"In each block, {fixed} changes in one direction: {DRIFT} looks like its effect."


def _together(campaign: Campaign, factors: Sequence[Factor], combinations: Sequence[Cell]) -> str:
    share = orders.share_starts(combinations, factors, campaign.target, campaign.reboot)
    if not share and orders.count_server_starts(combinations) in (1, len(combinations)):
        return "No combinations share a start of PostgreSQL, so the order is that of randomised blocks."
    plots = orders.whole_plots(factors, campaign.target, campaign.reboot) if share else orders.costly(factors)
    names = and_of([factor.name for factor in plots])
    grouped = f"Runs with the same {names} are grouped: {DRIFT} affects whole groups."
    if not share:
        return f"{grouped} Each run starts PostgreSQL, so the order saves no restarts of it."
    is_kept = orders.keeps_server(campaign.target, campaign.reboot)
    starts, of = ("starts", "PostgreSQL") if is_kept else ("boots", "the host")
    return f"{grouped} CIs between {starts} of {of} are wider, because they include the variation between {starts}."


def _threats_of_design(campaign: Campaign, factors: Sequence[Factor]) -> Iterator[str]:
    design = Campaign.Design
    if campaign.design == design.ONE_AT_A_TIME and len(factors) > 1:
        yield "One factor at a time cannot show interactions of factors."
    if campaign.design == design.LATIN_SQUARE and len(factors) > 1:
        yield "A Latin square assumes that its three factors do not interact."
