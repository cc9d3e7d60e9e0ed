"""Findings from a run's own samples, step by step: computed once, when its results are read, and shown as sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

import stats
from agents.workloads import RATES, WORKLOADS
from apps.campaigns.design import steps
from apps.campaigns.models import Run
from apps.results.answers.sentences import Judgement
from apps.results.models import Mark, Measurement, StepStability
from apps.results.store import samples
from apps.results.store.fold import Table
from common.verdicts import Tone
from common.wording import percent
from stats.model import Floats

# With fewer samples, noise is mistaken for a warm-up too often; see docs/background/statistics.md.
FEWEST = 60
CYCLES = 2
MOST_STALLS = 50
P99 = 99.0


def stability_findings(run: Run) -> list[StepStability]:
    """Return the findings of each measured step that has a rate. Its marks and samples are stored. Saves nothing."""
    marks = [mark for mark in run.marks.all() if mark.kind != Mark.Kind.SECTION]
    logged = run.artefacts.filter(path="out/postgresql.log").exclude(content=None).exists()
    rows = []
    for step in steps.measured(run.spec["steps"]):
        table = _rate(run, step["name"])
        if table is not None:
            writes = logged and WORKLOADS[step["kind"]].writes(step["options"])
            own = [mark for mark in marks if mark.step == step["name"]]
            rows.append(_of_step(run, step["name"], *table, own, writes))
    return rows


def _rate(run: Run, step: str) -> tuple[Floats, Floats] | None:
    """Return seconds since the step started, and the rate; None if no source has one."""
    for series in run.series.filter(step=step, source__in=RATES):
        names = RATES[series.source]
        table: Table = samples.assemble(series.blocks.order_by("first"), {"t", *names})
        rates = [table[name] for name in names if name in table]
        if rates:
            some = np.logical_or.reduce([~np.isnan(rate) for rate in rates])
            return table["t"], np.where(some, np.nansum(rates, axis=0), np.nan)
    return None


def _of_step(run: Run, step: str, t: Floats, rate: Floats, marks: list[Mark], writes: bool) -> StepStability:
    inside = _inside(t, marks)
    last = float(t[-1]) if t.size else 0.0
    whole = sum(mark.t >= 0 and mark.until is not None and mark.until <= last for mark in marks)
    every = float(np.median(np.diff(t))) if t.size > 1 else 1.0
    data: dict[str, Any] = {"samples": int(t.size), "every_s": round(every, 3), "writes": writes, "checkpoints": whole}
    row = StepStability(run=run, step=step, data=data, few_checkpoints=writes and whole < CYCLES)
    if np.isfinite(rate).sum() < FEWEST:
        return row
    warm_up = stats.warm_up(rate, masked=inside | _stalled(rate))
    steady_part = rate[warm_up.cut :]
    slope, lost = stats.trend(steady_part, run.campaign.delta), stats.dips(steady_part)
    row.steady, row.trending, row.stalled_s = (
        warm_up.steady,
        bool(slope and slope.flagged),
        round(lost.stalled * every, 3),
    )
    data["warm_up_s"] = round(float(t[warm_up.cut] - t[0]), 3)
    data["suspected_s"] = round(warm_up.suspected * every, 3)
    data["mean"], data["mean_of_all"] = warm_up.mean, float(np.nanmean(rate))
    data["trend"] = asdict(slope) if slope else None
    data["lost"] = lost.lost_fraction
    data["depth"] = stats.dip_depth(steady_part, inside[warm_up.cut :])
    spans = lost.stalls[:MOST_STALLS]
    data["stalls"] = [[_begin(t, warm_up.cut + one, every), _begin(t, warm_up.cut + two, every)] for one, two in spans]
    return row


def _stalled(rate: Floats) -> NDArray[np.bool_]:
    """Return which samples belong to a stall, which would be mistaken for the end of a warm-up."""
    stalled = np.zeros(rate.size, dtype=bool)
    for begin, end in stats.dips(rate).stalls:
        stalled[begin:end] = True
    return stalled


def _begin(t: Floats, place: int, every: float) -> float:
    """Return the start of a sample's interval: a sample covers the time before it."""
    return round(float(t[place] if place < t.size else t[-1] + every) - every, 3)


def _inside(t: Floats, marks: Iterable[Mark]) -> NDArray[np.bool_]:
    """Return which samples were taken during a checkpoint; one without an end continues."""
    inside = np.zeros(t.size, dtype=bool)
    for mark in marks:
        inside |= (t >= mark.t) & (t <= (np.inf if mark.until is None else mark.until))
    return inside


def findings(rows: Iterable[StepStability], measurements: Iterable[Measurement]) -> list[Judgement]:
    """Return sentences for a run's page, with the name of the step if there are several."""
    rows = list(rows)
    judgements = []
    for row in rows:
        where = f"Step {row.step}: " if len(rows) > 1 else ""
        judgements += [
            Judgement(sentence.topic, where + sentence.sentence, sentence.tone, sentence.figures)
            for sentence in _sentences(row)
        ]
    return [*judgements, *_beyond_limit(measurements)]


