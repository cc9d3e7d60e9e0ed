"""Recipes of the team, in addition to the built-in ones: imported, read, exported, and created from campaigns."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.settings import SETTINGS
from apps.accounts.models import Role, User
from apps.accounts.services import audit, require
from apps.campaigns import recipes
from apps.campaigns.library import code
from apps.campaigns.models import Campaign, OwnRecipe
from apps.campaigns.recipes.reading import dump, parse
from common.errors import PlanError

Recipe = recipes.Recipe


def newest() -> dict[str, OwnRecipe]:
    """Return the newest version of each recipe of the team that is not withdrawn, by name."""
    rows = OwnRecipe.objects.filter(withdrawn_at=None).select_related("author")
    return {row.name: row for row in rows.order_by("name", "-version").distinct("name")}


def catalogue() -> dict[str, Recipe]:
    """Return the recipes by name: built-in ones, then the newest versions of the team's, which have an `own` row."""
    return {**recipes.catalogue(), **{name: _read(row) for name, row in newest().items()}}


def _read(row: OwnRecipe) -> Recipe:
    return {**recipes.with_tools(row.content), "own": row}


def find(name: str, version: int | None = None) -> Recipe | None:
    """Return the given version, or the newest one that is not withdrawn. Built-in recipes have one version."""
    if name in recipes.catalogue():
        return recipes.get(name)
    row = _row(name, version)
    return _read(row) if row else None


def _row(name: str, version: int | None) -> OwnRecipe | None:
    rows = OwnRecipe.objects.filter(name=name, **({"withdrawn_at": None} if version is None else {"version": version}))
    return rows.select_related("author").order_by("-version").first()


def get(name: str, version: int | None = None) -> Recipe:
    """PlanError if there is no such recipe."""
    recipe = find(name, version)
    if recipe is None:
        message = f"{name!r} does not exist" if version is None else f"{name!r} has no version {version}"
        raise PlanError("recipe", message, hint="known are: " + ", ".join(catalogue()))
    return recipe


def text_of(name: str, version: int | None = None) -> str | None:
    """Return the unchanged YAML of a recipe; None if there is no such recipe."""
    if name in recipes.texts():
        return recipes.texts()[name]
    row = _row(name, version)
    return row.text if row else None


def import_recipe(text: str, *, by: User) -> OwnRecipe:
    """Store the version in the text, unless it exists with the same content. A withdrawn one becomes available again.

    PlanError names the invalid field; then nothing is written."""
    require(by, Role.TUNER, "import recipe")
    recipe = parse(text)
    name, version = recipe["name"], recipe["version"]
    if name in recipes.catalogue():
        hint = "choose another name"
        raise PlanError("name", f"{name!r} is a built-in recipe", hint=hint)
    recipes.check(recipe)
    code.require_for([run.spec for run in recipes.planned(recipe)], by, "import a recipe that runs commands")
    known = OwnRecipe.objects.filter(name=name, version=version).first()
    if known is None:
        return _write(recipe, text, by)
    if known.text != text:
        hint = f"versions never change: write version: {_next(name)}"
        raise PlanError("version", f"version {version} of {name} exists with different contents", hint=hint)
    if known.withdrawn_at:
        _offer(known, None, "recipe.import", by)
    return known


def withdraw(name: str, *, by: User) -> None:
    """Offer the recipe no longer. Campaigns and drafts created from it keep it. PlanError if the team has none of
    that name."""
    require(by, Role.TUNER, "withdraw recipe")
    if name in recipes.catalogue():
        raise PlanError("recipe", f"{name!r} is built in", hint="only an imported recipe can be withdrawn")
    row = newest().get(name)
    if row is None:
        hint = "theirs are: " + (", ".join(newest()) or "none")
        raise PlanError("recipe", f"{name!r} is not an imported recipe", hint=hint)
    _offer(row, timezone.now(), "recipe.withdraw", by)


@transaction.atomic
def _offer(row: OwnRecipe, withdrawn_at: datetime | None, action: str, by: User) -> None:
    """Offer or withdraw all versions of a name."""
    OwnRecipe.objects.filter(name=row.name).update(withdrawn_at=withdrawn_at)
    audit(by, action, row, after={"name": row.name, "withdrawn": bool(withdrawn_at)})


def _write(recipe: Recipe, text: str, by: User) -> OwnRecipe:
    row = OwnRecipe(name=recipe["name"], version=recipe["version"], text=text, content=recipe, author=by)
    try:
        with transaction.atomic():
            row.save()
            OwnRecipe.objects.filter(name=row.name).update(withdrawn_at=None)
            audit(by, "recipe.import", row, after={"name": row.name, "version": row.version})
    except IntegrityError as error:
        hint = "import it again to see the result"
        raise PlanError("version", f"another user has just imported version {row.version}", hint=hint) from error
    return row


def of_campaign(campaign: Campaign) -> str:
    """Return the campaign's design as the YAML of a recipe, for review by a user. PlanError if it cannot be repeated.

    Host, PostgreSQL, roles, priority, budget and stopping rule belong to the campaign and are left out."""
    if campaign.kind != Campaign.Kind.COMPARISON or not campaign.workload:
        raise PlanError("kind", f"{campaign} is not a comparison that can be repeated", hint="choose a comparison")
    name = re.sub(r"[^a-z0-9]+", "-", campaign.name.lower()).lstrip("-0123456789")[:40].strip("-") or "ours"
    settings = dict(campaign.profile.settings) if campaign.profile else settings_of(campaign)
    return dump(
        {
            "version": _next(name),
            "name": name,
            "title": campaign.name[:90],
            "question": campaign.question,
            "about": f"Designed like the campaign {campaign.name} of {campaign.created_at:%Y-%m-%d}.",
            "chart": "One point per run, mean and CI per combination.",
            "restarts": "The private cluster is started and stopped for every run.",
            **({"needs": "root"} if _needs_root(campaign, settings) else {}),
            **_stated(campaign),
            **({"settings": settings} if settings else {}),
            **_dataset(campaign),
            "steps": campaign.steps,
            "factors": [_factor(factor) for factor in campaign.factors],
        }
    )


def _stated(campaign: Campaign) -> dict[str, Any]:
    """Without what is empty."""
    values = {name: getattr(campaign, name) for name in recipes.STATED}
    return {name: str(value) if isinstance(value, str) else value for name, value in values.items() if value}


def _next(name: str) -> int:
    last = OwnRecipe.objects.filter(name=name).order_by("-version").values_list("version", flat=True).first()
    return (last or 0) + 1


def _factor(factor: dict[str, Any]) -> dict[str, Any]:
    """Without what is empty."""
    levels = [{key: each for key, each in level.items() if key != "when" or each} for level in factor["levels"]]
    return {**{key: each for key, each in factor.items() if key != "order" or each}, "levels": levels}


def _dataset(campaign: Campaign) -> dict[str, Any]:
    own = campaign.dataset
    return {"dataset": {"kind": own.kind, "options": own.options}} if own else {}


def _needs_root(campaign: Campaign, settings: dict[str, Any]) -> bool:
    paths = [path.split(".") for factor in campaign.factors for level in factor["levels"] for path in level["set"]]
    named = {*settings, *(path[1] for path in paths if path[0] == "settings")}
    return campaign.reboot != Campaign.Reboot.NEVER or any(SETTINGS[name].level == "root" for name in named)


def settings_of(campaign: Campaign) -> dict[str, Any]:
    """Return the settings of all runs of a campaign without a profile: those of its recipe."""
    if not campaign.recipe:
        return {}
    return dict(get(campaign.recipe, campaign.recipe_version).get("settings", {}))
