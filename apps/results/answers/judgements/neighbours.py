"""Activity of other databases on the server of a run: they share its memory, disks and CPUs with the load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from apps.campaigns.models import Run
from apps.results.answers.judgements.judged_campaign import JudgedCampaign
from apps.results.answers.sentences import Judgement
from apps.results.models import StepMeans
from common.wording import counted

SUBSTANTIAL = 0.05
OWN, OTHERS = "pg_stat_database.", "pg_stat_database_others."
SHARED = ("existing", "remote_server")  # kinds of targets that may have databases of other users


def share_of_others(means: Mapping[str, float]) -> float | None:
    """Pure. The share of other databases in the transactions or in the time of sessions of the server, whichever is
    larger; None without samples of them."""
    shares = []
    for own, other in ((("xact_commit", "xact_rollback"), "transactions"), (("active_time",), "active_time")):
        if OTHERS + other in means:
            theirs = means[OTHERS + other]
            both = theirs + sum(means.get(OWN + name, 0.0) for name in own)
            shares.append(theirs / both if both > 0 else 0.0)
    return max(shares, default=None)


def activity(run: Run) -> str:
    """A sentence about other databases during the measured steps of this run; "" if its server has none of other
    users, or without samples."""
    if (run.spec["target"] or {}).get("kind") not in SHARED:
        return ""
    rows = StepMeans.objects.filter(run=run).values_list("data__postgresql", flat=True)
    means = [row for row in rows if row and share_of_others(row) is not None]
    if not means:
        return ""
    worst = max(means, key=lambda row: share_of_others(row) or 0.0)
    sessions = f", with {_sessions(worst)} active on average" if OTHERS + "active_time" in worst else ""
    return (
        f"Other databases of the server executed {worst.get(OTHERS + 'transactions', 0.0):,.3g} transactions per "
        f"second{sessions}: {100 * (share_of_others(worst) or 0.0):.2g} % of its activity."
    )


def _sessions(means: Mapping[str, float]) -> str:
    sessions = means[OTHERS + "active_time"] / 1000
    return f"{sessions:.2g} session{'' if sessions == 1 else 's'}"


def noisy(judged: JudgedCampaign) -> Iterator[Judgement]:
    """A warning if other databases were substantially active during runs."""
    target: Mapping[str, Any] = judged.campaign.target or {}
    if not target.keys() & {"remote", "data_dir"}:
        return
    rows = StepMeans.objects.filter(
        run__campaign=judged.campaign, run__outcome=Run.Outcome.OK, step=judged.chosen.step
    ).order_by("run__position")
    known = {
        position + 1: share
        for position, means in rows.values_list("run__position", "data__postgresql")
        if means and (share := share_of_others(means)) is not None
    }
    noisy_runs = {number: share for number, share in known.items() if share >= SUBSTANTIAL}
    if noisy_runs:
        worst = max(noisy_runs, key=lambda number: noisy_runs[number])
        sentence = (
            f"Noisy neighbours: in {len(noisy_runs)} of {counted(len(known), 'run')}, other databases caused at least "
            f"{100 * SUBSTANTIAL:.0f} % of the server's activity, up to {100 * noisy_runs[worst]:.2g} % in run {worst}."
        )
        yield Judgement("neighbours", sentence, "warning", {"runs": {str(n): s for n, s in noisy_runs.items()}})
