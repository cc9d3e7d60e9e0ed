"""The figure by which levels are compared. At a fixed rate, a throughput only shows whether the server kept up with the
load, so latencies are compared instead. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from apps.campaigns.design import steps
from common.errors import PlanError

LATENCY = {"tps": "latency_avg", "tps_including": "latency_avg"}  # a throughput -> what is compared instead


def compared(own: Sequence[steps.Step], factors: Sequence[Mapping[str, Any]], figure: str) -> str:
    """Return `figure`, or the mean latency if `figure` is a throughput and every level of the factors has a fixed
    rate."""
    at = max(figure.rfind("."), figure.rfind(" ")) + 1  # after the step or the script
    start, name = figure[:at], figure[at:]
    if name not in LATENCY or steps.imported(own):
        return figure
    try:
        step = steps.metric(own, figure).step
    except PlanError:
        return figure  # the workload no longer measures it
    changes = [[_of_steps(level["set"]) for level in factor["levels"]] for factor in factors]
    combinations = product(*(each for each in changes if any(each)))
    fixed = all(_is_open(own, step, {path: at for each in one for path, at in each.items()}) for one in combinations)
    return start + LATENCY[name] if fixed else figure


def _of_steps(changes: Mapping[str, Any]) -> dict[str, Any]:
    return {path: value for path, value in changes.items() if path.split(".")[0] in ("workload", "steps")}


def _is_open(own: Sequence[steps.Step], step: str, changes: Mapping[str, Any]) -> bool:
    patched = steps.patch(own, changes) if changes else own
    return steps.loops({"steps": patched}).get(step) == "open"


def explanation(figure: str, instead: str) -> str:
    """Return why another figure is compared."""
    return f"{instead} is compared instead of {figure}. {only_shows(figure, instead)}"


def only_shows(figure: str, instead: str) -> str:
    """Return why this figure does not show which level is better."""
    return f"All levels have a fixed rate: {figure} only shows whether they kept up with it, {instead} how well."
