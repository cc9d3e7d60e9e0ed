"""The user's own API tokens in the API."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import ANY, ApiToken, Role, Scope, Team, User
from apps.accounts.services import user_of
from apps.accounts.tokens import lifecycle
from apps.web.rest import body_of

ONCE = "only in the response that creates or rotates the token"


class TokenSerializer(serializers.ModelSerializer[ApiToken]):
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=Scope.choices),
        default=list,
        max_length=len(Scope),
        help_text="permitted actions beside reading; empty: all actions",
    )
    team = serializers.PrimaryKeyRelatedField(
        queryset=Team.objects.all(),
        default=None,
        allow_null=True,
        help_text="id of the only team in which the role counts; null: all teams and the instance",
    )
    networks = serializers.ListField(
        child=serializers.CharField(max_length=60),
        default=list,
        max_length=lifecycle.MOST_NETWORKS,
        help_text="from where the token works, such as 10.2.0.0/16; empty: from everywhere",
    )
    days = serializers.IntegerField(write_only=True, default=90, min_value=1, max_value=lifecycle.MOST_DAYS)
    secret = serializers.CharField(read_only=True, default="", help_text=ONCE)

    class Meta:
        model = ApiToken
        limits = ["scopes", "team", "networks"]
        times = ["created_at", "expires_at", "last_used_at", "last_used_from", "rotated_at", "old_works_until"]
        fields = ["id", "name", "role", *limits, "days", "secret", *times]
        read_only_fields = times


class RotationSerializer(serializers.Serializer[Any]):
    """How long the old secret works, and optionally a new expiry."""

    overlap_hours = serializers.IntegerField(
        default=24, min_value=0, max_value=lifecycle.MOST_OVERLAP_H, help_text="hours that the old secret still works"
    )
    days = serializers.IntegerField(
        default=None,
        allow_null=True,
        min_value=1,
        max_value=lifecycle.MOST_DAYS,
        help_text="days until the token expires; null: as before",
    )


class TokenViewSet(
    mixins.ListModelMixin, mixins.CreateModelMixin, mixins.DestroyModelMixin, viewsets.GenericViewSet[ApiToken]
):
    """Your own API tokens."""

    queryset = ApiToken.objects.none()
    serializer_class = TokenSerializer
    ordering_fields = ["name", "created_at", "expires_at", "last_used_at"]
    roles = {"create": Role.VIEWER, "destroy": Role.VIEWER, "rotate": Role.VIEWER}
    scopes = {
        "destroy": ANY,
        "rotate": ANY,
    }  # services compare the token of the request with the other token

    def get_queryset(self) -> QuerySet[ApiToken]:
        if not isinstance(self.request.user, User):
            return ApiToken.objects.none()
        return ApiToken.objects.filter(user=self.request.user)

    @extend_schema(responses={201: TokenSerializer})
    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        fields = body_of(request, TokenSerializer)
        role, user = Role(fields.get("role", Role.VIEWER)), user_of(request)
        restriction = lifecycle.Restriction(fields["scopes"], fields["team"], fields["networks"])
        token, secret = lifecycle.issue_token(
            user, fields["name"], role, days=fields["days"], restriction=restriction, by_token=_token_of(request)
        )
        return Response(TokenSerializer(token).data | {"secret": secret}, status=status.HTTP_201_CREATED)

    @extend_schema(request=RotationSerializer, responses=TokenSerializer)
    @action(detail=True, methods=["post"])
    def rotate(self, request: Request, pk: str) -> Response:
        """Replace the secret. The old one works for `overlap_hours` more. A token may rotate itself."""
        body = body_of(request, RotationSerializer)
        overlap_h, days = body["overlap_hours"], body["days"]
        token, secret = lifecycle.rotate_token(
            self.get_object(), by=user_of(request), overlap_h=overlap_h, days=days, by_token=_token_of(request)
        )
        return Response(TokenSerializer(token).data | {"secret": secret})

    def perform_destroy(self, instance: ApiToken) -> None:
        lifecycle.revoke_token(instance, by=user_of(self.request))


def _token_of(request: Request) -> ApiToken | None:
    """The token with which the request is authenticated; None in a session."""
    return request.auth if isinstance(request.auth, ApiToken) else None
