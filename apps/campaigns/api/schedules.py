"""Schedules and their slots as JSON. Pages call the same services."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role, Scope, Team
from apps.accounts.services import user_of
from apps.campaigns import queries as campaigns
from apps.campaigns.models import Campaign, Schedule, Slot
from apps.campaigns.schedules import queries, services
from apps.hosts.api.schedule import WindowSerializer
from apps.web.rest import body_of, paged


class ScheduleSerializer(serializers.ModelSerializer[Schedule]):
    """A schedule, which repeats a campaign."""

    campaign = serializers.UUIDField(source="campaign_id", help_text="id of the campaign that is repeated")
    host_name = serializers.CharField(source="campaign.host.name")
    owner = serializers.CharField(source="owner.username", help_text="campaigns run with this user's permissions")
    windows = WindowSerializer(many=True)
    next = serializers.SerializerMethodField(help_text="the next three times, in its time zone")

    class Meta:
        model = Schedule
        fields = [
            *("id", "name", "campaign", "host_name", "owner", "when", "time_zone", "windows", "late_by_min"),
            *("state", "state_reason", "next", "created_at"),
        ]

    @extend_schema_field(serializers.ListField(child=serializers.DateTimeField()))
    def get_next(self, schedule: Schedule) -> list[str]:
        return [at.isoformat() for at in queries.next_times(schedule, timezone.now())]


class ScheduleChangeSerializer(serializers.Serializer[Any]):
    """Fields to change; others keep their values."""

    name = serializers.CharField(max_length=100, required=False)
    when = serializers.CharField(
        max_length=100, required=False, help_text="such as daily 02:30, weekly Mon 02:30 or cron 30 2 * * 1-5"
    )
    time_zone = serializers.CharField(max_length=63, required=False, help_text="default: that of the host")
    windows = serializers.ListField(
        child=serializers.JSONField(), required=False, help_text="[{days, from, to}]; [] means at any time"
    )
    late_by_min = serializers.IntegerField(
        min_value=services.LEAST_LATE_MIN,
        max_value=services.MOST_LATE_MIN,
        required=False,
        help_text="minutes by which a campaign may start late; 30 by default",
    )


class NewScheduleSerializer(ScheduleChangeSerializer):
    campaign = serializers.PrimaryKeyRelatedField(
        queryset=Campaign.objects.select_related("host", "workload"), help_text="id of the campaign to repeat"
    )
    name = serializers.CharField(max_length=100, help_text="campaigns get this name and the date")
    when = serializers.CharField(max_length=100, help_text="such as daily 02:30, weekly Mon 02:30 or cron 30 2 * * 1-5")


class SlotSerializer(serializers.ModelSerializer[Slot]):
    """The outcome of one time."""

    campaign = serializers.UUIDField(source="campaign_id", allow_null=True, help_text="null if no campaign was created")

    class Meta:
        model = Slot
        fields = ["at", "outcome", "reason", "campaign", "regression", "decided_at", "compared_at"]


class ScheduleFilter(filters.FilterSet):  # type: ignore[misc]  # it has no types
    host = filters.NumberFilter("campaign__host_id")
    team = filters.ModelChoiceFilter(
        queryset=Team.objects.all(), method="of_team", help_text="id of a team that owns a host of the campaign"
    )

    class Meta:
        model = Schedule
        fields = ["name", "state", "campaign"]

    def of_team(self, schedules: QuerySet[Schedule], name: str, value: Team) -> QuerySet[Schedule]:
        return schedules.filter(campaign__in=Campaign.objects.filter(campaigns.of_team(value.pk)))


class ScheduleViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Schedule]):
    """Schedules of campaigns. Deleted schedules are not listed; their addresses, history and campaigns remain."""

    queryset = Schedule.objects.select_related("campaign__host", "owner")
    serializer_class = ScheduleSerializer
    filterset_class = ScheduleFilter
    ordering_fields = ["name", "next_at", "created_at"]
    ordering = ["name"]
    scope = Scope.CAMPAIGNS
    roles = dict.fromkeys(("create", "partial_update", "destroy", "pause", "resume"), Role.OPERATOR)
    of_teams = tuple(roles)

    def get_queryset(self) -> QuerySet[Schedule]:
        rows = super().get_queryset()
        return rows.exclude(state=Schedule.State.DELETED) if self.action == "list" else rows

    @extend_schema(request=NewScheduleSerializer, responses={201: ScheduleSerializer})
    def create(self, request: Request) -> Response:
        """Repeat a campaign: a clone with a new seed starts at each time."""
        schedule = services.create_schedule(by=user_of(request), **body_of(request, NewScheduleSerializer))
        return Response(ScheduleSerializer(schedule).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=ScheduleChangeSerializer, responses=ScheduleSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change the given fields. You own the schedule from then on."""
        schedule, body = self.get_object(), body_of(request, ScheduleChangeSerializer)
        services.change_schedule(schedule, by=user_of(request), **body)
        return Response(ScheduleSerializer(schedule).data)

    def destroy(self, request: Request, pk: str) -> Response:
        """Delete a schedule. Its history and its campaigns remain."""
        services.delete_schedule(self.get_object(), by=user_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(request=None, responses=ScheduleSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        """Pause a schedule: no campaign starts until it is resumed."""
        return self._changed(request, services.pause_schedule)

    @extend_schema(request=None, responses=ScheduleSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        """Resume a schedule from its next time on. You own it from then on."""
        return self._changed(request, services.resume_schedule)

    @extend_schema(responses=SlotSerializer(many=True))
    @action(detail=True, filter_backends=[])
    def slots(self, request: Request, pk: str) -> Response:
        """The outcome of each time, newest first."""
        return paged(self, self.get_object().slots.order_by("-at"), SlotSerializer)

    def _changed(self, request: Request, act: Callable[..., Any]) -> Response:
        schedule = self.get_object()
        act(schedule, by=user_of(request))
        return Response(ScheduleSerializer(schedule).data)
