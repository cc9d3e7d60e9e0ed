"""Forms of the account page, and of channels."""

from __future__ import annotations

from typing import Any

from django import forms

from apps.accounts.events import KINDS
from apps.accounts.models import Channel, Role


class TokenForm(forms.Form):
    name = forms.CharField(max_length=80, help_text="what will use it, for example: nightly CI")
    role = forms.ChoiceField(choices=Role.choices, help_text="never more than your own")
    days = forms.IntegerField(initial=90, min_value=1, max_value=366, label="Valid for (days)")


class ChannelForm(forms.Form):
    name = forms.CharField(max_length=63, help_text="how it is called here, for example: on call")
    address = forms.CharField(max_length=500)
    events = forms.MultipleChoiceField(
        choices=[(kind, f"{title[:1].upper()}{title[1:]}") for kind, title in KINDS.items()],
        widget=forms.CheckboxSelectMultiple,
        required=False,
        label="Tell of",
    )

    def __init__(self, kind: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if kind == Channel.Kind.WEBHOOK:
            self.fields["address"].label = "URL"
            self.fields["address"].help_text = "JSON is posted to it; the server must be in a network that is allowed"
        else:
            self.fields["address"].label = "Mail address"
