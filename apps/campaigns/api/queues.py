"""The queue of a host."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from apps.campaigns.execution import schedule
from apps.campaigns.models import Campaign
from apps.hosts.api.schedule import ReservationSerializer
from apps.hosts.models import Host


class WaitingSerializer(serializers.Serializer[schedule.Waiting]):
    campaign = serializers.UUIDField(source="campaign.pk")
    campaign_name = serializers.CharField(source="campaign.name")
    priority = serializers.IntegerField(source="campaign.priority")
    runs = serializers.IntegerField(help_text="number of runs queued for this host")
    seconds = serializers.FloatField(help_text="estimated duration of each")
    begins = serializers.DateTimeField(allow_null=True, help_text="estimate; null while the host is out of service")
    ends = serializers.DateTimeField(allow_null=True)
    fits = serializers.BooleanField(help_text="false: longer than any window; it starts in the first half of one")


class QueueSerializer(serializers.Serializer[Any]):
    active = serializers.UUIDField(source="active.pk", default=None, allow_null=True, help_text="the active run")
    active_ends = serializers.DateTimeField(allow_null=True, help_text="expected")
    reservation = ReservationSerializer(allow_null=True)
    why = serializers.CharField(help_text="why the next run does not start; empty if nothing prevents it")
    waiting = WaitingSerializer(many=True, help_text="campaigns in queue order")


class OnHostSerializer(serializers.Serializer[Any]):
    host = serializers.IntegerField(source="host.pk")
    host_name = serializers.CharField(source="host.name")
    done = serializers.IntegerField(help_text="runs that have ended on this host")
    total = serializers.IntegerField()
    failed = serializers.IntegerField(help_text="of these, neither ok nor cancelled")
    active = serializers.UUIDField(source="active.pk", default=None, allow_null=True, help_text="the active run")
    why = serializers.CharField(help_text="why its next run does not start; empty if nothing prevents it")


class OnHostsViewSet(viewsets.ViewSet):
    """Progress of the campaign on each of its hosts."""

    @extend_schema(responses=OnHostSerializer(many=True))
    def list(self, request: Request, campaign: UUID) -> Response:
        campaign_row = get_object_or_404(Campaign, pk=campaign)
        return Response(OnHostSerializer(schedule.by_host(campaign_row, timezone.now()), many=True).data)


class QueueViewSet(viewsets.ViewSet):
    """The active run of a host and its queue, in order."""

    @extend_schema(responses=QueueSerializer)
    def retrieve(self, request: Request, host: int) -> Response:
        host_row = get_object_or_404(Host, pk=host)
        return Response(QueueSerializer(schedule.schedule(host_row, timezone.now())).data)
