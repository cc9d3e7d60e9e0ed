"""Pages of users, for admins, and the page where users choose a password with a link."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path, reverse_lazy
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST

from apps.accounts.attempts import FORGOTTEN
from apps.accounts.identity import access, signing_in
from apps.accounts.models import Credential, Role, User
from apps.accounts.second_factor import policy
from apps.accounts.services import audit, user_of
from apps.accounts.team import people
from apps.infrastructure import waking
from apps.web.pages import attempt, blame, needs, page, spoken, too_often
from common.errors import PlanError, ProvingError


class InviteForm(forms.Form):
    username = forms.CharField(max_length=150, label="User name")
    email = forms.EmailField(label="Mail address")
    role = forms.ChoiceField(choices=Role.choices)


class ForgotForm(forms.Form):
    email = forms.EmailField(label="Mail address", widget=forms.EmailInput(attrs={"autocomplete": "email"}))


def _list(request: HttpRequest, form: InviteForm, link: str = "") -> HttpResponse:
    rows = policy.with_factor(User.objects.order_by("-is_active", "username"))
    rows = rows.select_related("provider_account") if access.enabled() else rows
    context = {"people": rows, "roles": Role.choices, "mails": bool(settings.EMAIL_HOST), "link": link}
    context |= {"provider": settings.OIDC_NAME} if access.enabled() else {}
    return page(request, "accounts/people.html", context, form)


@needs(Role.ADMIN)
def user_list(request: HttpRequest) -> HttpResponse:
    """Inviting: by mail, or where this server sends none with a link in this one answer, for the admin to hand over."""
    form = InviteForm(request.POST or None)
    if request.method != "POST" or not form.is_valid():
        return _list(request, form)
    fields = form.cleaned_data
    try:
        user = people.invite(fields["username"], fields["email"], Role(fields["role"]), by=user_of(request))
    except PlanError as error:
        blame(form, error)
        return _list(request, form)
    return _hand_over(request, user)


def _hand_over(request: HttpRequest, user: User) -> HttpResponse:
    if not access.password_works(user):
        messages.warning(request, _no_link(user))
        return redirect("user_list")
    try:
        people.send_invitation(user, by=user_of(request))
    except ProvingError as error:
        messages.warning(request, f"No mail was sent: {spoken(error)}")
        return _list(request, InviteForm(), people.link(user))
    messages.success(request, f"A link was sent to {user}.")
    return redirect("user_list")


def _no_link(user: User) -> str:
    """Why a user gets no link to set a password, and how they sign in."""
    reason = f"No link was made, because a password does not work for {user}."
    if access.linked(user) or settings.OIDC_LINK_BY_EMAIL:
        return f"{reason} {user} signs in with {settings.OIDC_NAME}."
    link = "To link invited ones, see docs/operations/identity.md."
    return f"{reason} Users of {settings.OIDC_NAME} need no invitation. {link}"


@require_POST
@needs(Role.ADMIN)
def user_change(request: HttpRequest, pk: int) -> HttpResponse:
    user, by = get_object_or_404(User, pk=pk), user_of(request)
    role, active = request.POST.get("role", ""), request.POST.get("active", "")
    changes: dict[str, Any] = {"role": Role(role)} if role in Role.values else {}
    changes |= {"is_active": active == "yes"} if active in ("yes", "no") else {}
    attempt(request, lambda: people.change(user, by=by, **changes), f"{user} is updated.")
    return redirect("user_list")


@require_POST
@needs(Role.ADMIN)
def user_link(request: HttpRequest, pk: int) -> HttpResponse:
    return _hand_over(request, get_object_or_404(User, pk=pk, is_active=True))


@require_POST
@needs(Role.ADMIN)
def user_unlink(request: HttpRequest, pk: int) -> HttpResponse:
    user, by = get_object_or_404(User, pk=pk), user_of(request)
    done = f"{user} no longer signs in with {settings.OIDC_NAME}. Send a link to set a password."
    attempt(request, lambda: signing_in.unlink(user, by=by), done)
    return redirect("user_list")


@login_not_required
def password_forgot(request: HttpRequest) -> HttpResponse:
    """The same response for any address, at once: a worker checks whether a user has it."""
    form = ForgotForm(request.POST or None)
    if request.method == "POST" and (wait_s := FORGOTTEN.wait_s(request)):
        return too_often(request, wait_s)
    if request.method == "POST" and form.is_valid():
        FORGOTTEN.count(request)
        waking.send("accounts.forgot", form.cleaned_data["email"])
        messages.success(request, "If this address belongs to a user, the link was sent. It may take a minute.")
        return redirect("login")
    return page(request, "accounts/sign_in/forgot.html", {"mails": bool(settings.EMAIL_HOST)}, form)


@method_decorator(login_not_required, name="dispatch")
class PasswordSetView(views.PasswordResetConfirmView):
    """Django's: the token goes into the session and out of the address, so that no Referer contains it."""

    template_name = "accounts/sign_in/password_set.html"
    success_url = reverse_lazy("login")
    title = "Set a password"

    def form_valid(self, form: Any) -> HttpResponse:
        answer = super().form_valid(form)
        user = cast(User, self.user)
        audit(user, "password.set_by_link", user, after={"ended": Credential.end_all(user)})
        messages.success(self.request, "Your password is set. You can log in now.")
        return answer


urlpatterns = [
    path("users/", user_list, name="user_list"),
    path("users/<int:pk>/", user_change, name="user_change"),
    path("users/<int:pk>/link/", user_link, name="user_link"),
    path("users/<int:pk>/unlink/", user_unlink, name="user_unlink"),
    path("password/forgot/", password_forgot, name="password_forgot"),
    path("password/<uidb64>/<token>/", PasswordSetView.as_view(), name="password_set"),
]
