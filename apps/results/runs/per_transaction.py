"""The cost of one transaction of a step, from the means of its collectors and the transactions of its load."""

from __future__ import annotations

from agents.collectors.per_transaction import PER_TRANSACTION, PerTransaction
from apps.results.models import Measurement, StepMeans

TRANSACTIONS = "transactions"


def per_transaction(means: StepMeans, transactions: float) -> list[Measurement]:
    """Of one measured step; nothing is saved. Figures whose collector did not run are missing."""
    if transactions <= 0:
        return []
    rows = []
    for figure in PER_TRANSACTION.values():
        grown = growth(means, figure)
        if grown is not None:
            row = Measurement(run=means.run, step=means.step, name=figure.name, value=grown / transactions)
            row.unit, row.better, row.definition = figure.unit, figure.better, figure.definition
            rows.append(row)
    return rows


def growth(means: StepMeans, figure: PerTransaction) -> float | None:
    """By how much its columns grew during the step, in units of the figure; None where there is no such column."""
    own = [mean for name, mean in means.data.get(figure.collector, {}).items() if figure.uses(name)]
    return figure.factor * means.seconds * sum(own) if own else None
