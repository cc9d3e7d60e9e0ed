"""Code of users: programs, scripts and SQL in the resolved spec of a run. One rule for every source.

Planning or starting such a run needs the permission to run commands, whether the text comes from a workload, a level
of a factor, a recipe, a data set, a clone or an import. Built-in scripts do not need it, nor do texts that are
identical to one in a built-in recipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from agents.datasets import ABSENT, DATASETS
from agents.workloads import WORKLOADS
from apps.accounts.models import User
from apps.accounts.services import require_commands, who_grants
from apps.campaigns import recipes
from apps.campaigns.design.steps import CHECKPOINT
from apps.campaigns.models import Campaign
from common.errors import PlanError


@dataclass(frozen=True)
class Code:
    """A program, script or SQL text, and the field that holds it."""

    field: str
    text: str


def in_steps(steps: Iterable[Mapping[str, Any]]) -> Iterator[Code]:
    """Yield the code of users in these steps."""
    for step in steps:
        if step["kind"] in WORKLOADS and "metrics" not in step:
            for field, text in WORKLOADS[step["kind"]].code(step["options"]).items():
                if (step["kind"], text) not in _shipped():
                    yield Code(f"steps.{step['name']}.{field}", text)


def in_dataset(dataset: Mapping[str, Any] | None) -> Iterator[Code]:
    """Yield the code of a data set {"kind", "options"} that has to be created. Removing one runs none of it."""
    if dataset and dataset["kind"] in DATASETS and dataset.get("ensure") != ABSENT:
        for field, text in DATASETS[dataset["kind"]].code(dataset["options"]).items():
            if (dataset["kind"], text) not in _shipped():
                yield Code(f"dataset.{field}", text)


def in_spec(spec: Mapping[str, Any]) -> list[Code]:
    """Return the code of one run, or of one part of a run."""
    return [*in_steps(spec["steps"]), *in_dataset(spec.get("dataset"))]


def check_job(campaign: Campaign, spec: Mapping[str, Any]) -> None:
    """PlanError if the user who started a campaign may no longer run the commands in the spec of one of its jobs."""
    codes = in_spec(spec)
    if not codes:
        return
    user = campaign.started_by or campaign.created_by
    if not (user.is_active and user.may_run_commands):
        raise PlanError(codes[0].field, f"{user}, who started this campaign, may not run commands", hint=who_grants())


def require_permission(codes: Iterable[Code], user: User, action: str) -> None:
    """RoleError naming the first field, unless there is no code or the user may run commands."""
    first = next(iter(codes), None)
    if first:
        require_commands(user, action, first.field)


def require_for(specs: Sequence[Mapping[str, Any]], user: User, action: str) -> None:
    """Require the permission for all code in these specs."""
    require_permission((each for spec in specs for each in in_spec(spec)), user, action)


@cache
def _shipped() -> frozenset[tuple[str, str]]:
    """Return (kind, text) of all code in built-in recipes, and of code that the program adds to runs."""
    specs = {run.digest: run.spec for recipe in recipes.catalogue().values() for run in recipes.planned(recipe)}
    made = [spec["dataset"] for spec in specs.values() if spec["dataset"]]
    steps = [step for spec in specs.values() for step in spec["steps"] if step["kind"] in WORKLOADS]
    texts = {(step["kind"], text) for step in steps for text in WORKLOADS[step["kind"]].code(step["options"]).values()}
    texts |= {
        (dataset["kind"], text)
        for dataset in made
        for text in DATASETS[dataset["kind"]].code(dataset["options"]).values()
    }
    return frozenset({("sql", CHECKPOINT), *texts})
