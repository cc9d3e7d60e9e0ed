"""The user's own second factor, the second step of a login, and the reset by an admin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import segno
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from apps.accounts.attempts import FAILED_LOGINS
from apps.accounts.identity import access
from apps.accounts.models import Role, User
from apps.accounts.second_factor import ceremony, factors, login, policy
from apps.accounts.second_factor.forms import CodeForm, ConfirmationForm, SecondStepForm
from apps.accounts.services import user_of
from apps.web.pages import attempt, blame, needs, page, too_often
from common.errors import ProvingError


@needs(Role.VIEWER)
def second_factor(request: HttpRequest) -> HttpResponse:
    """The user's app, passkeys and recovery codes. A confirmed POST enrols an app: the response has its QR code."""
    user = user_of(request)
    if request.method != "POST" or policy.app(user) or not access.password_works(user):
        return factor_page(request)
    form = confirmed(request, user)
    if isinstance(form, HttpResponse):
        return form
    try:
        secret = factors.begin(user)
    except ProvingError as error:
        blame(form, error)
        return factor_page(request, form)
    picture = _qr_code(factors.address(user, secret))
    return page(request, "accounts/second_factor/enrol.html", {"form": CodeForm(), "secret": secret, "qr": picture})


@require_POST
@needs(Role.VIEWER)
def second_factor_confirm(request: HttpRequest) -> HttpResponse:
    """Responds with a page instead of a redirect, because only this response contains the recovery codes."""
    if wait_s := FAILED_LOGINS.wait_s(request):
        return too_often(request, wait_s)
    user, form = user_of(request), CodeForm(request.POST)
    if not form.is_valid():
        return page(request, "accounts/second_factor/enrol.html", {}, form)
    try:
        codes = factors.confirm(user, form.cleaned_data["code"], session_key=request.session.session_key)
    except ProvingError as error:
        FAILED_LOGINS.count(request)
        blame(form, error)
        return page(request, "accounts/second_factor/enrol.html", {}, form)
    return enrolled_page(request, codes, "Your authenticator app is enrolled.")


@require_POST
@needs(Role.VIEWER)
def second_factor_codes(request: HttpRequest) -> HttpResponse:
    user = user_of(request)
    if not policy.enrolled(user):
        return redirect("second_factor")
    form = confirmed(request, user)
    if isinstance(form, HttpResponse):
        return form
    return _show_codes(request, factors.renew_codes(user))


@require_POST
@needs(Role.VIEWER)
def second_factor_remove(request: HttpRequest) -> HttpResponse:
    user = user_of(request)
    if not policy.app(user):
        return redirect("second_factor")
    form = confirmed(request, user)
    if isinstance(form, HttpResponse):
        return form
    key = request.session.session_key
    if attempt(request, lambda: factors.remove(user, session_key=key), "Your authenticator app is removed."):
        forget_mark_without_factor(request, user)
    return redirect("second_factor")


def confirmed(
    request: HttpRequest, user: User, show: Callable[[HttpRequest, ConfirmationForm], HttpResponse] | None = None
) -> ConfirmationForm | HttpResponse:
    """The form if it confirms that the request is from `user`, otherwise the response that `show` makes of it."""
    if wait_s := FAILED_LOGINS.wait_s(request):
        return too_often(request, wait_s)
    form = ConfirmationForm(request, user, request.POST)
    return form if form.is_valid() else (show or factor_page)(request, form)


def enrolled_page(request: HttpRequest, codes: list[str], done: str) -> HttpResponse:
    """The response after an app or a passkey was added: the recovery codes, if there are new ones."""
    request.session.cycle_key()  # a copy of the cookie from before the second factor stops working
    request.session[policy.MARK] = True
    if codes:
        return _show_codes(request, codes)
    messages.success(request, done)
    return redirect("second_factor")


def forget_mark_without_factor(request: HttpRequest, user: User) -> None:
    if not policy.enrolled(user):
        request.session.pop(policy.MARK, None)


@never_cache
@login_not_required
def second_step(request: HttpRequest) -> HttpResponse:
    """Asks for the code after a right password. Without one in the last minutes, it redirects to the login."""
    pending = login.pending(request)
    if pending is None:
        return redirect("login")
    if wait_s := FAILED_LOGINS.wait_s(request):
        return too_often(request, wait_s)
    form = SecondStepForm(request, pending.user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        return redirect(login.finish(request, pending))
    context = {"app": policy.app(pending.user), "passkeys": pending.user.passkeys.exists()}
    return page(request, "accounts/sign_in/second_step.html", context, form)


@needs(Role.ADMIN)
def user_second_factor(request: HttpRequest, pk: int) -> HttpResponse:
    """Lets an admin, who confirms it with their own password or passkey, reset the second factor of another user."""
    user, by = get_object_or_404(User, pk=pk), user_of(request)

    def show(request: HttpRequest, form: ConfirmationForm) -> HttpResponse:
        return page(request, "accounts/second_factor/reset.html", {"account": user}, form)

    if request.method != "POST":
        return show(request, ConfirmationForm(request, by))
    form = confirmed(request, by, show)
    if isinstance(form, HttpResponse):
        return form
    done = f"The second factor of {user} is reset, and all sessions of {user} have ended."
    attempt(request, lambda: factors.reset(user, by=by), done)
    return redirect("user_list")


def factor_page(request: HttpRequest, form: ConfirmationForm | None = None) -> HttpResponse:
    """The page of the user's own second factor, with the form as it was sent."""
    user = user_of(request)
    app, passkeys = policy.app(user), list(user.passkeys.all())
    context: dict[str, Any] = {
        "app": app,
        "passkeys": passkeys,
        "left": factors.codes_left(user),
        "required": policy.required(user),
        "may_remove_app": app and (passkeys or not policy.required(user)),
        "by_provider": not access.password_works(user),
        "obstacle": ceremony.obstacle(),
    }
    return page(request, "accounts/second_factor/page.html", context, form or ConfirmationForm(request, user))


def _show_codes(request: HttpRequest, codes: list[str]) -> HttpResponse:
    return page(request, "accounts/second_factor/codes.html", {"codes": "\n".join(codes)})


def _qr_code(address: str) -> SafeString:
    """An inline SVG, so that the secret goes to no other server. It consists of numbers, so it is safe HTML."""
    svg = segno.make(address, error="m").svg_inline(scale=4, border=4, dark="#000", light="#fff")
    return mark_safe(svg)  # noqa: S308


urlpatterns = [
    path("login/second-step/", second_step, name="second_step"),
    path("account/second-factor/", second_factor, name="second_factor"),
    path("account/second-factor/confirm/", second_factor_confirm, name="second_factor_confirm"),
    path("account/second-factor/codes/", second_factor_codes, name="second_factor_codes"),
    path("account/second-factor/remove/", second_factor_remove, name="second_factor_remove"),
    path("users/<int:pk>/second-factor/", user_second_factor, name="user_second_factor"),
]
