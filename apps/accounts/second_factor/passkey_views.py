"""Passkeys: sign-in without a password, the options that browsers request, and the user's own passkeys.

Responses of a browser arrive as fields of ordinary forms; static/passkeys.js fills them in.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path, reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from apps.accounts.attempts import FAILED_LOGINS, PASSKEY_SIGN_INS
from apps.accounts.identity import access
from apps.accounts.identity.oidc_views import safe_page
from apps.accounts.models import Passkey, Role
from apps.accounts.second_factor import ceremony, login, passkeys
from apps.accounts.second_factor.ceremony import Purpose
from apps.accounts.second_factor.factor_views import (
    confirmed,
    enrolled_page,
    factor_page,
    forget_mark_without_factor,
)
from apps.accounts.second_factor.forms import ConfirmationForm, PasskeyNameForm
from apps.accounts.services import user_of
from apps.web.pages import TOO_MANY, UNPROCESSABLE, attempt, blame, needs, page, spoken, too_often
from common.errors import ProvingError

# Key of the session's data: until when the user, who confirmed it, may add a passkey.
MAY_ADD = "_passkey_add_until"


@never_cache
@require_POST
@login_not_required
def passkey_sign_in_options(request: HttpRequest) -> HttpResponse:
    """Options for a sign-in without a name: the same for everybody."""
    if wait_s := PASSKEY_SIGN_INS.wait_s(request) or FAILED_LOGINS.wait_s(request):
        return _wait(wait_s)
    PASSKEY_SIGN_INS.count(request)
    if not request.user.is_authenticated:
        request.session.set_expiry(ceremony.VALID_S)
    return JsonResponse(ceremony.request_options(request, Purpose.SIGN_IN))


@never_cache
@require_POST
@login_not_required
def passkey_sign_in(request: HttpRequest) -> HttpResponse:
    """Log in with a passkey alone. Back to the login page with one message if it is refused for any reason."""
    if wait_s := FAILED_LOGINS.wait_s(request):
        return too_often(request, wait_s)
    next_page = safe_page(request, request.POST.get("next", ""))
    try:
        passkey = passkeys.use(request, Purpose.SIGN_IN, request.POST.get("passkey", ""))
    except ProvingError as error:
        FAILED_LOGINS.count(request)
        messages.error(request, spoken(error))
        return redirect(f"{reverse('login')}?{urlencode({'next': next_page})}" if next_page else "login")
    login.log_in_by_passkey(request, passkey)
    return redirect(next_page or settings.LOGIN_REDIRECT_URL)


@never_cache
@require_POST
@login_not_required
def passkey_second_step_options(request: HttpRequest) -> HttpResponse:
    """Options for the second step: the passkeys of the user whose password was right."""
    pending = login.pending(request)
    if pending is None:
        return _message("This login took too long. Go back and log in again.")
    return JsonResponse(ceremony.request_options(request, Purpose.SECOND_STEP, pending.user.passkeys.all()))


@require_POST
@needs(Role.VIEWER)
def passkey_confirmation_options(request: HttpRequest) -> HttpResponse:
    """Options to confirm a change of the user's own second factor, or an admin's reset of another user's."""
    own = user_of(request).passkeys.all()
    return JsonResponse(ceremony.request_options(request, Purpose.CONFIRM, own))


@require_POST
@needs(Role.VIEWER)
def passkey_new(request: HttpRequest) -> HttpResponse:
    """The page that creates a passkey, after the user confirmed it."""
    user = user_of(request)
    if not access.password_works(user):
        return redirect("second_factor")
    form = confirmed(request, user)
    if isinstance(form, HttpResponse):
        return form
    if obstacle := ceremony.obstacle():
        form.add_error(None, obstacle)
        return factor_page(request, form)
    request.session[MAY_ADD] = time.time() + ceremony.VALID_S
    return page(request, "accounts/second_factor/passkey_new.html", {"form": PasskeyNameForm()})


@require_POST
@needs(Role.VIEWER)
def passkey_creation(request: HttpRequest) -> HttpResponse:
    """Options to create a passkey with the name in the form, or the reason why there can be none."""
    form = PasskeyNameForm(request.POST)
    if not _may_add(request):
        return _message("This took too long. Go back and start again.")
    if not form.is_valid():
        return _message(f"Name: {form.errors['name'][0]}")
    try:
        return JsonResponse(passkeys.options_to_add(request, user_of(request), form.cleaned_data["name"]))
    except ProvingError as error:
        return _message(spoken(error))


@require_POST
@needs(Role.VIEWER)
def passkey_add(request: HttpRequest) -> HttpResponse:
    """Store the passkey that the browser created. Responds with the recovery codes if they are the first ones."""
    user, form = user_of(request), PasskeyNameForm(request.POST)
    if not _may_add(request):
        messages.error(request, "Adding the passkey took too long. Start again.")
        return redirect("second_factor")
    if not form.is_valid():
        return page(request, "accounts/second_factor/passkey_new.html", {}, form)
    name = form.cleaned_data["name"]
    try:
        codes = passkeys.add(request, user, name, form.cleaned_data["passkey"])
    except ProvingError as error:
        blame(form, error)
        return page(request, "accounts/second_factor/passkey_new.html", {}, form)
    del request.session[MAY_ADD]
    return enrolled_page(request, codes, f"The passkey {name} is added.")


@needs(Role.VIEWER)
def passkey_remove(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks for a confirmation, and removes one of the user's own passkeys."""
    user = user_of(request)
    passkey = get_object_or_404(Passkey, pk=pk, user=user)
    show = _removal_page(passkey)
    if request.method != "POST":
        return show(request, ConfirmationForm(request, user))
    form = confirmed(request, user, show)
    if isinstance(form, HttpResponse):
        return form
    key = request.session.session_key
    done = f"The passkey {passkey.name} is removed. Remove it from your device as well."
    if attempt(request, lambda: passkeys.remove(passkey, session_key=key), done):
        forget_mark_without_factor(request, user)
    return redirect("second_factor")


def _removal_page(passkey: Passkey) -> Callable[[HttpRequest, ConfirmationForm], HttpResponse]:
    def show(request: HttpRequest, form: ConfirmationForm) -> HttpResponse:
        return page(request, "accounts/second_factor/passkey_remove.html", {"each": passkey}, form)

    return show


def _may_add(request: HttpRequest) -> bool:
    return bool(time.time() < request.session.get(MAY_ADD, 0))


def _message(text: str, status: int = UNPROCESSABLE) -> JsonResponse:
    return JsonResponse({"message": text}, status=status)


def _wait(wait_s: int) -> HttpResponse:
    response = _message(f"Too many attempts from your address. Try again in {-(-wait_s // 60)} min.", TOO_MANY)
    response["Retry-After"] = str(wait_s)
    return response


urlpatterns = [
    path("login/passkey/", passkey_sign_in, name="passkey_sign_in"),
    path("login/passkey/options/", passkey_sign_in_options, name="passkey_sign_in_options"),
    path("login/second-step/options/", passkey_second_step_options, name="passkey_second_step_options"),
    path("account/passkeys/options/", passkey_confirmation_options, name="passkey_confirmation_options"),
    path("account/passkeys/new/", passkey_new, name="passkey_new"),
    path("account/passkeys/creation/", passkey_creation, name="passkey_creation"),
    path("account/passkeys/add/", passkey_add, name="passkey_add"),
    path("account/passkeys/<int:pk>/remove/", passkey_remove, name="passkey_remove"),
]
