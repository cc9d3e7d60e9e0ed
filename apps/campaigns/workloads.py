"""Writing workloads: validated against the agent's registry, each change a new revision."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from agents.protocol import digest
from apps.accounts.models import Role, User
from apps.accounts.services import audit, require, require_commands, save
from apps.campaigns import steps
from apps.campaigns.models import Workload


@transaction.atomic
def save_workload(name: str, given: Any, *, description: str = "", by: User) -> Workload:
    """The next revision of the workload of that name, with these steps, or the latest one when it says the same."""
    require(by, Role.TUNER, "save workload")
    return _save(name, given, description, by)


def recipe_workload(name: str, given: Any, by: User) -> Workload:
    """A recipe's own workload; whoever may start the recipe may have it."""
    return _save(name, given, f"of the recipe {name}", by)


def imported_workload(name: str, found: list[dict[str, Any]], by: User) -> Workload:
    """What imported results were measured with, as far as they tell; whoever may import may have it."""
    workload = Workload(name=name, steps=found, digest=digest({"steps": found}), author=by, description="imported")
    save(workload)
    return workload


def _save(name: str, given: Any, description: str, by: User) -> Workload:
    wanted = steps.read(given)
    steps.check(wanted)
    if steps.runs_code(wanted):
        require_commands(by, "save workload")
    new = digest({"steps": wanted})
    latest = Workload.objects.select_for_update().filter(name=name).order_by("-revision").first()
    if latest and latest.digest == new:
        return latest
    revision = latest.revision + 1 if latest else 1
    workload = Workload(name=name, revision=revision, steps=wanted, digest=new, author=by)
    workload.description = description or (latest.description if latest else "")
    save(workload)
    audit(by, "workload.save", workload, after={"steps": wanted})
    return workload
