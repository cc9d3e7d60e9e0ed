"""Authentication, permission and errors of the API, and the tokens endpoint."""

from __future__ import annotations

import logging
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView, exception_handler

from apps.accounts import services
from apps.accounts.models import ApiToken, Role, User
from apps.errors import HostError, PlanError, ProvingError, RoleError

log = logging.getLogger(__name__)


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


class TokenScheme(OpenApiAuthenticationExtension):
    target_class = TokenAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}


class RolePermission(BasePermission):
    """A viewset's `roles` maps action -> Role; what it does not name is read with VIEWER and refused otherwise."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        user = request.user
        if not isinstance(user, User):
            return False
        roles: dict[str, Role] = getattr(view, "roles", {})
        action = getattr(view, "action", None) or request.method
        default = Role.VIEWER if request.method in ("GET", "HEAD", "OPTIONS") else None
        needed = roles.get(str(action), default)
        return needed is not None and user.may(needed)


def problem(error: Exception, context: dict[str, Any]) -> Response | None:
    """Our own errors as problem details: 403 for roles, 502 for hosts, 400 for requests; the rest is DRF's."""
    if not isinstance(error, ProvingError):
        return exception_handler(error, context)
    code = status.HTTP_500_INTERNAL_SERVER_ERROR
    if isinstance(error, RoleError):
        code = status.HTTP_403_FORBIDDEN
    elif isinstance(error, PlanError):
        code = status.HTTP_400_BAD_REQUEST
    elif isinstance(error, HostError):
        code = status.HTTP_502_BAD_GATEWAY
    body = {"title": error.message, "status": code, "field": error.subject, "hint": error.hint, "blame": error.blame}
    return Response(body, status=code, content_type="application/problem+json")


class TokenSerializer(serializers.ModelSerializer[ApiToken]):
    days = serializers.IntegerField(write_only=True, default=90, min_value=1, max_value=366)
    secret = serializers.CharField(read_only=True, default="", help_text="only in the answer that creates the token")

    class Meta:
        model = ApiToken
        fields = ["id", "name", "role", "days", "secret", "created_at", "expires_at", "last_used_at"]
        read_only_fields = ["created_at", "expires_at", "last_used_at"]


class TokenViewSet(
    mixins.ListModelMixin, mixins.CreateModelMixin, mixins.DestroyModelMixin, viewsets.GenericViewSet[ApiToken]
):
    """Your own API tokens."""

    queryset = ApiToken.objects.none()
    serializer_class = TokenSerializer
    roles = {"create": Role.VIEWER, "destroy": Role.VIEWER}

    def get_queryset(self) -> QuerySet[ApiToken]:
        if not isinstance(self.request.user, User):
            return ApiToken.objects.none()
        return ApiToken.objects.filter(user=self.request.user)

    @extend_schema(responses={201: TokenSerializer})
    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        body = TokenSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        wanted = body.validated_data
        role = Role(wanted.get("role", Role.VIEWER))
        token, secret = services.issue_token(services.user_of(request), wanted["name"], role, days=wanted["days"])
        return Response(TokenSerializer(token).data | {"secret": secret}, status=status.HTTP_201_CREATED)

    def perform_destroy(self, instance: ApiToken) -> None:
        services.revoke_token(instance, by=services.user_of(self.request))
