"""Forms of decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.db import models

from apps.accounts.forms import OfTeam
from apps.decisions.models import Decision
from apps.decisions.services import FROM
from apps.hosts.models import Host
from apps.hosts.pages.forms import read_labels


class DecisionForm(OfTeam):
    title = forms.CharField(max_length=160, help_text="the decision in one line")
    level = forms.ChoiceField(
        required=False, label="Level chosen", help_text="drift is measured against the settings of this level"
    )
    hosts = forms.ModelMultipleChoiceField(
        Host.objects.all(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Scope",
        help_text="hosts that the decision applies to",
    )
    labels = forms.CharField(
        required=False,
        max_length=1000,
        label="Labels",
        help_text="also applies to every host with one of these labels, such as oltp ssd",
    )
    postgresql_from = forms.IntegerField(
        required=False, min_value=1, max_value=1000, label="PostgreSQL from", help_text="major version, such as 16"
    )
    postgresql_to = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=1000,
        label="PostgreSQL to",
        help_text="an upgrade within this range does not require a review",
    )
    kernel_from = forms.CharField(required=False, max_length=20, label="Linux from", help_text="such as 6.1")
    kernel_to = forms.CharField(required=False, max_length=20, label="Linux to", help_text="6.6 includes 6.6.70")
    supersedes = forms.ModelChoiceField(
        Decision.objects.none(), required=False, empty_label="no earlier decision", label="Replaces"
    )

    def __init__(self, *args: Any, levels: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields |= forms.fields_for_model(Decision, Decision.WRITTEN, formfield_callback=_field)
        self.fields["question"].required = False
        chosen = self.fields["level"]
        assert isinstance(chosen, forms.ChoiceField)  # noqa: S101 - for the type checker
        chosen.choices = [("", "none"), *((level, level) for level in levels)]
        replaced = self.fields["supersedes"]
        assert isinstance(replaced, forms.ModelChoiceField)  # noqa: S101 - for the type checker
        replaced.queryset = Decision.objects.filter(status__in=FROM[Decision.Status.SUPERSEDED])

    @property
    def written(self) -> list[forms.BoundField]:
        return [self[name] for name in Decision.WRITTEN]

    def clean_labels(self) -> list[str]:
        return read_labels(self.cleaned_data["labels"])


def _field(column: models.Field[Any, Any]) -> forms.Field | None:
    """Return the form field of a column: low boxes for texts, the browser's calendar for dates."""
    if isinstance(column, models.TextField):
        return column.formfield(widget=forms.Textarea(attrs={"rows": 3}))
    if isinstance(column, models.DateField):
        return column.formfield(widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"))
    return column.formfield()


class CommentForm(forms.Form):
    text = forms.CharField(label="Comment", widget=forms.Textarea(attrs={"rows": 3}))
    dissent = forms.BooleanField(required=False, label="I disagree")
