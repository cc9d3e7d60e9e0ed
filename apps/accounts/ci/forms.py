"""The form for a trusted CI job."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings

from apps.accounts.ci.jobs import MINUTES
from apps.accounts.forms import TokenForm
from apps.accounts.models import User


class JobForm(TokenForm):
    """The limits of a token, and which jobs get such tokens."""

    prefix = "job"
    days = networks = None  # type: ignore[assignment]  # Django leaves out inherited fields that are None
    issuer = forms.ChoiceField(label="CI platform", help_text="the issuer of the ID token")
    claims = forms.CharField(
        max_length=4000,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "mono"}),
        help_text="one NAME=VALUE per line, such as repository=acme/shop; the ID token must have all of them",
    )
    minutes = forms.IntegerField(
        initial=15, min_value=MINUTES[0], max_value=MINUTES[-1], label="Token valid for (minutes)"
    )

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(user, *args, **kwargs)
        issuer = self.fields["issuer"]
        assert isinstance(issuer, forms.ChoiceField)  # noqa: S101 - for the type checker
        issuer.choices = [(each, each) for each in settings.CI_ISSUERS]

    def clean_claims(self) -> dict[str, str]:
        lines = [line.strip() for line in self.cleaned_data["claims"].splitlines() if line.strip()]
        for line in lines:
            if "=" not in line.strip("="):
                raise forms.ValidationError(f"{line[:80]!r} is not accepted. Use NAME=VALUE.")
        return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}
