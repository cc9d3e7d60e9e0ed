"""The user of an API request before its view runs: for rate limits and idempotency keys."""

from __future__ import annotations

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils import timezone

from apps.accounts.identity import access
from apps.accounts.models import ApiToken, Role, User

PREFIX = "/api/v1/"


def token_of(request: HttpRequest) -> ApiToken | None:
    """The token that a request shows, if it is known and holds; whether it may do this, the view says."""
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    known = ApiToken.objects.filter(digest=ApiToken.hash(secret.strip()), expires_at__gt=timezone.now())
    token = known.select_related("user").first()
    return None if token is None or access.lapsed(token.user) else token


def user_of(request: HttpRequest) -> User | None:
    """None where nobody is logged in: the view answers 401."""
    token = token_of(request)
    if token:
        token.user.limit_to(Role(token.role))
    user = token.user if token else getattr(request, "user", AnonymousUser())
    return user if isinstance(user, User) and user.is_active else None
