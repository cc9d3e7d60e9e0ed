"""Save data sets, validated against the agent's registry. Each change creates a new revision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from agents.wire.protocol import digest
from apps.accounts.models import Role, Team, User
from apps.accounts.services import audit, require, save
from apps.campaigns.design import data
from apps.campaigns.library import code
from apps.campaigns.models import DataSet
from common.errors import PlanError


@transaction.atomic
def save_dataset(
    name: str,
    kind: str,
    options: Mapping[str, Any],
    *,
    reset: str = "auto",
    description: str = "",
    team: Team | None = None,
    by: User,
) -> DataSet:
    """Return the next revision of the named data set, or the latest one if it is identical.

    `team`: the owner of a new one, or None. An existing one keeps its owner."""
    latest = DataSet.objects.filter(name=name).order_by("-revision").first()
    require(by, Role.TUNER, "save data set", on=latest or DataSet(team=team))
    if latest and team and latest.team_id != team.pk:
        whose = f"owned by the team {latest.team}" if latest.team else "owned by no team"
        raise PlanError("team", f"{name} is {whose}", hint="omit the team, or transfer the data set first")
    return _save(name, kind, options, reset, description, by, team)


def recipe_dataset(name: str, dataset: Mapping[str, Any], by: User) -> DataSet:
    """Save a recipe's data set for a host. Any user who may start the recipe may create it."""
    # One revision per size, so that a host uses its own again after other hosts had theirs.
    known = DataSet.objects.filter(name=name, kind=dataset["kind"], options=dataset["options"], reset="auto").first()
    return known or _save(name, dataset["kind"], dataset["options"], "auto", f"of the recipe {name}", by, None)


def _save(
    name: str, kind: str, options: Mapping[str, Any], reset: str, description: str, by: User, team: Team | None
) -> DataSet:
    data.check(kind, options, reset)
    code.require_permission(code.in_dataset({"kind": kind, "options": options}), by, "save data set")
    new = digest({"kind": kind, "options": options, "reset": reset})
    revisions = DataSet.objects.select_for_update().filter(name=name).order_by("-revision")
    latest = revisions.first()
    if latest and latest.digest == new:
        return latest
    if latest and latest.team_id:  # starting a recipe is no permission to change a team's data set
        require(by, Role.TUNER, "save data set", on=latest)
    dataset = DataSet(name=name, kind=kind, options=options, reset=reset, digest=new, author=by)
    dataset.team = latest.team if latest else team
    dataset.revision = latest.revision + 1 if latest else 1
    dataset.description = description or (latest.description if latest else "")
    save(dataset)
    audit(by, "dataset.save", dataset, after={"kind": kind, "options": options, "reset": reset})
    return dataset
