"""Writing workloads: validated against the agent's registry, each change a new revision."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from agents.errors import Unplannable
from agents.protocol import digest
from agents.workloads import WORKLOADS
from apps.accounts.models import Role, User
from apps.accounts.services import audit, require, save
from apps.campaigns.models import Workload
from apps.errors import PlanError
from apps.tuning import rules


def validate(kind: str, options: Any) -> None:
    """PlanError naming the field that the workload's kind does not accept."""
    if kind not in WORKLOADS:
        raise PlanError("kind", f"{kind!r} is not known", hint="one of " + ", ".join(WORKLOADS))
    rules.check_schema("options", options, WORKLOADS[kind].schema)
    try:
        WORKLOADS[kind].check(options)
    except Unplannable as error:
        raise PlanError(f"options.{error.field}", f"{error.value!r} is not possible", hint=error.accepted) from error


@transaction.atomic
def save_workload(name: str, kind: str, options: dict[str, Any], *, description: str = "", by: User) -> Workload:
    """The next revision of the workload of that name, or the latest one when it says the same."""
    require(by, Role.TUNER, "save workload")
    return _save(name, kind, options, description, by)


def recipe_workload(name: str, kind: str, options: dict[str, Any], by: User) -> Workload:
    """A recipe's own workload; whoever may start the recipe may have it."""
    return _save(name, kind, options, f"of the recipe {name}", by)


def _save(name: str, kind: str, options: dict[str, Any], description: str, by: User) -> Workload:
    validate(kind, options)
    new = digest({"kind": kind, "options": options})
    latest = Workload.objects.select_for_update().filter(name=name).order_by("-revision").first()
    if latest and latest.digest == new:
        return latest
    revision = latest.revision + 1 if latest else 1
    workload = Workload(name=name, revision=revision, kind=kind, options=options, digest=new, author=by)
    workload.description = description or (latest.description if latest else "")
    save(workload)
    audit(by, "workload.save", workload, after={"kind": kind, "options": options})
    return workload
