"""Forms for a code or a passkey, and for the confirmation by a user who is logged in."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth import authenticate
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from apps.accounts.attempts import FAILED_LOGINS
from apps.accounts.models import User
from apps.accounts.second_factor import factors, passkeys, policy
from apps.accounts.second_factor.ceremony import LONGEST_RESPONSE, Purpose
from apps.web.pages import spoken
from common.errors import ProvingError

CODE_HELP = "6 digits from your authenticator app, or a recovery code"


def _code_field(help_text: str) -> forms.CharField:
    attributes = {"autocomplete": "one-time-code", "autocapitalize": "none", "spellcheck": "false"}
    return forms.CharField(max_length=40, help_text=help_text, widget=forms.TextInput(attrs=attributes))


def _response_field() -> forms.CharField:
    """The response of a passkey as JSON, which static/passkeys.js fills in."""
    return forms.CharField(max_length=LONGEST_RESPONSE, required=False, widget=forms.HiddenInput())


class CodeForm(forms.Form):
    """The first code of a new authenticator app."""

    code = _code_field("6 digits that the app shows now")


class SecondStepForm(forms.Form):
    """A code of the second factor of `user`, or the response of one of the user's passkeys."""

    code = _code_field(CODE_HELP)
    passkey = _response_field()

    def __init__(self, request: HttpRequest, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request, self.user = request, user
        if policy.app(user) is None:
            self.fields["code"].help_text = "one of your recovery codes"
        elif not user.passkeys.exists():
            self.fields["code"].widget.attrs["autofocus"] = True
        if self.data.get("passkey"):
            self.fields["code"].required = False

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("passkey"):
            _use_passkey(self, Purpose.SECOND_STEP, cleaned["passkey"])
        elif "code" in cleaned:
            _use_code(self, cleaned["code"])
        return cleaned


class ConfirmationForm(forms.Form):
    """Confirms that `user` sent the request, and not only somebody with the session: by the password, and a code if the
    user has a second factor, or by a passkey. Wrong passwords, codes and passkeys count as failed logins."""

    password = forms.CharField(
        strip=False,
        max_length=1000,
        label="Your password",
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )
    code = _code_field(CODE_HELP)
    passkey = _response_field()

    def __init__(self, request: HttpRequest, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request, self.user = request, user
        self.has_passkeys = user.passkeys.exists()
        if not policy.enrolled(user):
            del self.fields["code"]
        elif policy.app(user) is None:
            self.fields["code"].help_text = "one of your recovery codes"
        if self.data.get("passkey"):
            for name in ("password", "code"):
                if name in self.fields:
                    self.fields[name].required = False

    def clean_password(self) -> str:
        typed: str = self.cleaned_data["password"]
        if self.data.get("passkey"):
            return typed
        if authenticate(self.request, username=self.user.username, password=typed) != self.user:
            FAILED_LOGINS.count(self.request)
            raise ValidationError("This is not your current password.")
        return typed

    def clean(self) -> dict[str, Any]:
        """The code is used up only if the password is right."""
        cleaned = super().clean() or {}
        if cleaned.get("passkey"):
            _use_passkey(self, Purpose.CONFIRM, cleaned["passkey"])
        elif "password" in cleaned and "code" in cleaned:
            _use_code(self, cleaned["code"])
        return cleaned


class PasskeyNameForm(forms.Form):
    """The name of a new passkey, and what the browser created."""

    name = forms.CharField(max_length=63, help_text="where it is, for example: laptop, phone, password manager")
    passkey = _response_field()


def _use_passkey(form: SecondStepForm | ConfirmationForm, purpose: Purpose, sent: str) -> None:
    try:
        passkeys.use(form.request, purpose, sent, user=form.user)
    except ProvingError as error:
        FAILED_LOGINS.count(form.request)
        form.add_error(None, spoken(error))


def _use_code(form: SecondStepForm | ConfirmationForm, code: str) -> None:
    try:
        accepted = factors.verify(form.user, code, address=str(form.request.META.get("REMOTE_ADDR", "")))
    except ProvingError as error:
        form.add_error("code", spoken(error))
        return
    if not accepted:
        FAILED_LOGINS.count(form.request)
        form.add_error("code", "This code is wrong, expired, or already used. Wait for the next code of the app.")
