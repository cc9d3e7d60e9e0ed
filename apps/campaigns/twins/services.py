"""Creating a twin from an uploaded capture: its data set, its workload, and the statements of production."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import transaction
from django.db.models import F

from apps.accounts.models import Role, Team, User
from apps.accounts.services import audit, require, require_commands, save
from apps.campaigns.library import datasets, workloads
from apps.campaigns.models import Campaign, Twin
from apps.campaigns.twins.preloading import is_twin
from common.errors import FormatError, PlanError
from readers.twin.capture import read_capture

if TYPE_CHECKING:
    from apps.campaigns.twins.build import Built

STEP = "measure"
PACES = ("closed", "production")
LEAST, MOST = 0.0001, 100.0
MOST_ROWS = 1000  # statements that are stored, and missing parts of the schema


@dataclass(frozen=True)
class Load:
    """How the scripts run. `pace`: closed, each client without pauses; production, at production's call rate."""

    clients: int = 8
    jobs: int = 2
    time_s: int = 60
    pace: str = "closed"


def create(
    name: str,
    raw: bytes,
    *,
    factor: float = 1.0,
    load: Load | None = None,
    without: Sequence[str] = (),
    team: Team | None = None,
    by: User,
) -> Twin:
    """The twin of a captured file. Its statements are code, so `by` needs the permission to run commands.

    PlanError names the field, or the line of the file."""
    require(by, Role.TUNER, "create twin", on=Twin(team=team))
    require_commands(by, "create twin", "file")
    if not LEAST <= factor <= MOST:
        raise PlanError("factor", f"{factor:g} is not accepted", hint=f"a number from {LEAST:g} to {MOST:g}")
    try:
        capture = read_capture(raw)
    except FormatError as error:
        raise PlanError("file", error.message, hint=error.hint) from error
    from apps.campaigns.twins.build import build  # sqlglot takes a third of a second to load

    built = build(capture, factor, without)
    if not built.scripts:
        raise PlanError("file", "no statement of this capture can be in a twin", hint="capture while the load runs")
    return _save(name, built, capture.database, capture.version, factor, load or Load(), team, by)


@transaction.atomic
def _save(
    name: str, built: Built, database: str, version: int, factor: float, load: Load, team: Team | None, by: User
) -> Twin:
    about = f"twin of the database {database}"
    dataset = datasets.save_dataset(name, "sql", {"steps": built.steps}, description=about, team=team, by=by)
    workload = workloads.save_workload(name, [_step(built, load)], description=about, team=team, by=by)
    existing = Twin.objects.filter(dataset=dataset, workload=workload).first()
    if existing:
        return existing
    twin = Twin(
        name=name,
        dataset=dataset,
        workload=workload,
        team=workload.team,
        database=database,
        version=version,
        seconds=built.seconds,
        factor=factor,
        covered=built.covered,
        statements=[asdict(each) for each in built.rows[:MOST_ROWS]],
        missing=built.missing[:MOST_ROWS],
        author=by,
    )
    save(twin)
    audit(by, "twin.create", twin, after={"database": database, "factor": factor, "covered": round(built.covered, 4)})
    return twin


def _step(built: Built, load: Load) -> dict[str, Any]:
    options: dict[str, Any] = {
        "scripts": built.scripts,
        "clients": load.clients,
        "jobs": min(load.jobs, load.clients),
        "time_s": load.time_s,
    }
    if load.pace == "production":
        options["rate"] = max(0.001, round(built.calls_per_s, 3))
    return {"name": STEP, "role": "measure", "kind": "pgbench", "options": options}


def of_campaign(campaign: Campaign) -> Twin | None:
    """The twin whose workload the campaign runs on the twin's data set; None for any other campaign."""
    if campaign.dataset is None or not is_twin(campaign.dataset):
        return None
    return Twin.objects.filter(workload=campaign.workload_id, dataset=campaign.dataset_id).first()


def twins_of(campaigns: Collection[UUID]) -> dict[UUID, Twin]:
    """{campaign: its twin}, of those of these campaigns that run one."""
    runs_twin = Campaign.objects.filter(pk__in=campaigns, dataset__twins__workload=F("workload"))
    keys = dict(runs_twin.values_list("pk", "dataset__twins"))
    twins = Twin.objects.in_bulk(set(keys.values())) if keys else {}
    return {campaign: twins[key] for campaign, key in keys.items()}
