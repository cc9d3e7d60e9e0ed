"""Simulations with a known truth: how often verdicts are wrong, intervals cover and differences are found.

    python -m tests.truth                 # list the scenarios
    python -m tests.truth NAME ...        # simulate those whose names begin so, and write them into the document
    python -m tests.truth all

A group of scenarios is a file of scenarios/ with a list SCENARIOS; its line in GROUPS adds it. The figures are in
measured.json, from which the table of the document, docs/background/statistics.md, is made.
"""

from __future__ import annotations

from tests.truth.scenario import Scenario
from tests.truth.scenarios import (
    between_runs,
    blocks,
    changes,
    days,
    levels,
    restarts,
    schedules,
    tails,
    unplanned,
    watching,
    within_runs,
)

GROUPS: dict[str, list[Scenario]] = {
    "Levels of one campaign": levels.SCENARIOS,
    "Two modes and heavy tails": tails.SCENARIOS,
    "Hosts, failed and retried runs": blocks.SCENARIOS,
    "Unplanned analyses": [*unplanned.SCENARIOS, *watching.SCENARIOS],
    "Campaigns of different days": days.SCENARIOS,
    "Schedules": schedules.SCENARIOS,
    "Restarts": restarts.SCENARIOS,
    "What changed with it": changes.SCENARIOS,
    "Within a run": within_runs.SCENARIOS,
    "From run to run": between_runs.SCENARIOS,
}
SCENARIOS = {scenario.name: scenario for group in GROUPS.values() for scenario in group}
