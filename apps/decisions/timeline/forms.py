"""The filter of the timeline, for its page, its endpoint and its feed."""

from __future__ import annotations

from django import forms

from apps.accounts.models import Team, User
from apps.decisions.timeline.entries import Asked
from apps.hosts.models import Host


class TimelineForm(forms.Form):
    """The filter of the timeline; what cannot be read filters nothing, and says so beside its field."""

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
