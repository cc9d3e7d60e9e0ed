"""Login, and a user's own account: tokens and password."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash, views
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm, UsernameField
from django.forms import CharField, PasswordInput, TextInput
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path
from django.views.decorators.http import require_POST

from apps.accounts import services, sessions
from apps.accounts.forms import TokenForm
from apps.accounts.identity import access, recheck
from apps.accounts.identity.oidc_views import LinkForm, LogoutView
from apps.accounts.models import ApiToken, Role, User
from apps.accounts.web.attempts import FAILED_LOGINS
from apps.accounts.web.pages import attempt, blame, needs, page, too_often
from common.errors import PlanError


def _account(request: HttpRequest, form: TokenForm, password: PasswordChangeForm, secret: str = "") -> HttpResponse:
    tokens = ApiToken.objects.filter(user=services.user_of(request))
    context = {"form": form, "password": password, "tokens": tokens, "secret": secret}
    context |= {
        "sessions": sessions.of(services.user_of(request)),
        "here": sessions.digest(request.session.session_key or ""),
    }
    context |= _provider(services.user_of(request))
    context |= {"memberships": services.user_of(request).memberships.select_related("team").order_by("team__name")}
    return page(request, "accounts/detail.html", context, password if password.is_bound else form)


def _provider(user: User) -> dict[str, Any]:
    """What the page shows about sign-in with the provider."""
    if not access.enabled():
        return {}
    may_link = access.password_works(user) and user.username != settings.BREAK_GLASS_ADMIN
    return {
        "provider": settings.OIDC_NAME,
        "linked": access.linked(user),
        "link_form": LinkForm() if may_link else None,
    }


class LoginForm(AuthenticationForm):
    username = UsernameField(max_length=150, widget=TextInput(attrs={"autofocus": True}))
    password = CharField(strip=False, max_length=1000, widget=PasswordInput(attrs={"autocomplete": "current-password"}))

    def confirm_login_allowed(self, user: User) -> None:
        """The same answer as to a wrong password, for users who may only sign in with the provider."""
        super().confirm_login_allowed(user)
        if not access.password_works(user):
            address = self.request.META.get("REMOTE_ADDR", "") if self.request else ""
            reason = f"passwords do not work for this user; sign-in is with {settings.OIDC_NAME}"
            services.audit(None, "login.refused", user, after={"reason": reason, "address": address})
            raise self.get_invalid_login_error()


class LoginView(views.LoginView):
    template_name = "accounts/login.html"
    authentication_form = LoginForm

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        wait_s = FAILED_LOGINS.wait_s(request)
        return too_often(request, wait_s) if wait_s else super().post(request, *args, **kwargs)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        shown = {"provider": settings.OIDC_NAME, "only_provider": bool(settings.BREAK_GLASS_ADMIN)}
        return super().get_context_data(**kwargs) | (shown if access.enabled() else {})

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        FAILED_LOGINS.count(self.request)
        return super().form_invalid(form)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        answer = super().form_valid(form)
        sessions.note(self.request)
        if access.enabled():
            recheck.forget(self.request)
            user = services.user_of(self.request)
            services.audit(user, "login.password", user, after={"address": self.request.META.get("REMOTE_ADDR", "")})
        return answer


@needs(Role.VIEWER)
def account(request: HttpRequest) -> HttpResponse:
    user = services.user_of(request)
    return _account(request, TokenForm(initial={"role": user.role}), PasswordChangeForm(user))


@require_POST
@needs(Role.VIEWER)
def token_add(request: HttpRequest) -> HttpResponse:
    """The secret is in this one answer and nowhere else, so it is no redirect."""
    user, form, secret = services.user_of(request), TokenForm(request.POST), ""
    if form.is_valid():
        try:
            fields = form.cleaned_data
            role = Role(fields["role"])
            if not user.may_somewhere(role):
                raise PlanError("role", f"{role.value} exceeds your own role {user.role}, and your roles in teams")
            _, secret = services.issue_token(user, fields["name"], role, days=fields["days"])
            form = TokenForm(initial={"role": user.role})
        except PlanError as error:
            blame(form, error)
    return _account(request, form, PasswordChangeForm(user), secret)


@require_POST
@needs(Role.VIEWER)
def token_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    user = services.user_of(request)
    token = get_object_or_404(ApiToken, pk=pk, user=user)
    attempt(request, lambda: services.revoke_token(token, by=user), f"Token {token.name} is revoked.")
    return redirect("account")


@require_POST
@needs(Role.VIEWER)
def password_change(request: HttpRequest) -> HttpResponse:
    user = services.user_of(request)
    form = PasswordChangeForm(user, request.POST)
    if not form.is_valid():
        return _account(request, TokenForm(initial={"role": user.role}), form)
    services.change_password(user, form.cleaned_data["new_password1"])
    update_session_auth_hash(request, user)
    messages.success(request, "Your password is changed. Your other sessions, API tokens and feed have ended.")
    return redirect("account")


@require_POST
@needs(Role.VIEWER)
def session_end(request: HttpRequest, public: UUID) -> HttpResponse:
    user = services.user_of(request)
    session = get_object_or_404(sessions.of(user), public=public)
    attempt(request, lambda: sessions.end(session, by=user), "That session is logged out.")
    return redirect("account")


@require_POST
@needs(Role.VIEWER)
def session_end_others(request: HttpRequest) -> HttpResponse:
    user = services.user_of(request)
    attempt(
        request, lambda: sessions.end_others(user, request.session.session_key), "All other sessions are logged out."
    )
    return redirect("account")


urlpatterns = [
    path("login/", LoginView.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("account/", account, name="account"),
    path("account/tokens/", token_add, name="token_add"),
    path("account/tokens/<int:pk>/revoke/", token_revoke, name="token_revoke"),
    path("account/sessions/end-others/", session_end_others, name="session_end_others"),
    path("account/sessions/<uuid:public>/end/", session_end, name="session_end"),
    path("account/password/", password_change, name="password_change"),
]
