"""The filter of the timeline, for its page, its endpoint and its feed."""

from __future__ import annotations

from django import forms

from apps.accounts.models import Team, User
from apps.decisions.timeline.entries import Criteria
from apps.hosts.models import Host


class TimelineForm(forms.Form):
    """The filter. Invalid fields filter nothing and have an error."""

    q = forms.CharField(required=False, max_length=200, label="Text")
    host = forms.ModelChoiceField(Host.objects.all(), required=False, empty_label="any host")
    setting = forms.CharField(required=False, max_length=200, label="Setting")
    team = forms.ModelChoiceField(Team.objects.all(), required=False, widget=forms.HiddenInput)
    by = forms.ModelChoiceField(
        User.objects.order_by("username"),
        required=False,
        empty_label="any user",
        label="User",
        to_field_name="username",
    )
    since = forms.DateField(required=False, label="From", widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.DateField(required=False, label="To", widget=forms.DateInput(attrs={"type": "date"}))

    def criteria(self) -> Criteria:
        self.full_clean()
        cleaned = self.cleaned_data
        person = cleaned.get("by")
        return Criteria(
            host=cleaned.get("host"),
            text=cleaned.get("q", ""),
            person=person.username if person else "",
            setting=cleaned.get("setting", ""),
            team=cleaned.get("team"),
            since=cleaned.get("since"),
            until=cleaned.get("until"),
        )
