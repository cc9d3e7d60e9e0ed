"""Forms of decisions."""

from __future__ import annotations

from typing import Any

from django import forms

from apps.decisions.models import Decision
from apps.hosts.models import Host


class DecisionForm(forms.Form):
    title = forms.CharField(max_length=160, help_text="what was decided, in a line")
    question = forms.CharField(
        required=False, widget=forms.Textarea(attrs={"rows": 2}), help_text="the campaign's, when empty"
    )
    decision = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 3}), help_text="what is done from now on, and where"
    )
    reasons = forms.CharField(
        required=False, widget=forms.Textarea(attrs={"rows": 4}), help_text="what speaks for it, what against"
    )
    hosts = forms.ModelMultipleChoiceField(
        Host.objects.all(), widget=forms.CheckboxSelectMultiple, label="Scope", help_text="hosts to which it applies"
    )
    review_on = forms.DateField(
        required=False,
        label="Look again on",
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
        help_text="it is listed on the home page from that day on",
    )
    supersedes = forms.ModelChoiceField(
        Decision.objects.none(), required=False, empty_label="no earlier decision", label="Replaces"
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        replaced = self.fields["supersedes"]
        assert isinstance(replaced, forms.ModelChoiceField)  # noqa: S101 - for the type checker
        replaced.queryset = Decision.objects.filter(status__in=[Decision.Status.PROPOSED, Decision.Status.ACCEPTED])


class CommentForm(forms.Form):
    text = forms.CharField(label="Comment", widget=forms.Textarea(attrs={"rows": 3}))
