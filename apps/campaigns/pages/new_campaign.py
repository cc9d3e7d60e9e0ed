"""The form of a new campaign, from a recipe or empty, with its factors as rows."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db import transaction
from django.http import HttpRequest

from apps.accounts.models import User
from apps.accounts.services import user_of
from apps.campaigns import archiving, lifecycle, recipes, services
from apps.campaigns.design import descriptions
from apps.campaigns.design.before_start import checks, previews
from apps.campaigns.design.factors import readable_name
from apps.campaigns.design.plan import Planned
from apps.campaigns.design.request import CampaignDesign
from apps.campaigns.design.steps import Step, metrics
from apps.campaigns.library import own_recipes, workloads
from apps.campaigns.models import Campaign, DataSet, Twin, Workload
from apps.campaigns.pages import factor_rows, load_fields
from apps.campaigns.pages.forms import ALIKE, ARRANGED, CampaignForm, alike_shown
from apps.campaigns.pages.stop_form import StopForm
from apps.hosts.models import Host
from apps.hosts.usage import allowed_paths
from apps.request_values import whole
from apps.tuning import parameters
from apps.tuning.models import Revision
from apps.tuning.parameters import Parameter
from apps.web.pages import blame, sentence, spoken
from common.errors import PlanError, RoleError


def _source(key: str) -> Campaign | None:
    """Return the campaign to clone; None without one."""
    try:
        return Campaign.objects.filter(pk=UUID(key), kind=Campaign.Kind.COMPARISON).first()
    except ValueError:
        return None


BETWEEN = {"between": "first", "between.0": "first", "between.1": "second"}


class Draft:
    """`form` and `rows` as entered, or as the recipe proposes them for the host in the URL."""

    def __init__(self, request: HttpRequest) -> None:
        self.source = _source(request.POST.get("from", request.GET.get("from", "")))
        replaced = request.POST.get("replace") or request.GET.get("replace")
        self.replaces = self.source if replaced and self.source and self.source.state == Campaign.State.DRAFT else None
        own = self.source.recipe if self.source else ""
        named = request.POST.get("recipe", request.GET.get("recipe", own))
        self.recipe = own_recipes.find(named)
        self.name = named if self.recipe else ""
        self.notice, self.setting, self.setting_error = "", "", ""
        if request.method == "POST":
            columns = {name: request.POST.getlist(name) for name in ("factor", "level", "path", "value")}
            self.rows = factor_rows.rows_typed(columns)
            self.form = CampaignForm(request.POST, by=user_of(request), recipe=self.recipe)
            self.host = None
        else:
            self.host = self._host(request.GET.get("host", ""))
            self.twin = Twin.objects.filter(pk=whole(request.GET.get("twin", "")) or 0).first()
            self.rows = (
                self._cloned() or self._proposed() or [factor_rows.FactorRow() for _ in range(factor_rows.BLANK_ROWS)]
            )
            self.form = CampaignForm(initial=self._initial(), by=user_of(request), recipe=self.recipe)
        if self.source:
            self.form.offer_also(self.source)
        self.form.show_defaults(self.defaults)
        if request.method == "GET" and "setting" in request.GET:
            self.add_setting(request.GET["setting"])

    def _host(self, key: str) -> Host | None:
        checked = Host.objects.filter(facts_history__isnull=False).distinct()
        if key:
            return checked.filter(pk=whole(key) or 0).first()
        return checked.first() if checked.count() == 1 else None

    def _cloned(self) -> list[factor_rows.FactorRow]:
        return factor_rows.rows_of(load_fields.without_load(self.source.factors)) if self.source else []

    def _proposed(self) -> list[factor_rows.FactorRow]:
        """Return the recipe's levels on this host. If they depend on its facts, a host has to be chosen first."""
        if self.recipe is None:
            return []
        if self.host is None and any("generate" in factor for factor in self.recipe["factors"]):
            self.notice = "The levels depend on the host: choose a host to see them."
            return []
        try:
            return factor_rows.rows_of(
                recipes.factors(self.recipe, allowed_paths.newest_facts(self.host) if self.host else {})
            )
        except PlanError as error:
            self.notice = sentence("", error)
            return []

    def _initial(self) -> dict[str, Any]:
        if self.source:
            filled = CampaignForm.filled(self.source)
            return filled | ({"name": self.source.name, "seed": self.source.seed} if self.replaces else {})
        initial: dict[str, Any] = {"host": self.host}
        if self.twin:
            initial |= {"name": self.twin.name, "workload": self.twin.workload, "dataset": self.twin.dataset}
        if self.recipe:
            name = f"{self.recipe['title']} on {self.host}" if self.host else self.recipe["title"]
            initial |= recipes.design(self.recipe) | {"name": name, "delta": f"{self.recipe['delta'] * 100:g}"}
            initial |= alike_shown(self.recipe.get("nuisance", {})) | self._arrangement()
        return initial

    def _arrangement(self) -> dict[str, str]:
        """Return the initial values of the fields next to the rows."""
        factors = (self.recipe or {})["factors"]
        return {
            "conditions": factor_rows.conditions_of(factor for factor in factors if "levels" in factor),
            "factor_orders": factor_rows.orders_of(factors),
            "cells": factor_rows.cells_text((self.recipe or {}).get("cells", []), factors),
        }

    @property
    def dataset(self) -> str:
        """The kind of the chosen data set, or of the recipe's; "" for the one that the workload needs."""
        return str(self._data["kind"]) if self._data else ""

    @property
    def _data(self) -> dict[str, Any] | None:
        chosen = self._chosen("dataset")
        own = recipes.dataset(self.recipe, self._facts) if self.recipe else None
        return {"kind": chosen.kind, "options": chosen.options} if chosen else own

    @property
    def steps(self) -> list[Step]:
        """The steps of the chosen workload, or of the recipe's."""
        chosen = self._chosen("workload")
        if chosen:
            return list(chosen.steps)
        return recipes.steps(self.recipe, self._facts) if self.recipe else workloads.STANDARD

    def _chosen(self, field: str) -> Any:
        """Return the chosen workload or data set, also if other fields have errors; None without one."""
        if not self.form.is_bound:
            return self.form.initial.get(field)
        self.form.is_valid()  # fills cleaned_data
        return self.form.cleaned_data.get(field)

    @cached_property
    def _chosen_host(self) -> Host | None:
        return self._host(str(self.form["host"].value())) if self.form.is_bound else self.host

    @cached_property
    def _facts(self) -> dict[str, Any]:
        return allowed_paths.newest_facts(self._chosen_host) if self._chosen_host else {}

    @property
    def defaults(self) -> dict[str, str]:
        """The values of the workload and the data set for the empty fields of the load."""
        return load_fields.defaults(self.steps, self._data)

    @cached_property
    def parameters(self) -> list[Parameter]:
        """Every parameter, with its present value on the chosen host and in the chosen profile."""
        host = self._chosen_host
        chosen = whole(str(self.form["profile"].value() or ""))
        profile = Revision.objects.filter(pk=chosen).first() if chosen else None
        return parameters.every(host.facts if host else None, profile.settings if profile else None)

    def add_setting(self, typed: str) -> None:
        """Add a row for the parameter with this name or path; a blank row without a name."""
        known = parameters.find(self.parameters, typed.strip())
        if known:
            factor_rows.set_from(self.rows, known.path, known.name, known.present)
        elif typed.strip():
            self.setting, near = typed.strip(), parameters.near(self.parameters, typed.strip())
            self.setting_error = f"Setting {self.setting} does not exist."
            self.setting_error += f" Did you mean {', '.join(near)}?" if near else ""
        else:
            self.rows.append(factor_rows.FactorRow())

    def context(self) -> dict[str, Any]:
        hints = {parameter.path: parameter.hint for parameter in self.parameters}
        for row in self.rows:
            row.hint = hints.get(row.path, "")
        return {
            "setting": self.setting,
            "setting_error": self.setting_error,
            "recipe": self.recipe,
            "source": self.source,
            "replaces": self.replaces,
            "rows": self.rows,
            "notice": self.notice,
            "paths": factor_rows.known_paths(self.steps, self.dataset),
            "metrics": metrics(self.steps),
            "factor_error": next((row.error for row in self.rows if row.error), ""),
            "arranged": self.form.shown(*ARRANGED, "seed"),
            "ending": self.form.shown(*StopForm.base_fields),
            "alike": self.form.shown(*ALIKE, "reboot"),
        }

    def create(self, by: User) -> Campaign | None:
        """Create the draft campaign. Returns None if there are errors, which are added to their fields or rows."""
        if not self._is_valid():
            return None
        factors = self._factors()
        try:
            if self.replaces:
                return archiving.replace_draft(self.replaces, lambda: self._made(factors, by), by=by)
            return self._made(factors, by)
        except RoleError:
            raise
        except PlanError as error:
            self._blame(error, factors)
            return None

    def _made(self, factors: list[dict[str, Any]], by: User) -> Campaign:
        """Clone or replace a campaign, or create one from a recipe or from nothing."""
        if self.source:
            return lifecycle.clone_campaign(self.source, **(self._optional() | self._fields(factors, by)))
        if self.name:
            return services.create_from_recipe(recipe=self.name, **self._fields(factors, by))
        chosen = self._fields(factors, by)
        with transaction.atomic():  # a refused campaign leaves no workload behind
            if "workload" not in chosen:
                chosen["workload"] = workloads.standard_workload(by)
            return services.create_campaign(**chosen)

    def _optional(self) -> dict[str, None]:
        """Return the fields that a clone does not take over if they were emptied."""
        without_value = [each.name for each in fields(CampaignDesign) if each.default is None]
        return dict.fromkeys({"seed", *without_value} & self.form.fields.keys())

    def _is_valid(self) -> bool:
        """Whether each field is valid, and no row sets what a field of the load sets."""
        if not self.form.is_valid():
            return False
        self.load = load_fields.load_rows(self.form.cleaned_data, has_dataset=bool(self.dataset))
        taken = {row.path for row in self.rows}
        for row in self.load:
            if row.path in taken:
                message = f"A factor sets {row.path}. Leave this field empty, or remove the factor."
                self.form.add_error(load_fields.PATHS[row.path], message)
        return self.form.is_valid()

    def _factors(self) -> list[dict[str, Any]]:
        """Return the factors as entered. A row with several values becomes a row per value."""
        self.rows = factor_rows.spread(self.rows, self.steps, self.dataset)
        return factor_rows.factors_of([*self.rows, *self.load], self.steps, self.dataset)

    def _fields(self, factors: list[dict[str, Any]], by: User) -> dict[str, Any]:
        """Return the arguments of services.create_campaign. PlanError if a line next to the rows cannot be parsed."""
        typed = self.form.cleaned_data
        arranged = factor_rows.arranged(factors, typed["conditions"], typed["factor_orders"])
        fixed = load_fields.load_cell(factors)
        cells = [each | fixed for each in factor_rows.cells_of(typed["cells"], load_fields.without_load(factors))]
        stop = self.form.rule(load_fields.without_load(arranged))
        if stop:
            stop["between"] = [each | fixed for each in stop["between"]]
        return {**self.form.choices(), "factors": arranged, "cells": cells, "stop": stop, "by": by}

    def _blame(self, error: PlanError, factors: list[dict[str, Any]]) -> None:
        text = sentence("", error)
        if factor_rows.mark(self.load, error.subject, text, factors):
            wrong = next(row for row in self.load if row.error)
            self.form.add_error(load_fields.PATHS[wrong.path], text)
        elif factor_rows.mark(self.rows, error.subject, text, factors):
            self.form.add_error(None, f"In the factors: {text}")
        elif error.subject.startswith("factors"):
            self.form.add_error(None, text)
        elif error.subject.removeprefix("roles.") in self.form.fields:
            self.form.add_error(error.subject.removeprefix("roles."), text)
        else:
            field = error.subject.removeprefix("nuisance.").removeprefix("stop.")
            field = BETWEEN.get(field, field)
            blame(self.form, PlanError(field, error.message, hint=error.hint))

    def preview(self, by: User) -> dict[str, Any]:
        """Return the runs in order with their seconds, or the reason why there are none. The workload of a recipe
        need not exist yet."""
        if not self._is_valid():
            missing = [str(self.form.fields[name].label or name.replace("_", " ")) for name in self.form.errors]
            return {"missing": missing}
        factors = self._factors()
        try:
            return self._planned(**self._fields(factors, by), recipe=self.name)
        except PlanError as error:
            return {"refusal": spoken(error)}

    def _planned(self, by: User, **chosen: Any) -> dict[str, Any]:
        if "workload" not in chosen:
            facts = allowed_paths.newest_facts(chosen["host"])
            steps = recipes.steps(self.recipe, facts) if self.recipe else workloads.STANDARD
            chosen["workload"] = Workload(name=self.name, steps=steps)
        own = recipes.dataset(self.recipe, allowed_paths.newest_facts(chosen["host"])) if self.recipe else None
        if own:
            chosen.setdefault("dataset", DataSet(name=self.name, **own))
        design = CampaignDesign(**({"seed": 0} | chosen))
        campaign = Campaign(**design.columns(), created_by=by)
        planned = previews.preview(campaign, design.further_hosts)
        drawn = "seed" in self.form.choices() or not _by_chance(campaign)
        blocks: dict[int, list[str]] = {}
        for run in _of_one(campaign, planned.runs):
            blocks.setdefault(run.block, []).append(readable_name(campaign.factors, run.cell))
        described = {
            "sentences": descriptions.sentences(campaign, drawn),
            "threats": descriptions.threats(campaign),
            "steps": planned.runs[0].spec["steps"],
            "too_large": checks.too_large(campaign, planned),
        }
        shown = list(blocks.values())[:3] if drawn else []
        return {"planned": planned, "blocks": shown, "recipe": self.recipe, **described}


def _of_one(campaign: Campaign, runs: list[Planned]) -> list[Planned]:
    """Return the runs of the first host, if every host has all of them: the others run in the same order."""
    each = campaign.placement == Campaign.Placement.EACH
    return [run for run in runs if not each or run.host == campaign.host.pk]


def _by_chance(campaign: Campaign) -> bool:
    """Return whether the seed decides which combinations run, or when."""
    drawn = (Campaign.Order.RANDOMISED, Campaign.Order.FEWEST_RESTARTS)
    return campaign.order in drawn or campaign.design in (Campaign.Design.LATIN_SQUARE, Campaign.Design.RANDOM_SAMPLE)
