"""Recipes on a host: their levels there, and how long they would take."""

from __future__ import annotations

from apps.campaigns import recipes, services
from apps.campaigns.design.before_start import previews
from apps.campaigns.design.before_start.placement import StartPreview
from apps.campaigns.models import Campaign, DataSet, Workload
from apps.campaigns.recipes import Recipe
from apps.hosts.models import Host


def on_host(recipe: Recipe, host: Host) -> Recipe:
    """Return the recipe with its levels and options on this host. PlanError if the host was never checked."""
    facts = previews.facts_of(host)
    scaled = {"factors": recipes.factors(recipe, facts), "steps": recipes.steps(recipe, facts)}
    return {**recipe, **scaled, "dataset": recipes.dataset(recipe, facts)}


def preview(recipe: Recipe, host: Host) -> StartPreview:
    """Return the runs that a campaign from the recipe would plan on this host now. Writes nothing.

    PlanError with the reason if the host cannot run it."""
    facts = previews.facts_of(host)
    fields, there = services.of_recipe(recipe, host, facts), on_host(recipe, host)
    workload, own = Workload(name=recipe["name"], steps=there["steps"]), there["dataset"]
    dataset = DataSet(name=recipe["name"], **own) if own else None
    campaign = Campaign(host=host, seed=0, factors=there["factors"], workload=workload, dataset=dataset, **fields)
    return previews.preview(campaign, ())