def _sentences(row: StepStability) -> Iterator[Judgement]:
    data = row.data
    if row.steady is None:
        many = f"{data['samples']} samples at {data['every_s']:g} s"
        sentence = f"Too short to separate a warm-up from noise: {many}, but at least {FEWEST} are needed."
        yield Judgement("warm-up", sentence, "unknown", {"samples": data["samples"]})
        return
    yield _of_warm_up(row, data)
    yield _of_trend(row, data)
    yield _of_stalls(row, data)
    yield from _of_checkpoints(row, data)


def _of_warm_up(row: StepStability, data: Mapping[str, Any]) -> Judgement:
    length = data["samples"] * data["every_s"]
    figures = {name: data[name] for name in ("warm_up_s", "mean", "mean_of_all")} | {"steady": row.steady}
    if not row.steady:
        sentence = (
            f"No steady state within {length:g} s: half of the time was not enough to warm up. Measure for longer."
        )
        return Judgement("warm-up", sentence, "warning", figures)
    if data.get("suspected_s"):
        sentence = (
            f"No warm-up shown: the first {data['suspected_s']:g} s differ no more than the later rate fluctuates."
        )
        return Judgement("warm-up", sentence, "note", figures)
    if not data["warm_up_s"]:
        return Judgement("warm-up", f"Steady from the start of its {length:g} s.", "note", figures)
    share = 100 * (data["mean_of_all"] / data["mean"] - 1)
    sentence = (
        f"Steady after {data['warm_up_s']:g} s of {length:g} s. The tool's figure covers the whole run, warm-up "
        f"included: {percent(share)} from the steady rate."
    )
    return Judgement("warm-up", sentence, "warning" if abs(share) >= 50 * row.run.campaign.delta else "note", figures)


def _of_trend(row: StepStability, data: Mapping[str, Any]) -> Judgement:
    slope = data["trend"]
    if slope is None:
        return Judgement("trend", "No trend can be fitted: half of the samples are 0.", "warning", {})
    # Rows of older releases have no `negligible`; their intervals were too narrow for that claim.
    trend = stats.Trend(**({"negligible": False} | slope))
    tone: Tone = "warning" if row.trending else "note" if trend.negligible else "unknown"
    return Judgement("trend", trend.sentence(), tone, slope)


def _of_stalls(row: StepStability, data: Mapping[str, Any]) -> Judgement:
    lost = f"dips lost {100 * data['lost']:.1f} % of the work at the median rate"
    figures = {"stalled_s": row.stalled_s, "lost": data["lost"], "stalls": data["stalls"]}
    if not row.stalled_s:
        return Judgement("stalls", f"No stalls; {lost}.", "note", figures)
    first = data["stalls"][0][0]
    many = len(data["stalls"])
    sentence = f"Stalled for {row.stalled_s:g} s in {many} stall{'s' * (many > 1)}, first at {first:g} s; {lost}."
    return Judgement("stalls", sentence, "warning", figures)


def _of_checkpoints(row: StepStability, data: Mapping[str, Any]) -> Iterator[Judgement]:
    count = data["checkpoints"]
    complete = f"{count or 'no'} complete checkpoint{'s' * (count != 1)}"
    if row.few_checkpoints:
        sentence = (
            f"The step writes but had {complete}; the cost of checkpoints needs {CYCLES} cycles. Measure for longer, "
            "or lower checkpoint_timeout in all levels."
        )
        yield Judgement("checkpoints", sentence, "warning", {"checkpoints": count})
    if data["depth"] is not None:
        sentence = (
            f"During checkpoints, the rate was {percent(-100 * data['depth'])} from that between them ({complete})."
        )
        yield Judgement("checkpoints", sentence, "note", {"checkpoints": count, "depth": data["depth"]})


def _beyond_limit(measurements: Iterable[Measurement]) -> Iterator[Judgement]:
    """Yield a finding on skipped transactions, which count as infinitely slow: from one in a hundred on, p99 is
    beyond the limit."""
    counts: dict[str, dict[str, float]] = {}
    for row in measurements:
        if row.name in ("skipped", "transactions"):
            counts.setdefault(row.step, {})[row.name] = row.value
    for step, each in counts.items():
        skipped = each.get("skipped", 0.0)
        share = 100 * skipped / max(1.0, skipped + each.get("transactions", 0.0))
        if share > 100 - P99:
            sentence = (
                f"p99 of step {step} exceeds the latency limit: {share:.2f} % of its transactions were skipped as "
                "too late. They count as infinitely slow."
            )
            yield Judgement("latency", sentence, "warning", {"skipped_percent": share})
