"""The user of an API request before its view runs: for rate limits and idempotency keys."""

from __future__ import annotations

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from rest_framework.exceptions import AuthenticationFailed

from apps.accounts.models import ApiToken, User
from apps.accounts.tokens import admission
from common.errors import RoleError

PREFIX = "/api/v1/"


def token_of(request: HttpRequest) -> ApiToken | None:
    """The token of a request if it is admitted, otherwise None. The view checks whether it permits the action."""
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    try:
        return admission.admit(secret.strip(), request.META.get("REMOTE_ADDR", ""))
    except (AuthenticationFailed, RoleError):
        return None


def user_of(request: HttpRequest) -> User | None:
    """The user of the request's token or session; None without one, and the view then responds with 401."""
    token = token_of(request)
    user = token.user if token else getattr(request, "user", AnonymousUser())
    return user if isinstance(user, User) and user.is_active else None
