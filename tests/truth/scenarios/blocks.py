"""Runs that failed, runs that were retried later, and several hosts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from stats import Observation, against_baseline, means_of_hosts
from tests.truth.campaigns import DELTA, TPS, judged, observations
from tests.truth.scenario import Limits, Scenario, Trial

SD, DRIFT = 0.01, 0.01


def _hosts(hosts: int, true: float = 0.0, of_host_sd: float = 0.03, runs: int = 5) -> Scenario:
    def trial(rng: np.random.Generator) -> Trial:
        each = [
            observations(rng, [0, true + rng.normal(0, of_host_sd)], [SD, SD], runs, block_sd=0.01)
            for _ in range(hosts)
        ]
        return judged(against_baseline(means_of_hosts(each), "l0", TPS, DELTA), {"l1": true})

    effect = f", {100 * true:.0f} % on average" if true else ""
    limits = Limits(finds=0.75) if true else Limits()
    return Scenario(
        f"{hosts} hosts, host x level sd {100 * of_host_sd:.1f} %{effect}", trial, campaigns=2000, limits=limits
    )


def _drifting(rng: np.random.Generator, true: float = 0.0) -> list[Observation]:
    """Two levels in 5 blocks on a host that gets slower by 1 % with every run."""
    rows = observations(rng, [0, true], [SD, SD], 5)
    return [replace(row, value=row.value * math.exp(-DRIFT * row.order)) for row in rows]


def _all_of_a_level_retried(rng: np.random.Generator) -> Trial:
    rows = _drifting(rng)
    later = [
        replace(row, block=10 + row.block, value=row.value * math.exp(-DRIFT * 5), order=10 + row.block, retried=True)
        for row in rows
        if row.level == "l1"
    ]
    return judged(against_baseline([*(row for row in rows if row.level == "l0"), *later], "l0", TPS, DELTA), {"l1": 0})


def _one_failed(true: float) -> Scenario:
    def trial(rng: np.random.Generator) -> Trial:
        rows = observations(rng, [0, true], [SD, SD], 20, block_sd=0.1)
        return judged(against_baseline(rows[1:], "l0", TPS, DELTA), {"l1": true})

    name = "one of 40 runs failed, blocks sd 10 %"
    return Scenario(f"{name}, differs by 1 %" if true else name, trial, limits=Limits(finds=0.75) if true else Limits())


SCENARIOS = [
    *(_hosts(hosts) for hosts in (2, 3, 5)),
    _hosts(5, 0.03, 0.015),
    Scenario("all runs of a level retried later, the host drifts", _all_of_a_level_retried),
    _one_failed(0.0),
    _one_failed(0.01),
]
