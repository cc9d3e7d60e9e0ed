"""Forms for a code, or for the password in a session."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth import authenticate
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from apps.accounts.models import User
from apps.accounts.second_factor import factors
from apps.accounts.web.attempts import FAILED_LOGINS
from apps.accounts.web.pages import spoken
from common.errors import ProvingError

CODE_HELP = "6 digits from your authenticator app, or a recovery code"


def _code_field(help_text: str) -> forms.CharField:
    attributes = {"autocomplete": "one-time-code", "autocapitalize": "none", "spellcheck": "false"}
    return forms.CharField(max_length=40, help_text=help_text, widget=forms.TextInput(attrs=attributes))


class PasswordForm(forms.Form):
    """Accepts only the password of the user of the session. Wrong passwords count as failed logins."""

    password = forms.CharField(
        strip=False,
        max_length=1000,
        label="Your password",
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )

    def __init__(self, request: HttpRequest, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request, self.user = request, user

    def clean_password(self) -> str:
        typed: str = self.cleaned_data["password"]
        if authenticate(self.request, username=self.user.username, password=typed) != self.user:
            FAILED_LOGINS.count(self.request)
            raise ValidationError("This is not your current password.")
        return typed


class CodeForm(forms.Form):
    """The first code of a new authenticator app."""

    code = _code_field("6 digits that the app shows now")


class SecondStepForm(forms.Form):
    """A code of the second factor of `user`."""

    code = _code_field(CODE_HELP)

    def __init__(self, request: HttpRequest, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request, self.user = request, user
        self.fields["code"].widget.attrs["autofocus"] = True

    def clean_code(self) -> str:
        return _verified(self.request, self.user, self.cleaned_data["code"])


class PasswordAndCodeForm(PasswordForm):
    """Password and code, for changes of how the user logs in."""

    code = _code_field(CODE_HELP)

    def clean(self) -> dict[str, Any]:
        """The code is used up only if the password is right."""
        cleaned = super().clean() or {}
        if "password" in cleaned and "code" in cleaned:
            try:
                _verified(self.request, self.user, cleaned["code"])
            except ValidationError as error:
                self.add_error("code", error)
        return cleaned


def _verified(request: HttpRequest, user: User, code: str) -> str:
    try:
        accepted = factors.verify(user, code, address=str(request.META.get("REMOTE_ADDR", "")))
    except ProvingError as error:
        raise ValidationError(spoken(error)) from error
    if not accepted:
        FAILED_LOGINS.count(request)
        raise ValidationError("This code is wrong, expired, or already used. Wait for the next code of the app.")
    return code
