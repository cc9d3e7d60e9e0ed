"""Campaigns with random sizes, figures and failures, as objects of the product that are not in a database."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np

import stats
from agents.collectors.per_transaction import CPU
from apps.campaigns.design import steps
from apps.campaigns.design.cells import cells
from apps.campaigns.design.factors import Cell, read, text_of
from apps.campaigns.models import Campaign, Run, Workload
from apps.hosts.models import Host
from apps.results.answers import interim_analyses
from apps.results.answers.hosts import retries_of
from apps.results.models import InterimAnalysis
from common.verdicts import verdict

MOST_HOSTS = 4
HOSTS = [Host(pk=number + 1, name=f"db{number + 1}") for number in range(MOST_HOSTS)]
RUN = timedelta(seconds=40)
AT = datetime(2026, 3, 1, tzinfo=UTC)
LABELS = (("off", "on", "try", "auto", "8GB"), ("1 cpu", "2 cpus", "4 cpus", "8 cpus", "16 cpus"))
NAMES = ("huge pages", "cpus")
LOADS = {fixed: Workload(steps=steps.single("pgbench", {"rate": 500} if fixed else {})) for fixed in (False, True)}
METRICS = (steps.Metric("measure", "tps", "tps", "higher"), steps.Metric("measure", "latency_avg", "ms", "lower"))
OUTCOMES = (Run.Outcome.FAILED, Run.Outcome.INTERRUPTED, Run.Outcome.NOT_IN_EFFECT, Run.Outcome.CANCELLED)


@dataclass
class Random:
    """A campaign with its runs, their figures (name -> run -> value), and its newest interim analysis."""

    number: int
    campaign: Campaign
    metric: steps.Metric
    labels: list[str]
    hosts: list[Host]
    runs: list[Run] = field(default_factory=list)
    values: dict[str, dict[uuid.UUID, float]] = field(default_factory=dict)
    newest: InterimAnalysis | None = None
    template: dict[int, Run] = field(default_factory=dict)  # host -> a run of it

    @property
    def retriable(self) -> int:
        retried = {run.retry_of_id for run in self.runs}
        return sum(run.outcome in OUTCOMES and run.pk not in retried for run in self.runs)


def random_campaign(number: int, known_hosts: Sequence[Host] = HOSTS) -> Random:
    """Return a random campaign; the same number gives the same campaign. `known_hosts`: MOST_HOSTS, to choose from."""
    rng = np.random.default_rng([20261126, number])
    made = _design(rng, number, known_hosts)
    effects = {label: _effect(rng) for label in made.labels}
    figures = Figures(rng, made, effects)
    lost, failing = _lost_levels(rng, made.labels), rng.choice([0.0, 0.0, 0.05, 0.2, 0.5])
    retries = bool(rng.random() < 0.3)
    for host in made.hosts:
        _run_host(rng, made, figures, host, lost, float(failing), retries)
    _interrupt(rng, made)
    if len(made.hosts) == 1 and rng.random() < 0.15:
        _analyse(rng, made)
    return made


def _design(rng: np.random.Generator, number: int, known_hosts: Sequence[Host]) -> Random:
    two = rng.random() < 0.25
    counts = [int(rng.integers(2, 4)), int(rng.integers(1, 3))] if two else [int(rng.choice([1, 2, 2, 2, 3, 4, 5]))]
    factors = [
        {
            "name": NAMES[place],
            "order": "",
            "levels": [
                # Now and then two levels are the same: A/A.
                {"label": label, "set": {f"settings.sysctl.{NAMES[place][0]}": 0 if rng.random() < 0.1 else level}}
                for level, label in enumerate(LABELS[place][:count])
            ],
        }
        for place, count in enumerate(counts)
    ]
    hosts = list(known_hosts[: int(rng.choice([1, 1, 1, 1, 2, 3, MOST_HOSTS]))])
    campaign = Campaign(
        name="random",
        question="does it matter?",
        host=hosts[0],
        factors=factors,
        repetitions=int(rng.choice([1, 2, 3, 3, 4, 4, 5, 5, 6, 8, 12])),
        order=str(rng.choice(["randomised", "randomised", "as_given", "fewest_restarts"])),
        placement="one" if len(hosts) == 1 else str(rng.choice(["each", "spread"])),
        delta=float(rng.choice([0.005, 0.01, 0.02, 0.02, 0.05, 0.1])),
        seed=1,
        state=Campaign.State.FINISHED,
    )
    campaign.metric = METRICS[int(rng.random() < 0.3)].name
    campaign.workload = LOADS[bool(rng.random() < 0.15)]
    metric = steps.metric(campaign.steps, campaign.compared)
    listed: list[Cell] = cells(read(factors), campaign.design, [], None, 1)
    return Random(number, campaign, metric, [text_of(cell) for cell in listed], hosts)


def _effect(rng: np.random.Generator) -> float:
    return float(
        rng.choice([0.0, 0.0, 0.005, 0.02, -0.02, 0.05, -0.05, 0.2, -0.4, 1.0]) * rng.choice([1.0, rng.random()])
    )


def _lost_levels(rng: np.random.Generator, labels: list[str]) -> set[str]:
    """Levels whose runs all fail."""
    if rng.random() < 0.03:
        return set(labels)
    return {label for label in labels if rng.random() < 0.04}


class Figures:
    """Values of runs: noise of blocks, hosts and runs, heavy tails, two modes, ties and zeros."""

    def __init__(self, rng: np.random.Generator, made: Random, effects: dict[str, float]) -> None:
        self.rng, self.effects = rng, effects
        self.sds = {label: float(rng.choice([0, 0.002, 0.01, 0.01, 0.03, 0.1])) for label in made.labels}
        if rng.random() < 0.5:
            self.sds = dict.fromkeys(made.labels, float(rng.choice([0, 0.001, 0.01, 0.01, 0.03, 0.15])))
        self.shape = str(rng.choice(["normal", "normal", "normal", "heavy", "two modes"]))
        self.rounding = float(rng.choice([0, 0, 0, 1, 10, 100]))
        self.zero = float(rng.choice([0, 0, 0, 0.1]))
        self.block_sd = float(rng.choice([0, 0.01, 0.1]))
        self.drift = float(rng.choice([0, 0, 0, 0.003, -0.003]))
        self.interaction = {
            (host, label): rng.normal(0, rng.choice([0, 0.03])) for host in range(5) for label in effects
        }
        self.cpu_sd = float(rng.choice([0.001, 0.01]))
        self.failed = {label: float(rng.choice([0, 0, 0, 0.0005, 0.01, 0.6])) for label in effects}
        self.counts_failures = bool(rng.random() < 0.3)
        self.counts_cpu = bool(rng.random() < 0.3)

    def value(self, label: str, host: int, block: float, position: int) -> float:
        if self.rng.random() < self.zero:
            return 0.0
        noise = float(self.rng.normal(0, self.sds[label]))
        if self.shape == "heavy":
            noise = float(self.rng.standard_t(2)) * self.sds[label]
        elif self.shape == "two modes" and self.rng.random() < 0.2:
            noise += 0.1
        y = self.effects[label] + block + self.drift * position + float(self.interaction[host, label]) + noise
        value = 1000 * math.exp(y)
        return round(value / self.rounding) * self.rounding if self.rounding else value


def _run_host(
    rng: np.random.Generator,
    made: Random,
    figures: Figures,
    host: Host,
    lost: set[str],
    failing: float,
    retries: bool,
) -> None:
    factors = read(made.campaign.factors)
    by_label = {
        text_of(cell): {name: level.label for name, level in cell.items()}
        for cell in cells(factors, "factorial", [], None, 1)
    }
    later: list[Run] = []
    for block in range(made.campaign.repetitions):
        of_block = float(rng.normal(0, figures.block_sd))
        order = (
            made.labels
            if made.campaign.order == "as_given"
            else [made.labels[n] for n in rng.permutation(len(made.labels))]
        )
        for label in order:
            run = _run(made, host, block, by_label[label], None)
            fails = label in lost or rng.random() < failing
            _end(rng, made, figures, run, label, of_block, fails)
            if fails and retries:
                later.append(run)
    for run in later:
        again = _run(made, run.host, run.block, run.cell, run.pk)
        _end(
            rng,
            made,
            figures,
            again,
            again.label,
            float(rng.normal(0, figures.block_sd)),
            bool(rng.random() < failing / 2),
        )


def _run(made: Random, host: Host, block: int, cell: dict[str, str], retry_of: uuid.UUID | None) -> Run:
    """A copy of one run: Django needs half a millisecond to construct a new one."""
    template = made.template.get(host.pk)
    if template is None:
        template = Run(campaign=made.campaign, host=host, state=Run.State.ENDED, started_at=AT, ended_at=AT + RUN)
        made.template[host.pk] = template
    run = Run.__new__(Run)
    key = uuid.UUID(int=(made.number << 32) + len(made.runs) + 1)
    own = {"id": key, "block": block, "cell": cell, "position": len(made.runs), "retry_of_id": retry_of}
    vars(run).update(vars(template) | own)
    made.runs.append(run)
    return run


def _end(
    rng: np.random.Generator, made: Random, figures: Figures, run: Run, label: str, block: float, fails: bool
) -> None:
    if fails:
        run.outcome = str(rng.choice([str(each) for each in OUTCOMES]))
        if run.outcome == Run.Outcome.CANCELLED and rng.random() < 0.5:
            run.started_at = None
        return
    run.outcome = Run.Outcome.OK
    if rng.random() < 0.01:
        return  # a run without the figure
    host = made.hosts.index(run.host)
    own = {made.metric.name: figures.value(label, host, block, run.position)}
    if figures.counts_cpu:
        own[CPU] = 2.0 * math.exp(-figures.effects[label] + float(rng.normal(0, figures.cpu_sd)))
    if figures.counts_failures:
        own["transactions"] = 50_000.0
        own["failed"] = float(rng.binomial(50_000, figures.failed[label]))
    for name, value in own.items():
        made.values.setdefault(name, {})[run.pk] = value


def _interrupt(rng: np.random.Generator, made: Random) -> None:
    """Some campaigns are still running, were cancelled, or were extended after their first results."""
    kind = rng.choice(["", "", "", "", "running", "cancelled", "extended", "imported"], p=[0.2] * 4 + [0.05] * 4)
    made.campaign.extensions = []
    if kind in ("running", "cancelled") and made.runs:
        first = int(rng.integers(0, len(made.runs)))
        for run in made.runs[first:]:
            for own in made.values.values():
                own.pop(run.pk, None)
            run.outcome, run.started_at = ("", None) if kind == "running" else (Run.Outcome.CANCELLED, None)
            run.state = Run.State.QUEUED if kind == "running" else Run.State.ENDED
        made.campaign.state = Campaign.State.RUNNING if kind == "running" else Campaign.State.CANCELLED
    elif kind == "extended":
        made.campaign.extensions = [
            {"at": "2026-03-01T10:00:00+00:00", "seen": int(rng.integers(1, 30)), "repetitions": 3}
        ]
    elif kind == "imported" and made.campaign.workload is LOADS[False]:  # the rate of an imported load is unknown
        made.campaign.kind = Campaign.Kind.IMPORTED


def _analyse(rng: np.random.Generator, made: Random) -> None:
    """The newest interim analysis of a stop rule between the first level and the last."""
    a, b = made.labels[0], made.labels[-1]
    values, retries = made.values.get(made.metric.name, {}), retries_of(made.runs)
    rows = [
        stats.Observation(run.label, run.block, values[run.pk], run.position)
        for run in made.runs
        if not retries[run.pk] and values.get(run.pk, 0) > 0
    ]
    whole = _common_blocks(rows, a, b)
    if a == b or whole < 3:
        return
    metric = stats.Metric(made.metric.name, made.metric.unit, made.metric.better)  # type: ignore[arg-type]
    analysis = stats.interim_analysis(
        rows, (a, b), metric, made.campaign.delta, spending=str(rng.choice(["obrien_fleming", "pocock"])),
        planned=whole if rng.random() < 0.5 else 2 * whole, before=[],
    )  # fmt: skip
    if analysis is None:
        return
    comparison = interim_analyses.as_json(analysis.comparison)
    met = bool(comparison and analysis.comparison and verdict(analysis.comparison.verdict).is_certain)
    made.campaign.stop = {"until": "verdict", "between": [a, b]}
    made.newest = InterimAnalysis(
        campaign=made.campaign, number=1, blocks=analysis.spent.blocks, planned=whole, alpha=analysis.spent.alpha,
        alpha_90=analysis.spent.alpha_90, nominal_p=analysis.nominal_p, comparison=comparison, met=met, at=AT,
    )  # fmt: skip


def _common_blocks(rows: Iterable[stats.Observation], a: str, b: str) -> int:
    levels: dict[int, set[str]] = {}
    for row in rows:
        levels.setdefault(row.block, set()).add(row.level)
    return sum({a, b} <= own for own in levels.values())
