"""The stopping rule as fields of a form."""

from __future__ import annotations

from typing import Any

from django import forms

from apps.campaigns.design.stopping import LEAST, UNTIL, label
from apps.campaigns.models import Campaign
from apps.campaigns.pages.load_fields import without_load

FIELDS = ("until", "first", "second", "width", "least")


class StopForm(forms.Form):
    """Combinations are named as runs are: their levels in the order of the factors, separated by commas."""

    until = forms.ChoiceField(
        choices=[("", "all repetitions have run"), *UNTIL.items()],
        required=False,
        label="End condition",
        help_text="checked after each complete block; the repetitions are then the maximum",
    )
    first = forms.CharField(required=False, label="Compare", help_text="levels separated by commas: 8GB, on")
    second = forms.CharField(required=False, label="With", help_text="the other combination")
    width = forms.FloatField(
        required=False, min_value=0.01, max_value=199, label="Width (%)", help_text="of the 95 % CI"
    )
    least = forms.IntegerField(
        required=False, min_value=3, label="First interim analysis after (blocks)", help_text=f"default: {LEAST}"
    )
    budget_h = forms.FloatField(
        required=False,
        min_value=0.01,
        label="Budget (hours)",
        help_text="no run starts that would exceed it",
    )
    max_failures = forms.IntegerField(
        required=False, min_value=1, label="Pause after failures", help_text="number of failed runs"
    )

    def rule(self, factors: list[dict[str, Any]]) -> dict[str, Any]:
        """Return Campaign.stop as entered. stopping.read refuses a rule that is not valid."""
        fields = {name: self.cleaned_data.get(name) for name in FIELDS}
        if not fields["until"]:
            return {}
        cells = [_cell(fields[name] or "", factors) for name in ("first", "second")]
        rule: dict[str, Any] = {"until": fields["until"], "between": cells}
        if fields["until"] == "width":
            rule["width"] = (fields["width"] or 0) / 100
        return rule | ({"least": fields["least"]} if fields["least"] else {})


def _cell(typed: str, factors: list[dict[str, Any]]) -> dict[str, str]:
    """Parse a label: "8GB, on" -> {"shared_buffers": "8GB", "huge pages": "on"}."""
    return dict(zip((factor["name"] for factor in factors), (part.strip() for part in typed.split(",")), strict=False))


def filled(source: Campaign) -> dict[str, Any]:
    """Return the rule of a campaign as initial values of the form."""
    if not source.stop:
        return {}
    first, second = (label(cell, without_load(source.factors)) for cell in source.stop["between"])
    shown = {name: source.stop.get(name) for name in ("until", "least")} | {"first": first, "second": second}
    return shown | ({"width": 100 * source.stop["width"]} if "width" in source.stop else {})
