"""Short campaigns that place memory and cpus, and the proofs of their runs."""

from __future__ import annotations

from typing import Any

from apps.accounts.models import User
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host
from tests.servers import campaigns

TIMEOUT_S = 1800


def runs_by_level(campaign: Campaign) -> dict[str, Run]:
    """The runs of a campaign with one factor, driven to its end, by their level. All of them must be ok."""
    return {next(iter(run.cell.values())): run for run in campaigns.ok_runs(campaign, TIMEOUT_S)}


def measured(host: Host, admin: User, levels: dict[str, dict[str, Any]], **options: Any) -> dict[str, Run]:
    factor = {"name": "placement", "levels": [{"label": label, "set": changes} for label, changes in levels.items()]}
    options = {"scale": 5, "clients": 4, "jobs": 2, "time_s": 8, **options}
    return runs_by_level(campaigns.start(host, admin, factor, **options))


def proofs(run: Run, subject: str, setting: str = "numa") -> list[dict[str, Any]]:
    """Proofs of one subject in the order of the run."""
    events = run.events.filter(kind="proof", data__subject=subject, data__setting=setting)
    return [event.data for event in events.order_by("seq")]


def share(run: Run, node: int) -> float:
    """Of the shared memory at most this share was on the node in any sample."""
    samples = proofs(run, "shared memory by node (kB)")
    return float(max(proof["evidence"]["share_per_node"].get(str(node), 0.0) for proof in samples))


def allocated(run: Run) -> dict[str, dict[str, int]]:
    """What the load added to numastat, by node."""
    (after,) = [proof for proof in proofs(run, "shared memory by node (kB)") if proof["phase"] == "after"]
    return dict(after["evidence"]["numastat_difference"])
