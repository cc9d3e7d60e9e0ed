"""The main figures of one run. Only reads (SELECT)."""

from __future__ import annotations

from collections.abc import Sequence

from agents.collectors.per_transaction import CPU
from apps.campaigns.design import steps
from apps.campaigns.models import Run
from apps.results.answers.key_figures import TITLES, KeyFigure, of_measurements
from apps.results.models import Measurement

HIT, READ = "blocks_hit_per_transaction", "blocks_read_per_transaction"


def of_run(run: Run, measurements: Sequence[Measurement]) -> list[KeyFigure]:
    """Return the key figures of the step with the campaign's metric, with CPUs used, cache hit ratio and checkpoints
    before those per transaction; one query."""
    step = measured_step(run)
    rows = {row.name: row for row in measurements if row.step == step}
    shown = of_measurements({name: (row.unit, row.value) for name, row in rows.items() if name in TITLES})
    values = {name: row.value for name, row in rows.items()}
    if CPU in values and "tps" in values:
        shown.append(KeyFigure("CPUs used by PostgreSQL", values[CPU] * values["tps"] / 1000, ""))
    hit, read = values.get(HIT, 0.0), values.get(READ, 0.0)
    if hit + read:
        shown.append(KeyFigure("cache hit", 100 * hit / (hit + read), "%"))
    judged = next((row for row in run.step_stabilities.all() if row.step == step), None)
    if shown and judged and judged.data.get("writes"):
        shown.append(KeyFigure("complete checkpoints", judged.data["checkpoints"], ""))
    return sorted(shown, key=lambda each: each.is_per_transaction)


def measured_step(run: Run) -> str:
    """Return the step of the campaign's metric, or the first measured step."""
    if run.campaign.metric:
        return steps.metric(run.campaign.steps, run.campaign.metric).step
    return next((step["name"] for step in steps.measured(run.spec["steps"])), "")
