"""Small real campaigns for tests: pgbench on a private cluster of this machine, a second or two per run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.utils import timezone

from apps.accounts.models import User
from apps.campaigns import recipes, services
from apps.campaigns.design.steps import patch, single
from apps.campaigns.execution import dispatch, queue
from apps.campaigns.library import workloads
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host
from apps.hosts.usage import allowed_paths
from apps.results import queries
from apps.results.store import ingest

PGBENCH: dict[str, Any] = {
    "builtin": "select-only",
    "scale": 1,
    "mode": "prepared",
    "clients": 2,
    "jobs": 1,
    "time_s": 2,
    "progress_s": 1,
}
# For runs whose figures do not matter: the CPUs are left to the tests beside them.
CALM = PGBENCH | {"rate": 200}
SERVER_CPU = {"name": "server cpus", "levels": [{"label": "cpu 0", "set": {"settings.cpu_affinity.server": "0"}}]}


def start(
    host: Host,
    by: User,
    *factors: dict[str, Any],
    repetitions: int = 1,
    target: dict[str, str] | None = None,
    steps: list[dict[str, Any]] | None = None,
    metric: str = "tps",
    nuisance: dict[str, Any] | None = None,
    **options: Any,
) -> Campaign:
    """A started campaign of pgbench runs; `options` change the workload, which `steps` replace. With `rate` None, the
    load has no rate."""
    load = {name: value for name, value in (CALM | options).items() if value is not None}
    workload = workloads.save_workload("small", steps or single("pgbench", load), by=by)
    campaign = services.create_campaign(
        by=by,
        host=host,
        name="small",
        question="does it run?",
        workload=workload,
        factors=list(factors or (SERVER_CPU,)),
        repetitions=repetitions,
        target=target,
        metric=metric,
        nuisance=nuisance,
        seed=1,
    )
    services.start_campaign(campaign, by=by)
    return campaign


def small_storage(host: Host, seconds: int = 2) -> list[dict[str, Any]]:
    """The steps of the recipe `storage` on this host, each of seconds."""
    steps = recipes.steps(recipes.get("storage"), allowed_paths.newest_facts(host))
    text = steps[2]["options"]["job_file"]
    for key, value in {"numjobs": 2, "ramp_time": 1, "size": "8m", "runtime": seconds}.items():
        text = "\n".join(f"{key}={value}" if line.startswith(f"{key}=") else line for line in text.splitlines())
    shorter = {"steps.fsync.secs_per_test": 1, "steps.timing.duration_s": 1, "steps.fio.job_file": text}
    return patch(steps, shorter)


def step() -> None:
    """What beat and workers do, once, in this process."""
    queue.arm_idle_hosts()
    for run in Run.objects.due(timezone.now()):
        dispatch.tick(run)
    for run in queries.to_ingest():
        ingest.ingest(run)


def drive(done: Callable[[], bool], timeout_s: float = 120) -> None:
    """Step until `done`."""
    deadline = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < deadline, [(str(run), run.state, run.error) for run in Run.objects.all()]
        step()
        time.sleep(0.05)


def believe_in_memory(host: Host, gib: int) -> None:
    """What the server believes of the host until its next facts, as after DIMMs were removed."""
    facts = host.facts_history.latest("number")
    facts.data["memory"].update(total_kb=gib * 1024**2, available_kb=gib * 1024**2)
    facts.save()


def finish(campaign: Campaign, timeout_s: float = 120) -> Campaign:
    """Drive a campaign to its end, results read."""

    def ended() -> bool:
        campaign.refresh_from_db()
        return campaign.ended_at is not None and not campaign.runs.filter(ingested_at=None).exists()

    drive(ended, timeout_s)
    return campaign


def ok_runs(campaign: Campaign, timeout_s: float) -> list[Run]:
    """The runs of a campaign, driven to its end. All of them must be ok."""
    runs = list(finish(campaign, timeout_s).runs.all())
    assert [run.outcome for run in runs] == ["ok"] * len(runs), [run.error for run in runs]
    return runs
