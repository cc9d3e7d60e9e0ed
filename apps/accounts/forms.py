"""Forms of the account page."""

from __future__ import annotations

from django import forms

from apps.accounts.models import Role


class TokenForm(forms.Form):
    name = forms.CharField(max_length=80, help_text="what will use it, for example: nightly CI")
    role = forms.ChoiceField(choices=Role.choices, help_text="never more than your own")
    days = forms.IntegerField(initial=90, min_value=1, max_value=366, label="Valid for (days)")
