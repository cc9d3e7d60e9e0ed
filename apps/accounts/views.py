"""Login, and a user's own account: sessions and password."""

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
from apps.accounts.account_page import Extra, render_account
from apps.accounts.attempts import FAILED_LOGINS
from apps.accounts.identity import access
from apps.accounts.identity.oidc_views import LogoutView
from apps.accounts.models import Role, User
from apps.accounts.second_factor import ceremony, policy
from apps.accounts.second_factor import login as second_step
from apps.web.pages import attempt, needs, too_often


class LoginForm(AuthenticationForm):
    username = UsernameField(max_length=150, widget=TextInput(attrs={"autofocus": True}))
    password = CharField(strip=False, max_length=1000, widget=PasswordInput(attrs={"autocomplete": "current-password"}))

    def confirm_login_allowed(self, user: User) -> None:
        """Refuse users who may only sign in with the provider, with the same message as for a wrong password."""
        super().confirm_login_allowed(user)
        if not access.password_works(user):
            address = self.request.META.get("REMOTE_ADDR", "") if self.request else ""
            reason = f"passwords do not work for this user; sign-in is with {settings.OIDC_NAME}"
            services.audit(None, "login.refused", user, after={"reason": reason, "address": address})
            raise self.get_invalid_login_error()


class LoginView(views.LoginView):
    template_name = "accounts/sign_in/login.html"
    authentication_form = LoginForm

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        wait_s = FAILED_LOGINS.wait_s(request)
        return too_often(request, wait_s) if wait_s else super().post(request, *args, **kwargs)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        shown = {"provider": settings.OIDC_NAME, "only_provider": bool(settings.BREAK_GLASS_ADMIN)}
        context = super().get_context_data(**kwargs) | (shown if access.enabled() else {})
        return context | {"passkeys_work": not ceremony.obstacle()}

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        FAILED_LOGINS.count(self.request)
        return super().form_invalid(form)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        user = form.get_user()
        if policy.enrolled(user):
            second_step.begin(self.request, user, self.get_redirect_url())
            return redirect("second_step")
        second_step.log_in(self.request, user)
        return redirect(self.get_success_url())


def locked(request: HttpRequest, response: HttpResponse | None = None, credentials: Any = None) -> HttpResponse:
    """The response to a login with a name that is locked. django-axes calls this."""
    return too_often(request, round(settings.AXES_COOLOFF_TIME * 3600), "this user name is locked for your address")


@needs(Role.VIEWER)
def account(request: HttpRequest) -> HttpResponse:
    return render_account(request)


@require_POST
@needs(Role.VIEWER)
def password_change(request: HttpRequest) -> HttpResponse:
    user = services.user_of(request)
    form = PasswordChangeForm(user, request.POST)
    if not form.is_valid():
        return render_account(request, Extra(password_form=form))
    services.change_password(user, form.cleaned_data["new_password1"])
    update_session_auth_hash(request, user)
    messages.success(request, "Your password is changed. Your other sessions, API tokens and feed have ended.")
    if names := ", ".join(user.passkeys.values_list("name", flat=True)):
        messages.warning(request, f"Your passkeys still work: {names}. Remove those that are not yours.")
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
    path("account/sessions/end-others/", session_end_others, name="session_end_others"),
    path("account/sessions/<uuid:public>/end/", session_end, name="session_end"),
    path("account/password/", password_change, name="password_change"),
]
