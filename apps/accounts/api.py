"""Users, and the current user."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import services
from apps.accounts.identity import access
from apps.accounts.models import ApiToken, Role, Team, User
from apps.accounts.team import people
from apps.accounts.tokens.token_api import TokenSerializer
from apps.web.idempotency import SecretResponse
from apps.web.rest import body_of
from common.errors import ProvingError


class UserSerializer(serializers.ModelSerializer[User]):
    email = serializers.EmailField(write_only=True, required=False, help_text="the address that receives the link")

    class Meta:
        model = User
        fields = ["id", "username", "email", "role", "is_active", "may_run_commands"]
        extra_kwargs = {"may_run_commands": {"required": False}, "is_active": {"required": False}}


class UserChangeSerializer(UserSerializer):
    class Meta(UserSerializer.Meta):
        read_only_fields = ["username"]


class InviteSerializer(UserSerializer):
    email = serializers.EmailField(write_only=True)
    link = serializers.CharField(read_only=True, default="", help_text="if this server sends no mail; works once")

    class Meta(UserSerializer.Meta):
        fields = ["id", "username", "email", "role", "link"]


class UserViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[User]):
    """Users, their roles, and their permission to run programs on hosts."""

    queryset = User.objects.order_by("username")
    serializer_class = UserSerializer
    ordering_fields = ["username", "role"]
    roles = {"create": Role.ADMIN, "partial_update": Role.ADMIN}

    @extend_schema(request=InviteSerializer, responses={201: InviteSerializer})
    def create(self, request: Request) -> Response:
        """Invite a user by a link to set a password. If this server sends no mail, the response contains the link."""
        fields, by = body_of(request, InviteSerializer), services.user_of(request)
        user = people.invite(fields["username"], fields["email"], Role(fields.get("role", Role.VIEWER)), by=by)
        link = ""
        try:
            people.send_invitation(user, by=by)
        except ProvingError:
            link = people.link(user) if access.password_works(user) else ""
        invitation = InviteSerializer(user).data | {"link": link}
        return SecretResponse(invitation, ["link"], status.HTTP_201_CREATED)

    @extend_schema(request=UserChangeSerializer, responses=UserSerializer)
    def partial_update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Change the given fields. `is_active` false ends the sessions and tokens of the user."""
        changes = body_of(request, UserChangeSerializer, partial=True)
        user, by = self.get_object(), services.user_of(request)
        allowed = changes.pop("may_run_commands", None)
        role = changes.pop("role", None)
        people.change(user, by=by, role=Role(role) if role else None, **changes)
        if allowed is not None:
            services.allow_commands(user, allowed, by=by)
        return Response(UserSerializer(user).data)


class MyTeamSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=Role.choices, help_text="role in the team; that of the token if it is lower")


class MeSerializer(serializers.Serializer[Any]):
    username = serializers.CharField()
    role = serializers.ChoiceField(choices=Role.choices, help_text="role of the user; that of the token if it is lower")
    may_run_commands = serializers.BooleanField()
    teams = MyTeamSerializer(many=True, help_text="teams of the user")
    token = TokenSerializer(allow_null=True, help_text="the token of the request; null in a session")


class MeViewSet(viewsets.ViewSet):
    """The current user, with roles."""

    @extend_schema(responses=MeSerializer)
    def retrieve(self, request: Request) -> Response:
        user = services.user_of(request)
        token = TokenSerializer(request.auth).data if isinstance(request.auth, ApiToken) else None
        mine = Team.objects.filter(memberships__user=user).order_by("name")
        teams = [{"id": team.pk, "name": team.name, "role": user.roles_in_teams[team.pk]} for team in mine]
        account = {"username": user.username, "role": user.role, "may_run_commands": user.may_run_commands}
        return Response({**account, "teams": teams, "token": token})
