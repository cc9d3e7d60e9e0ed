"""Forms of decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms

from apps.accounts.forms import OfTeam
from apps.accounts.models import Team, User
from apps.decisions.models import Decision
from apps.decisions.services import FROM
from apps.decisions.timeline import Asked
from apps.hosts.models import Host
from apps.hosts.pages.forms import words


class DecisionForm(OfTeam):
    title = forms.CharField(max_length=160, help_text="the decision in one line")
    question = forms.CharField(
        required=False, widget=forms.Textarea(attrs={"rows": 2}), help_text="default: that of the campaign"
    )
    options = forms.CharField(
        required=False,
        label="Options considered",
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="the alternatives, and why they were not chosen",
    )
    level = forms.ChoiceField(
        required=False, label="Level chosen", help_text="drift is measured against the settings of this level"
    )
    decision = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 3}), help_text="what changes from now on, and where"
    )
    reasons = forms.CharField(
        required=False, widget=forms.Textarea(attrs={"rows": 4}), help_text="arguments for and against"
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
    review_on = forms.DateField(
        required=False,
        label="Review on",
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
        help_text="the decision expires on this date and appears on the home page",
    )
    supersedes = forms.ModelChoiceField(
        Decision.objects.none(), required=False, empty_label="no earlier decision", label="Replaces"
    )

    def __init__(self, *args: Any, levels: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        chosen = self.fields["level"]
        assert isinstance(chosen, forms.ChoiceField)  # noqa: S101 - for the type checker
        chosen.choices = [("", "none"), *((each, each) for each in levels)]
        replaced = self.fields["supersedes"]
        assert isinstance(replaced, forms.ModelChoiceField)  # noqa: S101 - for the type checker
        replaced.queryset = Decision.objects.filter(status__in=FROM[Decision.Status.SUPERSEDED])

    def clean_labels(self) -> list[str]:
        return words(self.cleaned_data["labels"])


class CommentForm(forms.Form):
    text = forms.CharField(label="Comment", widget=forms.Textarea(attrs={"rows": 3}))
    dissent = forms.BooleanField(required=False, label="I disagree")


class TimelineForm(forms.Form):
    """The filter of the timeline; what cannot be read filters nothing, and says so beside its field."""

    q = forms.CharField(required=False, max_length=200, label="Words")
    host = forms.ModelChoiceField(Host.objects.all(), required=False, empty_label="any host")
    setting = forms.CharField(required=False, max_length=200, label="Setting")
    team = forms.ModelChoiceField(Team.objects.all(), required=False, widget=forms.HiddenInput)
    by = forms.ModelChoiceField(
        User.objects.order_by("username"),
        required=False,
        empty_label="anybody",
        label="Person",
        to_field_name="username",
    )
    since = forms.DateField(required=False, label="From", widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.DateField(required=False, label="To", widget=forms.DateInput(attrs={"type": "date"}))

    def asked(self) -> Asked:
        self.full_clean()
        given = self.cleaned_data
        person = given.get("by")
        return Asked(
            host=given.get("host"),
            text=given.get("q", ""),
            person=person.username if person else "",
            setting=given.get("setting", ""),
            team=given.get("team"),
            since=given.get("since"),
            until=given.get("until"),
        )
