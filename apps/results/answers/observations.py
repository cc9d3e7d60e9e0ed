"""Observations for the statistics: the only module that makes them from runs and numbers their blocks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import stats
from apps.campaigns.design import cells, factors, orders
from apps.campaigns.models import Campaign


@dataclass(frozen=True)
class MeasuredRun:
    """A run with the figure to compare. `block`: its repetition; `position`: its place in the order of running.

    `host`: a key or a name, which is the same for all runs of one host. `retry`: how often it had been run before.
    """

    level: str
    value: float
    block: int
    position: int
    host: int | str = ""
    retry: int = 0


def observations(runs: Sequence[MeasuredRun]) -> list[stats.Observation]:
    """Return one observation for each run. Hosts share no blocks, and a retry has a block of its own: it ran later."""
    numbers = _block_numbers((run.host, run.block, run.retry) for run in runs)
    return [
        stats.Observation(
            run.level, numbers[run.host, run.block, run.retry], run.value, run.position, retried=run.retry > 0
        )
        for run in runs
    ]


def separate_observations(runs: Sequence[MeasuredRun]) -> list[stats.Observation]:
    """Return one observation for each run, each in a block of its own: runs that were not planned together."""
    return [stats.Observation(run.level, number, run.value, run.position) for number, run in enumerate(runs)]


def observations_of_hosts(runs: Sequence[MeasuredRun]) -> dict[int | str, list[stats.Observation]]:
    """Return host -> its observations, in the order of the runs."""
    hosts: dict[int | str, list[stats.Observation]] = {}
    for run, row in zip(runs, observations(runs), strict=True):
        hosts.setdefault(run.host, []).append(row)
    return hosts


def joint_observations(runs: Sequence[MeasuredRun], *, identical: bool) -> list[stats.Observation]:
    """Return the observations of all hosts together. Identical hosts count run by run, others by their means."""
    return stats.of_hosts(list(observations_of_hosts(runs).values()), identical=identical)


def starts_of(campaign: Campaign) -> dict[str, list[int]]:
    """Return label -> the boots and starts of the server that its runs share with other levels in a block; {} if the
    order does not group levels, or if runs share nothing."""
    if campaign.order != Campaign.Order.FEWEST_RESTARTS:
        return {}
    listed = factors.read(campaign.factors)
    every = cells.cells(listed, campaign.design, campaign.cells, campaign.sample, campaign.seed)
    return orders.start_numbers(every, campaign.target, campaign.reboot, orders.ordered(listed))


def _block_numbers(blocks: Iterable[tuple[int | str, int, int]]) -> dict[tuple[int | str, int, int], int]:
    """Return (host, repetition, retry) -> a number of its own. On one host without retries it is the repetition."""
    known = set(blocks)
    if len({host for host, _, _ in known}) <= 1 and not any(retry for _, _, retry in known):
        return {block: block[1] for block in known}
    return {block: number for number, block in enumerate(sorted(known))}  # all keys or all names
