"""Creating a twin from an uploaded capture: its data set, its workload, and the statements of production."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import transaction

from apps.accounts.models import Role, Team, User
from apps.accounts.services import audit, require, require_commands, save
from apps.campaigns.library import datasets, workloads
from apps.campaigns.models import Campaign, DataSet, Twin
from apps.campaigns.twins.preloading import is_marked, is_twin
from common.errors import FormatError, PlanError
from readers.twin.capture import read_capture

if TYPE_CHECKING:
    from apps.campaigns.twins.build import Built
    from readers.twin.model import Capture

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
    transactions: Sequence[Sequence[str]] = (),
    dataset: DataSet | None = None,
    team: Team | None = None,
    by: User,
) -> Twin:
    """The twin of a captured file. Its statements are code, so `by` needs the permission to run commands.
    `transactions`: lists of the query ids that are executed together. `dataset`: data that exist already, such as a
    copy of production; otherwise a data set with synthetic rows is created.

    PlanError names the field, or the line of the file."""
    require(by, Role.TUNER, "create twin", on=Twin(team=team))
    require_commands(by, "create twin", "file")
    if not LEAST <= factor <= MOST:
        raise PlanError("factor", f"{factor:g} is not accepted", hint=f"a number from {LEAST:g} to {MOST:g}")
    _check_dataset(dataset, factor)
    try:
        capture = read_capture(raw)
    except FormatError as error:
        raise PlanError("file", error.message, hint=error.hint) from error
    from apps.campaigns.twins.build import build  # sqlglot takes a third of a second to load

    built = build(capture, factor, without, transactions, existing=dataset is not None)
    if not built.scripts:
        raise PlanError("file", "no statement of this capture can be in a twin", hint="capture while the load runs")
    return _save(name, built, capture, factor, load or Load(), dataset, team, by)


def _check_dataset(dataset: DataSet | None, factor: float) -> None:
    if dataset is not None and is_twin(dataset):
        hint = "choose a copy of the captured database, or none"
        raise PlanError("dataset", f"{dataset} has synthetic rows", hint=hint)
    if dataset is not None and factor != 1:
        raise PlanError("factor", f"{factor:g} is not accepted with existing data", hint="1: their rows do not change")


def ids(text: str) -> list[str]:
    """The query ids in a text, in which commas or spaces separate them."""
    return text.replace(",", " ").split()


@transaction.atomic
def _save(
    name: str,
    built: Built,
    capture: Capture,
    factor: float,
    load: Load,
    dataset: DataSet | None,
    team: Team | None,
    by: User,
) -> Twin:
    about = f"twin of the database {capture.database}"
    if dataset is None:
        dataset = datasets.save_dataset(name, "sql", {"steps": built.steps}, description=about, team=team, by=by)
    workload = workloads.save_workload(name, _steps_of(built, load), description=about, team=team, by=by)
    existing = Twin.objects.filter(dataset=dataset, workload=workload).first()
    if existing:
        return existing
    twin = Twin(
        name=name,
        dataset=dataset,
        workload=workload,
        team=workload.team,
        database=capture.database,
        version=capture.version,
        seconds=capture.seconds,
        factor=factor,
        covered=built.covered,
        statements=[asdict(each) for each in built.rows[:MOST_ROWS]],
        missing=built.missing[:MOST_ROWS],
        author=by,
    )
    save(twin)
    audit(
        by,
        "twin.create",
        twin,
        after={"database": capture.database, "factor": factor, "covered": round(built.covered, 4)},
    )
    return twin


def _steps_of(built: Built, load: Load) -> list[dict[str, Any]]:
    if not built.preparation:
        return [_step(built, load)]
    options = {"statements": built.preparation}
    return [{"name": "prepare", "role": "prepare", "kind": "sql", "options": options}, _step(built, load)]


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
    """The twin whose scripts the campaign runs on the twin's data set; None for any other campaign."""
    if campaign.dataset is None or not (is_twin(campaign.dataset) or is_marked(_steps(campaign))):
        return None
    return _of(campaign, Twin.objects.filter(dataset=campaign.dataset_id).select_related("workload"))


def twins_of(campaigns: Collection[Campaign]) -> dict[UUID, Twin]:
    """{campaign: its twin}, of those of these campaigns that run one. One query if any has a data set, else none."""
    datasets = {each.dataset_id for each in campaigns} - {None}
    twins = list(Twin.objects.filter(dataset__in=datasets).select_related("workload")) if datasets else []
    by_campaign = {
        each.pk: _of(each, [one for one in twins if one.dataset_id == each.dataset_id]) for each in campaigns
    }
    return {pk: twin for pk, twin in by_campaign.items() if twin}


def _of(campaign: Campaign, twins: Iterable[Twin]) -> Twin | None:
    """The workload of a campaign may be changed: more steps, other options than the scripts."""
    candidates = list(twins)
    same = next((each for each in candidates if each.workload_id == campaign.workload_id), None)
    if same or not candidates:
        return same
    own = _scripts(_steps(campaign))
    return next((each for each in candidates if own and _scripts(each.workload.steps) == own), None)


def _steps(campaign: Campaign) -> Sequence[Mapping[str, Any]]:
    return campaign.workload.steps if campaign.workload else []


def _scripts(steps: Sequence[Mapping[str, Any]]) -> Any:
    return next((each["options"].get("scripts") for each in steps if each["name"] == STEP), None)
