"""Teams, their members and their objects in the API, with the same services as the pages."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import Prefetch, QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Membership, Role, Team, User
from apps.accounts.services import user_of
from apps.accounts.team import teams
from apps.web.rest import body_of


class MemberSerializer(serializers.ModelSerializer[Membership]):
    user = serializers.PrimaryKeyRelatedField(
        queryset=User.objects.all(), help_text="id of a user; an existing member gets the other role"
    )
    username = serializers.CharField(source="user.username", read_only=True)

    class Meta:
        model = Membership
        fields = ["user", "username", "role"]
        extra_kwargs: ClassVar[dict[str, Any]] = {"role": {"required": True, "help_text": "in what the team owns"}}


class TeamSerializer(serializers.ModelSerializer[Team]):
    members = MemberSerializer(source="memberships", many=True, read_only=True)

    class Meta:
        model = Team
        fields = ["id", "name", "about", "private", "members", "created_at"]
        read_only_fields = ["created_at"]
        extra_kwargs: ClassVar[dict[str, Any]] = {"name": {"validators": []}}  # the service reports a taken name


class HandOverSerializer(serializers.Serializer[Any]):
    """An object by its name, and the team that is to own it."""

    kind = serializers.ChoiceField(choices=list(teams.OF_TEAMS))
    name = serializers.CharField(help_text="for a decision, its id")
    team = serializers.PrimaryKeyRelatedField(
        queryset=Team.objects.all(), allow_null=True, help_text="id of a team; null: no team"
    )


class TeamViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Team]):
    """Teams and the roles of their members. All users may read; admins of a team manage its members."""

    queryset = Team.objects.order_by("name")
    serializer_class = TeamSerializer
    filterset_fields = ["name"]
    ordering_fields = ["name", "created_at"]
    roles = dict.fromkeys(
        ("create", "partial_update", "destroy", "set_member", "remove_member", "hand_over"), Role.ADMIN
    )
    of_teams = ("partial_update", "set_member", "remove_member", "hand_over")

    def get_queryset(self) -> QuerySet[Team]:
        members = Membership.objects.select_related("user").order_by("user__username")
        return super().get_queryset().prefetch_related(Prefetch("memberships", members))

    def _answer(self, team: Team, code: int = status.HTTP_200_OK) -> Response:
        return Response(TeamSerializer(self.get_queryset().get(pk=team.pk)).data, status=code)

    @extend_schema(responses={201: TeamSerializer})
    def create(self, request: Request) -> Response:
        body = body_of(request, TeamSerializer)
        return self._answer(teams.create_team(by=user_of(request), **body), status.HTTP_201_CREATED)

    @extend_schema(request=TeamSerializer(partial=True), responses=TeamSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change the name or the description, as an instance admin, or whether the team is private."""
        body = body_of(request, TeamSerializer, partial=True)
        return self._answer(teams.change_team(self.get_object(), by=user_of(request), **body))

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Delete a team that owns nothing."""
        teams.remove_team(self.get_object(), by=user_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(request=MemberSerializer, responses=TeamSerializer)
    @action(detail=True, methods=["post"], url_path="members")
    def set_member(self, request: Request, pk: str) -> Response:
        """Add a user to the team, or change the role of a member."""
        team, fields = self.get_object(), body_of(request, MemberSerializer)
        teams.set_member(team, fields["user"], Role(fields["role"]), by=user_of(request))
        return self._answer(team)

    @extend_schema(
        parameters=[OpenApiParameter("user", int, OpenApiParameter.PATH, description="id of the user")],
        responses={204: None},
    )
    @action(detail=True, methods=["delete"], url_path=r"members/(?P<user>[0-9]+)")
    def remove_member(self, request: Request, pk: str, user: str) -> Response:
        """Remove a user from the team. As a non-member, the user keeps read access."""
        teams.remove_member(self.get_object(), get_object_or_404(User, pk=user), by=user_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(request=HandOverSerializer, responses={204: None})
    @action(detail=False, methods=["post"], url_path="hand-over")
    def hand_over(self, request: Request) -> Response:
        """Move a host, profile, workload, data set or decision into a team, or with null out of its team."""
        fields = body_of(request, HandOverSerializer)
        teams.hand_over(teams.owned_by_name(fields["kind"], fields["name"]), fields["team"], by=user_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)
