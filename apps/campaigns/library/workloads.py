"""Save workloads, validated against the agent's registry. Each change creates a new revision."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from agents.wire.protocol import digest
from apps.accounts.models import Role, Team, User
from apps.accounts.services import audit, require, save
from apps.campaigns.design import steps
from apps.campaigns.library import code
from apps.campaigns.models import Workload
from common.errors import PlanError

STANDARD = steps.single("pgbench", {"builtin": "tpcb-like", "scale": 10, "clients": 8, "jobs": 2, "time_s": 30})


@transaction.atomic
def save_workload(name: str, raw_steps: Any, *, description: str = "", team: Team | None = None, by: User) -> Workload:
    """Return the next revision of the named workload, or the latest one if its steps are identical.

    `team`: the owner of a new one, or None. An existing one keeps its owner."""
    latest = Workload.objects.filter(name=name).order_by("-revision").first()
    require(by, Role.TUNER, "save workload", on=latest or Workload(team=team))
    if latest and team and latest.team_id != team.pk:
        whose = f"owned by the team {latest.team}" if latest.team else "owned by no team"
        raise PlanError("team", f"{name} is {whose}", hint="omit the team, or transfer the workload first")
    return _save(name, raw_steps, description, by, team)


def recipe_workload(name: str, raw_steps: Any, by: User) -> Workload:
    """Save a recipe's workload. Any user who may start the recipe may create it."""
    return _save(name, raw_steps, f"of the recipe {name}", by, None)


def standard_workload(by: User) -> Workload:
    """The workload of a campaign that names none. Any user who may create the campaign may create it."""
    return _save("tpcb-like", STANDARD, "pgbench's own script; for campaigns without another workload", by, None)


def imported_workload(name: str, imported_steps: list[dict[str, Any]], by: User) -> Workload:
    """Save the workload of imported results, as far as it is known. Any user who may import may create it."""
    workload = Workload(
        name=name, steps=imported_steps, digest=digest({"steps": imported_steps}), author=by, description="imported"
    )
    save(workload)
    return workload


def _save(name: str, raw_steps: Any, description: str, by: User, team: Team | None) -> Workload:
    checked_steps = steps.read(raw_steps)
    steps.check(checked_steps)
    code.require_permission(code.in_steps(checked_steps), by, "save workload")
    new = digest({"steps": checked_steps})
    latest = Workload.objects.select_for_update().filter(name=name).order_by("-revision").first()
    if latest and latest.digest == new:
        return latest
    if latest and latest.team_id:  # starting a recipe is no permission to change a team's workload
        require(by, Role.TUNER, "save workload", on=latest)
    revision = latest.revision + 1 if latest else 1
    workload = Workload(name=name, revision=revision, steps=checked_steps, digest=new, author=by)
    workload.team = latest.team if latest else team
    workload.description = description or (latest.description if latest else "")
    save(workload)
    audit(by, "workload.save", workload, after={"steps": checked_steps})
    return workload
