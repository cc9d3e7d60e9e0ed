"""The page Account, which several views render: tokens, sessions, sign-in and password of the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.forms import PasswordChangeForm
from django.http import HttpRequest, HttpResponse

from apps.accounts import services, sessions
from apps.accounts.ci.forms import JobForm
from apps.accounts.forms import TokenForm
from apps.accounts.identity import access
from apps.accounts.identity.oidc_views import link_form
from apps.accounts.models import ApiToken, User
from apps.accounts.second_factor import policy
from apps.web.pages import page


@dataclass
class Extra:
    """Additional content of one response: a form with errors, or a secret that is shown only once."""

    token_form: TokenForm | None = None
    job_form: JobForm | None = None
    password_form: PasswordChangeForm | None = None
    secret: str = ""


def render_account(request: HttpRequest, extra: Extra | None = None) -> HttpResponse:
    user, extra = services.user_of(request), extra or Extra()
    token_form = extra.token_form or TokenForm(user)
    password = extra.password_form or PasswordChangeForm(user)
    context = {
        "form": token_form,
        "password": password,
        "tokens": ApiToken.objects.filter(user=user, job=None).select_related("team"),
        "secret": extra.secret,
        "jobs": user.trusted_jobs.select_related("team"),
        "job_form": (extra.job_form or JobForm(user)) if settings.CI_ISSUERS else None,
        "sessions": sessions.of(user),
        "here": sessions.digest(request.session.session_key or ""),
        "memberships": user.memberships.select_related("team").order_by("team__name"),
        "password_works": access.password_works(user),
        "app": policy.app(user),
        "passkeys": user.passkeys.count(),
        **_provider(request, user),
    }
    return page(request, "accounts/detail.html", context, password if password.is_bound else token_form)


def _provider(request: HttpRequest, user: User) -> dict[str, Any]:
    """The context for sign-in with the provider."""
    if not access.enabled():
        return {}
    may_link = access.password_works(user) and user.username != settings.BREAK_GLASS_ADMIN
    return {
        "provider": settings.OIDC_NAME,
        "linked": access.linked(user),
        "link_form": link_form(request, user) if may_link else None,
    }
