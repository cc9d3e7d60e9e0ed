"""What settings name to the API framework: authentication, permission, paging and ordering.

The framework imports these while it imports itself, so that its views cannot be imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.filters import OrderingFilter
from rest_framework.pagination import PageNumberPagination
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import services
from apps.accounts.models import ApiToken, Role, User

if TYPE_CHECKING:
    from rest_framework.generics import GenericAPIView
    from rest_framework.serializers import BaseSerializer
    from rest_framework.views import APIView


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer SECRET`. The user of such a request has the token's role where that is less."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, secret = get_authorization_header(request).decode("latin-1").partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = ApiToken.objects.select_related("user").filter(digest=ApiToken.hash(secret.strip())).first()
        if token is None or not token.user.is_active:
            raise AuthenticationFailed("unknown token")
        if token.expires_at <= timezone.now():
            raise AuthenticationFailed(f"this token expired on {token.expires_at:%Y-%m-%d}; issue a new one")
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=timezone.now())
        if token.user.may(Role(token.role)):
            token.user.role = token.role
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class RolePermission(BasePermission):
    """A viewset's `roles` maps action -> Role; what it does not name is read with VIEWER and refused otherwise."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not isinstance(request.user, User):
            return False
        action = getattr(view, "action", None)
        if action is None and str(request.method).lower() not in getattr(view, "action_map", {}):
            return True  # nothing would be done: the view answers 405, or raises its own error
        needed = role_of(view, str(action), str(request.method))
        if needed is None:
            return False
        services.require(request.user, needed, str(action))
        return True


def role_of(view: Any, action: str, method: str) -> Role | None:
    """The role that an action of a viewset needs; None where a writing action declares none, and nobody may."""
    default = Role.VIEWER if method.upper() in SAFE_METHODS else None
    roles: dict[str, Role] = getattr(view, "roles", {})
    return roles.get(action, default)


class Pages(PageNumberPagination):
    """`?page=` and `?page_size=` up to 500."""

    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 500


def paged(view: GenericAPIView[Any], rows: QuerySet[Any], serializer: type[BaseSerializer[Any]]) -> Response:
    """A page of rows that are not the view's own, such as the revisions of a profile."""
    return view.get_paginated_response(serializer(view.paginate_queryset(rows), many=True).data)


class StableOrdering(OrderingFilter):
    """`?ordering=`, with the key as the last column, so that rows that tie do not move from page to page."""

    def get_ordering(self, request: Request, queryset: QuerySet[Any], view: APIView) -> Sequence[str] | None:
        asked = super().get_ordering(request, queryset, view)
        return [*asked, "pk"] if asked else asked
