"""Clients, duration and scale of a workload as plain fields. A campaign stores each as a factor with one level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django import forms

from agents.datasets import DATASETS
from agents.workloads import WORKLOADS
from apps.campaigns.design.steps import Step, measured
from apps.campaigns.pages.factor_rows import FactorRow

PATHS = {
    "workload.clients": "clients",
    "workload.time_s": "time_s",
    "workload.scale": "scale",
    "dataset.scale": "scale",
}
NAMES = ("clients", "time_s", "scale")


class LoadForm(forms.Form):
    """An empty field leaves the option of the workload unchanged."""

    clients = forms.IntegerField(required=False, min_value=1, help_text="connections of the load")
    time_s = forms.IntegerField(required=False, min_value=1, label="Duration (s)", help_text="of each timed step")
    scale = forms.IntegerField(required=False, min_value=1, help_text="of pgbench's tables; 100 is about 1.5 GB")

    def show_defaults(self, values: Mapping[str, str]) -> None:
        """Shows these values in the empty fields."""
        for name, value in values.items():
            self.fields[name].widget.attrs["placeholder"] = value


def defaults(steps: Sequence[Step], dataset: Mapping[str, Any] | None) -> dict[str, str]:
    """Return what applies to an empty field: the option of the first measured step, and the scale of the data set, if
    the campaign names one. "" if there is no such option, or if it depends on a host that is not chosen yet."""
    step = next((each for each in measured(steps) if each["kind"] in WORKLOADS), None)
    values = {name: _option(WORKLOADS[step["kind"]].schema, step["options"], name) if step else "" for name in NAMES}
    if dataset:
        values["scale"] = _option(DATASETS[dataset["kind"]].schema, dataset["options"], "scale")
    return values


def _option(schema: Mapping[str, Any], options: Mapping[str, Any], name: str) -> str:
    value = options.get(name, schema["properties"].get(name, {}).get("default"))
    return str(value) if isinstance(value, int) else ""


def load_rows(typed: Mapping[str, Any], *, has_dataset: bool) -> list[FactorRow]:
    """The fields that are not empty, as rows. The scale is that of the data set if the campaign names one."""
    paths = {"clients": "workload.clients", "time_s": "workload.time_s"}
    paths["scale"] = "dataset.scale" if has_dataset else "workload.scale"
    return [
        FactorRow(factor=path, level=str(typed[name]), path=path, value=str(typed[name]))
        for name, path in paths.items()
        if typed.get(name)
    ]


def is_load(factor: Mapping[str, Any]) -> bool:
    """Whether it is a field of this form: a factor with one level, named by the path that it sets."""
    levels = factor.get("levels", ())
    return factor["name"] in PATHS and len(levels) == 1 and list(levels[0]["set"]) == [factor["name"]]


def load_of(factors: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The values of the fields, from the factors of a campaign."""
    return {PATHS[each["name"]]: each["levels"][0]["set"][each["name"]] for each in factors if is_load(each)}


def without_load(factors: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in factors if not is_load(each)]


def load_cell(factors: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The levels of these fields, which every combination has."""
    return {each["name"]: each["levels"][0]["label"] for each in factors if is_load(each)}
