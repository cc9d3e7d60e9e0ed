"""The pages for sign-in with the provider, for linking an existing user, and for sign-out."""

from __future__ import annotations

import logging
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout, views
from django.contrib.auth.decorators import login_not_required
from django.db import IntegrityError
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.attempts import FAILED_LOGINS, PROVIDER_SIGN_INS
from apps.accounts.identity import access, provider, recheck, signing_in
from apps.accounts.models import Role, User
from apps.accounts.second_factor.forms import ConfirmationForm
from apps.accounts.services import audit, user_of
from apps.infrastructure import vault
from apps.web.pages import needs, spoken, too_often
from common.errors import HostError, PlanError, ProvingError

log = logging.getLogger(__name__)
# Data of unfinished sign-ins are removed from the database after this time.
UNFINISHED_S = 900


def link_form(request: HttpRequest, user: User, *typed: QueryDict) -> ConfirmationForm:
    """Asks for what a login needs, because afterwards the account at the provider replaces it."""
    return ConfirmationForm(request, user, *typed, auto_id="id_link_%s")


@require_safe
@never_cache
@login_not_required
def oidc_start(request: HttpRequest) -> HttpResponse:
    """Send the browser to the provider, and afterwards to `?next=` if that is a page of this server."""
    _enabled()
    if wait_s := PROVIDER_SIGN_INS.wait_s(request):
        return too_often(request, wait_s)
    PROVIDER_SIGN_INS.count(request)
    try:
        address = provider.begin(request, next=safe_page(request, request.GET.get("next", "")))
    except ProvingError as error:
        return _failed(request, error)
    if not request.user.is_authenticated:
        request.session.set_expiry(UNFINISHED_S)
    return redirect(address)


@require_safe
@never_cache
@login_not_required
def oidc_callback(request: HttpRequest) -> HttpResponse:
    """Sign in the account that the provider confirms, or link it if the sign-in began on the account page."""
    _enabled()
    if wait_s := FAILED_LOGINS.wait_s(request):
        return too_often(request, wait_s)
    client_address = request.META.get("REMOTE_ADDR", "")
    try:
        confirmed, saved = provider.finish(request)
        linking = saved.get("link")
        if linking:
            account = signing_in.link(_who_links(request, linking), confirmed, address=client_address)
        else:
            account = signing_in.sign_in(confirmed, address=client_address)
    except (ProvingError, IntegrityError) as error:
        return _failed(request, error)
    recheck.open_session(request, account, confirmed)
    if linking:
        messages.success(request, f"You now sign in with {settings.OIDC_NAME}. Your password no longer works.")
    next_page = safe_page(request, saved.get("next", ""))
    return redirect(next_page or reverse("account" if linking else settings.LOGIN_REDIRECT_URL))


def _who_links(request: HttpRequest, key: int) -> User:
    """The user who started to link an account must still be logged in."""
    if not (request.user.is_authenticated and request.user.pk == key):
        raise provider.refused("you are no longer logged in as the user who started the link")
    return user_of(request)


@require_POST
@needs(Role.VIEWER)
def oidc_link(request: HttpRequest) -> HttpResponse:
    """Send a user who entered password and second factor to the provider, to link an account."""
    _enabled()
    if wait_s := FAILED_LOGINS.wait_s(request):
        return too_often(request, wait_s)
    user = user_of(request)
    form = link_form(request, user, request.POST)
    if not form.is_valid():
        field, errors = next(iter(form.errors.items()))
        label = f"{form[field].label}: " if field in form.fields else ""
        messages.error(request, f"Your account is not linked. {label}{errors[0]}")
        return redirect("account")
    try:
        address = provider.begin(request, link=user.pk)
    except ProvingError as error:
        return _failed(request, error)
    return leaving(request, address, "Sign in")


def leaving(request: HttpRequest, address: str, verb: str) -> HttpResponse:
    """A page that redirects to the provider at once, because the content security policy does not allow forms to."""
    context = {"address": address, "verb": verb, "provider": settings.OIDC_NAME}
    return render(request, "accounts/sign_in/leaving.html", context)


class LogoutView(views.LogoutView):
    """Logs out, also at the provider if its session started this one."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        row = recheck.provider_session(request) if access.enabled() else None
        if row is None:
            return super().post(request, *args, **kwargs)
        try:
            id_token = vault.decrypt(row.id_token_encrypted, what="an ID token") if row.id_token_encrypted else ""
        except HostError as error:  # the provider then asks the user whether to sign out
            log.warning("no ID token for the sign-out of %s: %s", row.account.user, error)
            id_token = ""
        audit(row.account.user, "logout.provider", row.account.user)
        logout(request)
        address = provider.logout_address(id_token)
        return leaving(request, address, "Sign out") if address else redirect(settings.LOGOUT_REDIRECT_URL)


def _enabled() -> None:
    if not access.enabled():
        raise Http404("no identity provider is configured")


def safe_page(request: HttpRequest, address: Any) -> str:
    """The address, if it is a page of this server; else ""."""
    hosts = {request.get_host()}
    is_ours = url_has_allowed_host_and_scheme(str(address), hosts, require_https=request.is_secure())
    return str(address) if address and is_ours else ""


def _failed(request: HttpRequest, error: ProvingError | IntegrityError) -> HttpResponse:
    """403 for a refusal, 502 if the provider does not answer; both are in the audit log."""
    FAILED_LOGINS.count(request)
    if isinstance(error, IntegrityError):
        error = provider.refused("another sign-in of this account was faster")
    about = {"reason": error.message[:300], "address": request.META.get("REMOTE_ADDR", "")}
    audit(request.user if isinstance(request.user, User) else None, "login.refused", settings.OIDC_NAME, after=about)
    refused = isinstance(error, PlanError)
    reason = spoken(error)
    context = {"reason": reason[:1].upper() + reason[1:], "provider": settings.OIDC_NAME, "refused": refused}
    return render(request, "accounts/sign_in/not_signed_in.html", context, status=403 if refused else 502)


urlpatterns = [
    path("login/provider/", oidc_start, name="oidc_start"),
    path("login/provider/callback/", oidc_callback, name="oidc_callback"),
    path("account/provider/", oidc_link, name="oidc_link"),
]
