"""Campaigns as data: each YAML file in built_in/ states a question and scales itself to the facts of a host."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from agents.wire.protocol import REBOOT
from apps.campaigns.design import data, plan
from apps.campaigns.design import steps as campaign_steps
from apps.campaigns.design.request import Arrangement, CampaignDesign
from apps.campaigns.design.steps import Step
from apps.campaigns.recipes.levels import GENERATORS
from apps.campaigns.recipes.reading import SCHEMA, parse
from apps.campaigns.recipes.reference import BIN_DIR, REFERENCE
from apps.campaigns.recipes.scale import scaled
from common.errors import PlanError

Recipe = dict[str, Any]
FOLDER = Path(__file__).with_name("built_in")
# Fields of a campaign that a recipe states; name, data set and factors are derived from those of the recipe.
STATED = [
    name for name in CampaignDesign.names() if name in SCHEMA["properties"].keys() - {"name", "dataset", "factors"}
]


@cache
def texts() -> dict[str, str]:
    """Return the YAML of the built-in recipes by name, in the order of their file names."""
    return {file.stem: file.read_text() for file in sorted(FOLDER.glob("*.yaml"))}


@cache
def catalogue() -> dict[str, Recipe]:
    """Return the built-in recipes by name."""
    return {name: with_tools(parse(text)) for name, text in texts().items()}


def with_tools(recipe: Recipe) -> Recipe:
    """Return the recipe with the tools of its steps and the seconds of their load, for the catalogue."""
    recipe_steps = steps(recipe, {})
    return {**recipe, "tools": campaign_steps.kinds(recipe_steps), "load_s": campaign_steps.seconds(recipe_steps)}


def get(name: str) -> Recipe:
    """Return a built-in recipe. PlanError if there is none of that name."""
    if name not in catalogue():
        raise PlanError("recipe", f"{name!r} does not exist", hint="known are: " + ", ".join(catalogue()))
    return catalogue()[name]


def check(recipe: Recipe) -> None:
    """Raise PlanError with the field of the recipe that no host could run."""
    for spec in {run.digest: run.spec for run in planned(recipe)}.values():
        campaign_steps.check([step for step in spec["steps"] if step["kind"] != REBOOT])


def planned(recipe: Recipe) -> list[plan.Planned]:
    """Return its runs on a host that lacks nothing. PlanError names the field that cannot be planned."""
    recipe_steps = campaign_steps.read(steps(recipe, REFERENCE))
    campaign_steps.check(recipe_steps)
    campaign_steps.metric(recipe_steps, recipe["metric"])
    own = dataset(recipe, REFERENCE)
    if own:
        _check_dataset(own)
    place = {"kind": "private", "bin_dir": BIN_DIR, "data_dir": REFERENCE["directories"][0], "os_user": ""}
    named = {"name": recipe["name"], **own, "reset": "auto"} if own else None
    base = {"target": place, "settings": recipe.get("settings", {}), "dataset": named, "steps": recipe_steps}
    stated = {name: recipe[name] for name in Arrangement.names() if name in recipe}
    return plan.expand(base, Arrangement(**stated | {"factors": factors(recipe, REFERENCE), "seed": 0}))


def _check_dataset(own: dict[str, Any]) -> None:
    try:
        data.check(own["kind"], own["options"])
    except PlanError as error:
        raise PlanError(f"dataset.{error.subject}", error.message, hint=error.hint) from error


def design(recipe: Recipe) -> dict[str, Any]:
    """Return the fields of a campaign that the recipe states."""
    return {name: recipe[name] for name in STATED if name in recipe}


def factors(recipe: Recipe, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the recipe's factors with their levels, generated from the facts of the host if the recipe says so."""
    return [_factor(factor, facts) for factor in recipe["factors"]]


def _factor(factor: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    if "generate" not in factor:
        return factor
    levels = GENERATORS[factor["generate"]](facts)
    named = [{"label": label, "set": _below(factor["path"], value)} for label, value in levels]
    order = {"order": factor["order"]} if "order" in factor else {}
    return {"name": factor["name"], **order, "levels": named}


def _below(path: str, value: Any) -> dict[str, Any]:
    """Return the paths of a generated level. Names are relative to the factor's path, apart from settings of the
    host."""
    if not isinstance(value, dict):
        return {path: value}
    return {name if name.startswith("settings.") else f"{path}.{name}": each for name, each in value.items()}


def steps(recipe: Recipe, facts: dict[str, Any]) -> list[Step]:
    """Return the workload's steps on this host, with the numbers that depend on its facts. `facts` is {} if it is
    unknown."""
    return [{**step, "options": _options(step["options"], facts)} for step in recipe["steps"]]


def dataset(recipe: Recipe, facts: dict[str, Any]) -> dict[str, Any] | None:
    """Return {"kind", "options"} of the recipe's own data set on this host; None if it has none."""
    own = recipe.get("dataset")
    return {**own, "options": _options(own["options"], facts)} if own else None


def _options(options: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    return {name: scaled(value, facts) for name, value in options.items()}
