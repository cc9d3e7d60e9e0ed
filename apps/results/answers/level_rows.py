"""The rows of a campaign's table: the figures of each level, and its comparison with the baseline. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import numpy as np

import stats
from apps.campaigns.design.factors import readable_name
from apps.campaigns.models import Campaign, Run
from apps.results.answers import cpu, interim_analyses
from apps.results.answers.hosts import HostAnswer, host_answer, retries_of
from apps.results.answers.observations import MeasuredRun, joint_observations
from apps.results.answers.table import LevelRow, Mode, Point
from apps.results.models import InterimAnalysis
from common.verdicts import BETTER_FAILING, verdict
from common.wording import counted, percent
from stats.model import interval_text

FAILURES = ("failed", "ignored_errors")  # counts of failed transactions in pgbench and sysbench
QUARTILES = (0, 0.25, 0.5, 0.75, 1)

Values = Mapping[str, Mapping[UUID, float]]  # measurement name -> run -> value


@dataclass(frozen=True)
class Comparing:
    """How the levels of a campaign are compared. `unplanned`: why its intervals must hold at any number of runs.
    `caveat`: what they do not include. `starts`: as starts_of() has them."""

    baseline: str
    metric: stats.Metric
    delta: float
    unplanned: str
    identical_hosts: bool
    caveat: str = ""
    starts: stats.Starts = field(default_factory=dict)

    def observations(self, measured: Mapping[str, list[Point]]) -> list[stats.Observation]:
        """Return the observations of all hosts together: each run of identical hosts, otherwise the means of each
        host."""
        return joint_observations(measured_runs(measured), identical=self.identical_hosts)

    def with_baseline(
        self, rows: Sequence[stats.Observation], metric: stats.Metric | None = None
    ) -> dict[str, stats.Comparison]:
        """Return level -> its comparison; {} while only one level has runs, or the baseline has none."""
        measured = {row.level for row in rows}
        if self.baseline not in measured or len(measured) < 2:
            return {}
        compared = stats.against_baseline(rows, self.baseline, metric or self.metric, self.delta, self.starts)
        adjusted = [interim_analyses.adjusted(comparison, self.unplanned) for comparison in compared]
        return {comparison.b: comparison.with_caveat(self.caveat) for comparison in adjusted}

    def on_host(self, host: int, name: str, rows: list[stats.Observation]) -> HostAnswer:
        return host_answer(host, name, rows, self.with_baseline(rows), self.baseline)


def points_by_level(labels: Iterable[str], runs: Sequence[Run], values: Mapping[UUID, float]) -> dict[str, list[Point]]:
    """Return label -> its runs whose figure can be compared: a ratio needs values above 0."""
    retries = retries_of(runs)
    measured: dict[str, list[Point]] = {label: [] for label in labels}
    for run in runs:
        if values.get(run.pk, 0.0) > 0:
            point = Point(run.pk, run.block, run.position, values[run.pk], run.host.name, retries[run.pk])
            measured[run.label].append(point)
    return measured


def measured_runs(measured: Mapping[str, list[Point]]) -> list[MeasuredRun]:
    """Return the runs of all levels, in the order of the levels."""
    return [
        MeasuredRun(label, point.value, point.block, point.position, point.host, point.retry)
        for label, points in measured.items()
        for point in points
    ]


def level_rows(
    campaign: Campaign,
    runs: Sequence[Run],
    measured: Mapping[str, list[Point]],
    spread: stats.LevelTable | None,
    compared: Mapping[str, stats.Comparison],
    figures: Mapping[UUID, float],
    latencies: Mapping[UUID, float],
) -> list[LevelRow]:
    """Return one row for each label of `measured`, in order. `figures`, `latencies`: metric and mean latency of each
    run."""
    readable = {run.label: readable_name(campaign.factors, run.cell) for run in runs}
    means = {level.level: level for level in spread.levels} if spread else {}
    of_level: dict[str, list[Run]] = {label: [] for label in measured}
    for run in runs:
        of_level[run.label].append(run)
    rows = []
    for label, points in measured.items():
        own = of_level[label]
        row = _row(label, own, points, means.get(label), compared.get(label), readable)
        known = [latencies[point.run] for point in points if point.run in latencies]
        latency_ms = float(np.mean(known)) if known else None
        rows.append(replace(row, latency_ms=latency_ms, zeros=sum(figures.get(run.pk, 1.0) <= 0 for run in own)))
    return rows


def _row(
    label: str,
    runs: list[Run],
    points: list[Point],
    spread: stats.Level | None,
    compared: stats.Comparison | None,
    readable: Mapping[str, str],
) -> LevelRow:
    proofs = [run.proof for run in runs if run.outcome == Run.Outcome.OK and run.proof]
    low, high = spread.interval if spread and spread.interval else (None, None)
    relative_low, relative_high = compared.interval if compared and compared.interval else (None, None)
    failed_at_first, ended_at_first = at_first(Counter(run.outcome for run in runs if run.retry_of_id is None))
    return LevelRow(
        label=label,
        name=readable.get(label, label),
        points=points,
        planned=len({run.pk for run in runs} - {run.retry_of_id for run in runs}),
        outcomes=dict(Counter("" if _never_began(run) else run.outcome for run in runs)),
        mean=spread.mean if spread else None,
        low=low,
        high=high,
        relative_percent=compared.ratio_percent if compared else None,
        relative_low=relative_low,
        relative_high=relative_high,
        verdict=compared.verdict if compared else "",
        preliminary=compared.preliminary if compared else False,
        sentence=compared.sentence(readable[compared.a], readable[compared.b]) if compared else "",
        mde_percent=compared.mde_percent if compared else None,
        runs_needed=compared.runs_needed if compared else None,
        method=compared.method if compared else "",
        proven=sum(proof["checked"] > 0 and proof["checked"] == proof["ok"] for proof in proofs),
        proof_lines=list(dict.fromkeys(line for proof in proofs for line in proof["lines"])),
        ok=len(points),
        quartiles=np.quantile([point.value for point in points], QUARTILES).tolist() if points else [],
        ended_at_first=ended_at_first,
        failed_at_first=failed_at_first,
    )


def at_first(outcomes: Mapping[str, int]) -> tuple[int, int]:
    """Return how many planned runs failed, and how many ended, from the outcomes of their first attempts. Attempts that
    were cancelled are neither."""
    ended = {outcome: count for outcome, count in outcomes.items() if outcome not in ("", Run.Outcome.CANCELLED)}
    total = sum(ended.values())
    return total - ended.get(Run.Outcome.OK, 0), total


def _never_began(run: Run) -> bool:
    """Return whether a run was cancelled before it started, so that it has no outcome."""
    return run.outcome == Run.Outcome.CANCELLED and run.started_at is None


def analysed_pair(comparing: Comparing, newest: InterimAnalysis | None) -> dict[str, Any] | None:
    """Return the comparison of the newest interim analysis, which is preliminary while the campaign runs."""
    analysis: dict[str, Any] | None = newest.comparison if newest else None
    if not analysis or analysis["preliminary"] or comparing.unplanned != interim_analyses.RUNNING:
        return analysis
    return {**analysis, "preliminary": True, "sentence": f"Preliminary: {analysis['sentence']}"}


def with_interim_analysis(rows: list[LevelRow], comparing: Comparing, newest: InterimAnalysis | None) -> list[LevelRow]:
    """Replace the interval of the row that a stopping rule compares by that of the newest interim analysis, adjusted
    for all of them."""
    analysis = analysed_pair(comparing, newest)
    if not analysis:
        return rows
    fields = {name: analysis[name] for name in ("verdict", "preliminary", "sentence", "method")}
    fields |= {"relative_percent": analysis["ratio_percent"]}
    fields |= {"relative_low": analysis["low"], "relative_high": analysis["high"]}
    pair = (analysis["a"], analysis["b"])
    return [replace(row, **fields) if pair == (comparing.baseline, row.label) else row for row in rows]


def with_modes(rows: list[LevelRow], observed: Sequence[stats.Observation], modes: stats.Modes) -> list[LevelRow]:
    """Add the modes of each level that has runs of both."""
    groups: dict[str, tuple[list[float], list[float]]] = {row.label: ([], []) for row in rows}
    for one, is_lower in zip(observed, modes.lower, strict=True):
        groups[one.level][not is_lower].append(one.value)
    return [replace(row, modes=_modes(*groups[row.label])) for row in rows]


def _modes(lower: list[float], upper: list[float]) -> list[Mode]:
    if not lower or not upper:
        return []
    return [Mode(float(np.exp(np.log(own).mean())), len(own)) for own in (lower, upper)]


def _failed_shares(values: Values) -> dict[UUID, float]:
    """Return run -> share of its transactions that failed, 0 to 1, for runs that count both."""
    succeeded = values.get("transactions", {})
    failed = {run: count for name in FAILURES for run, count in values.get(name, {}).items() if run in succeeded}
    return {run: count / max(1.0, count + succeeded[run]) for run, count in failed.items()}


def with_failures(rows: list[LevelRow], comparing: Comparing, values: Values) -> list[LevelRow]:
    """Add the shares of failed transactions. A better level that fails clearly more often has that in its verdict."""
    shares = _failed_shares(values)
    of_level = {row.label: [shares[point.run] for point in row.points if point.run in shares] for row in rows}
    base, name = of_level.get(comparing.baseline, []), _baseline_name(rows, comparing)
    return [_failing(row, of_level[row.label], base, name, comparing) for row in rows]


def _baseline_name(rows: list[LevelRow], comparing: Comparing) -> str:
    return next((row.name for row in rows if row.label == comparing.baseline), "") or comparing.baseline


def _failing(level: LevelRow, own: list[float], base: list[float], baseline: str, comparing: Comparing) -> LevelRow:
    if not own:
        return level
    level = replace(level, failed_percent=100 * float(np.mean(own)))
    if not stats.fails_more(own, base):
        return level
    text = f"{level.failed_percent:.3g} % of the transactions of {level.name} failed"
    against = f"against {100 * np.mean(base):.3g} % at {baseline}"
    failures = f"{text}, {against}. Its {comparing.metric.label} counts only those that succeeded."
    return _downgraded(level, failures, "transactions", baseline, comparing)


def _downgraded(level: LevelRow, failures: str, what: str, baseline: str, comparing: Comparing) -> LevelRow:
    """The row with a sentence on its failed transactions or runs, which is part of its verdict if it is better and the
    campaign has ended: the tests of failures hold for one reading."""
    is_running = comparing.unplanned == interim_analyses.RUNNING
    every = f"{level.failures or ('Preliminary:' if is_running else '')} {failures}".strip()
    if is_running or not verdict(level.verdict).is_better:
        return replace(level, failures=every)
    prefix = "Preliminary: " if level.preliminary else ""
    likely = "" if verdict(level.verdict).is_certain else "likely "
    interval = interval_text("95 % CI", (level.relative_low or 0.0, level.relative_high or 0.0))
    size = f"{comparing.metric.label} {percent(level.relative_percent or 0.0)} ({interval})"
    sentence = f"{prefix}{level.name} is {likely}better than {baseline}, but more of its {what} failed: {size}."
    sentence = " ".join(filter(None, [sentence, failures, comparing.caveat]))
    return replace(level, failures=every, verdict=BETTER_FAILING, sentence=sentence)


def with_failed_runs(rows: list[LevelRow], comparing: Comparing) -> list[LevelRow]:
    """Add a sentence to the levels whose planned runs failed clearly more often than the baseline's. A better one has
    that in its verdict. Retries do not count: whether they were made depends on the outcome."""
    base = next((row for row in rows if row.label == comparing.baseline), None)
    name = _baseline_name(rows, comparing)
    if base is None:
        return rows
    return [row if row is base else _failing_runs(row, base, len(rows) - 1, name, comparing) for row in rows]


def _failing_runs(level: LevelRow, base: LevelRow, of: int, baseline: str, comparing: Comparing) -> LevelRow:
    own, others = ((row.failed_at_first, row.ended_at_first) for row in (level, base))
    if not own[0] or not stats.runs_fail_more(own, others, of):
        return level
    failures = (
        f"{own[0]} of {counted(own[1], 'planned run')} of {level.name} failed at first, "
        f"against {others[0]} of {others[1]} at {baseline}."
    )
    return _downgraded(level, failures, "runs", baseline, comparing)


def with_cpu_time(
    rows: list[LevelRow], comparing: Comparing, measured: Mapping[str, list[Point]], cpu_ms: Mapping[UUID, float]
) -> list[LevelRow]:
    """Add the verdict on CPU time per transaction, from the same runs."""
    costs = {
        label: [replace(point, value=cpu_ms[point.run]) for point in points if cpu_ms.get(point.run, 0.0) > 0]
        for label, points in measured.items()
    }
    compared = comparing.with_baseline(comparing.observations(costs), cpu.METRIC)
    baseline = _baseline_name(rows, comparing)
    return [cpu.with_cpu(row, compared.get(row.label), comparing.metric.label, baseline) for row in rows]
