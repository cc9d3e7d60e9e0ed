"""The form of a new search."""

from __future__ import annotations

from typing import Any

from django import forms

from apps.searches.services import MOST_MINUTES, MOST_RUNS, SIZES

EXAMPLE = "shared_buffers 128MB to 4GB log\nwork_mem 1MB to 64MB log\njit on, off"
LIMITS = "latency_p99 <= 20 ms\nfailed <= 0"


def _number(label: str, help_text: str, least: int, most: int, *, required: bool = True) -> forms.IntegerField:
    """A field for a whole number from `least` to `most`."""
    return forms.IntegerField(label=label, help_text=help_text, min_value=least, max_value=most, required=required)


class SearchForm(forms.Form):
    name = forms.CharField(max_length=80, help_text="Its campaigns have this name and a number.")
    space = forms.CharField(
        label="Settings to vary",
        help_text="One per line: NAME LOW to HIGH, optionally log; or NAME CHOICE, CHOICE. "
        "A condition can follow: when OTHER = CHOICE.",
        widget=forms.Textarea(attrs={"rows": 7, "spellcheck": "false", "placeholder": EXAMPLE, "class": "code"}),
    )
    second_metric = forms.CharField(
        max_length=80,
        required=False,
        widget=forms.TextInput(attrs={"list": "metrics", "spellcheck": "false"}),
        help_text="Searches for the Pareto front of both metrics, such as latency_p99 beside tps.",
    )
    constraints = forms.CharField(
        required=False,
        help_text="One per line: METRIC <= VALUE or METRIC >= VALUE. A candidate that breaks one is not confirmed.",
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false", "placeholder": LIMITS, "class": "code"}),
    )
    allowed_risks = forms.CharField(
        label="Allowed risks",
        required=False,
        help_text="Settings above that risk data, such as fsync. Separate them with commas.",
    )
    warm_start = forms.BooleanField(
        label="Learn from earlier searches",
        required=False,
        help_text="Only trials with the same workload, data, profile, metric and default on an unchanged host.",
    )
    budget_runs = _number("Budget (runs)", "Includes the runs of the confirmation.", 1, MOST_RUNS, required=False)
    budget_minutes = _number(
        "Budget (minutes)", "Minutes of running. The limit that ends first counts.", 1, MOST_MINUTES, required=False
    )
    candidates = _number("Candidates per round", "They run beside the default in each block.", *SIZES["candidates"])
    blocks = _number("Blocks per round", "Repetitions of each round.", *SIZES["blocks"])
    finalists = _number("Finalists", "Most candidates to confirm.", *SIZES["finalists"])
    confirmation_blocks = _number(
        "Blocks of the confirmation", "At least 5 for a verdict.", *SIZES["confirmation_blocks"]
    )

    def fields_of_search(self) -> dict[str, Any]:
        """The fields of services.create_search."""
        cleaned = self.cleaned_data
        risks = [name.strip() for name in cleaned["allowed_risks"].split(",") if name.strip()]
        lines = {name: cleaned[name].splitlines() for name in ("space", "constraints")}
        return {**cleaned, **lines, "allowed_risks": risks}
