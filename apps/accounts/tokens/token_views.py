"""The user's own API tokens on the page Account."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path
from django.views.decorators.http import require_POST

from apps.accounts.account_page import Extra, render_account
from apps.accounts.forms import RotationForm, TokenForm
from apps.accounts.models import ApiToken, Role
from apps.accounts.services import user_of
from apps.accounts.tokens import lifecycle
from apps.web.pages import attempt, blame, needs, spoken
from common.errors import PlanError


@require_POST
@needs(Role.VIEWER)
def token_add(request: HttpRequest) -> HttpResponse:
    """Responds with a page instead of a redirect, because only this response contains the secret."""
    user = user_of(request)
    form = TokenForm(user, request.POST)
    if not form.is_valid():
        return render_account(request, Extra(token_form=form))
    fields = form.cleaned_data
    role = Role(fields["role"])
    try:
        lifecycle.check_own_role(user, role)
        networks = fields["networks"].replace(",", " ").split()
        restriction = lifecycle.Restriction(fields["scopes"], fields.get("team"), networks)
        _, secret = lifecycle.issue_token(user, fields["name"], role, days=fields["days"], restriction=restriction)
    except PlanError as error:
        blame(form, error)
        return render_account(request, Extra(token_form=form))
    return render_account(request, Extra(secret=secret))


@require_POST
@needs(Role.VIEWER)
def token_rotate(request: HttpRequest, pk: int) -> HttpResponse:
    user = user_of(request)
    token, form = get_object_or_404(ApiToken, pk=pk, user=user), RotationForm(request.POST)
    if not form.is_valid():
        messages.error(request, f"The token is not rotated. Hours: {form.errors['overlap_hours'][0]}")
        return redirect("account")
    try:
        _, secret = lifecycle.rotate_token(token, by=user, overlap_h=form.cleaned_data["overlap_hours"])
    except PlanError as error:
        messages.error(request, spoken(error))
        return redirect("account")
    return render_account(request, Extra(secret=secret))


@require_POST
@needs(Role.VIEWER)
def token_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    user = user_of(request)
    token = get_object_or_404(ApiToken, pk=pk, user=user)
    attempt(request, lambda: lifecycle.revoke_token(token, by=user), f"Token {token.name} is revoked.")
    return redirect("account")


urlpatterns = [
    path("account/tokens/", token_add, name="token_add"),
    path("account/tokens/<int:pk>/rotate/", token_rotate, name="token_rotate"),
    path("account/tokens/<int:pk>/revoke/", token_revoke, name="token_revoke"),
]
