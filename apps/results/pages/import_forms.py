"""The form of an import and its mapping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import QueryDict

from apps.campaigns.design import steps
from apps.hosts.models import Host
from apps.results.imports.mapping import DELTA
from apps.results.imports.understand import Understood
from apps.tuning import fields

COLUMN_FIELDS = ("column", "as", "column_name", "unit", "better", "levels", "step")
SAMPLES = 3


class ImportForm(forms.Form):
    """All fields but the columns of a table, which are rows."""

    pattern = forms.CharField(
        max_length=200,
        required=False,
        label="Pattern of file names",
        widget=forms.TextInput(attrs={"class": "mono", "placeholder": "{policy}-{n}.out"}),
        help_text="each field in braces is a factor; {n} is the repetition, {step} the step, * any text",
    )
    name = forms.CharField(max_length=120, required=False, label="Name of the campaign")
    question = forms.CharField(
        required=False, widget=forms.Textarea(attrs={"rows": 2}), help_text="the question that the results answer"
    )
    host = forms.CharField(
        max_length=63,
        required=False,
        widget=forms.TextInput(attrs={"list": "hosts"}),
        help_text="the host of the measurements: a known host, or a new name. A new host is never contacted",
    )
    metric = forms.ChoiceField(required=False, help_text="the figure to compare")
    delta = forms.FloatField(
        required=False, min_value=0.01, max_value=99, label="Minimum effect of interest (%)", help_text="default: 2"
    )

    def __init__(self, data: QueryDict | None, understood: Understood, mapping: Mapping[str, Any]) -> None:
        combined = {**understood.about, **mapping}
        shown = {**combined, "pattern": understood.pattern, "delta": f"{combined.get('delta', DELTA) * 100:g}"}
        super().__init__(data, initial=shown)
        if not understood.named:
            del self.fields["pattern"]
        metric = self.fields["metric"]
        assert isinstance(metric, forms.ChoiceField)  # noqa: S101 - for the type checker
        metric.choices = [("", "choose a figure"), *((name, name) for name in steps.metrics(understood.steps))]

    @property
    def hosts(self) -> list[str]:
        """Names to choose from."""
        return list(Host.objects.values_list("name", flat=True)[:200])


@dataclass(frozen=True)
class ImportColumn:
    """A column of a table, for its row on the page."""

    header: str
    use: Mapping[str, Any]
    samples: str

    @property
    def levels(self) -> str:
        """The names of levels, "0 = none, * = huge pages"."""
        return ", ".join(f"{cell} = {level}" for cell, level in (self.use.get("levels") or {}).items())


def columns_of(understood: Understood) -> list[ImportColumn]:
    if understood.table is None:
        return []
    table = understood.table
    return [
        ImportColumn(header, use, ", ".join(_first(table.column(header)))) for header, use in understood.uses.items()
    ]


def _first(cells: list[str]) -> list[str]:
    return [cell if len(cell) < 28 else cell[:25] + "…" for cell in list(dict.fromkeys(cells))[:SAMPLES]]


def columns_typed(post: QueryDict) -> dict[str, dict[str, Any]]:
    """Parse the parallel lists of the page. PlanError if the names of levels cannot be parsed."""
    lists = [post.getlist(name) for name in COLUMN_FIELDS]
    typed = {}
    for header, use, name, unit, better, levels, step in zip(*lists, strict=False):
        cells = {"as": use, "name": name.strip(), "unit": unit.strip(), "better": better, "step": step.strip()}
        named = fields.read_lines(f"columns.{header}", levels.replace(",", "\n"))
        names = {"factor": ("name",), "figure": ("name", "unit", "better", "step")}.get(use, ())
        column = {"as": use} | {key: cells[key] for key in names if cells[key] or key == "better"}
        typed[header] = column | ({"levels": named} if named and use == "factor" else {})
    return typed


def mapping_of(post: QueryDict) -> dict[str, Any]:
    """Return the mapping of imports/mapping.py without empty fields. A pattern that was cleared means: no pattern."""
    texts = {name: str(post.get(name, "")).strip() for name in ("name", "question", "host", "metric", "delta")}
    delta = texts.pop("delta")
    mapping: dict[str, Any] = {name: text for name, text in texts.items() if text}
    if "pattern" in post:
        mapping["pattern"] = str(post["pattern"]).strip()
    if delta:
        mapping["delta"] = round(float(delta) / 100, 6)
    typed = columns_typed(post)
    baselines = zip(post.getlist("factor"), post.getlist("baseline"), strict=False)
    order = {str(factor): [str(label)] for factor, label in baselines}
    return mapping | ({"columns": typed} if typed else {}) | ({"order": order} if order else {})
