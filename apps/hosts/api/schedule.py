"""Windows, reservations and health of a host."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.services import user_of
from apps.hosts.models import Host, Reservation
from apps.hosts.usage import reservations
from apps.web.renamed_fields import with_earlier_names
from apps.web.rest import body_of


class WindowSerializer(serializers.Serializer[Any]):
    """Keys are days, from and to."""

    days = serializers.ListField(child=serializers.IntegerField(min_value=0, max_value=6), help_text="0 is Monday")
    to = serializers.CharField(help_text="HH:MM, up to 24:00")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """`from` is a Python keyword."""
        return {**super().get_fields(), "from": serializers.CharField(help_text="HH:MM")}


@with_earlier_names(found="actual")
class HealthSerializer(serializers.Serializer[Any]):
    check = serializers.CharField()
    ok = serializers.BooleanField()
    actual = serializers.CharField(source="found")
    wanted = serializers.CharField(help_text="limit; empty: information only")


class ReservationSerializer(serializers.ModelSerializer[Reservation]):
    by = serializers.CharField(source="by.username", read_only=True)

    class Meta:
        model = Reservation
        fields = ["by", "reason", "until", "made_at", "ended_at"]
        read_only_fields = ["made_at", "ended_at"]


class ReservationActions(viewsets.GenericViewSet[Host]):
    """The host key that the address of the host presents."""

    @extend_schema(request=ReservationSerializer, responses={201: ReservationSerializer})
    @action(detail=True, methods=["post"])
    def reserve(self, request: Request, pk: str) -> Response:
        """Reserve the host: no run starts until then, and active runs continue. This replaces your own reservation."""
        host, body = self.get_object(), body_of(request, ReservationSerializer)
        made = reservations.reserve(host, by=user_of(request), **body)
        return Response(ReservationSerializer(made).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=None, responses=ReservationSerializer)
    @action(detail=True, methods=["post"], url_path="give-up")
    def give_up(self, request: Request, pk: str) -> Response:
        """End the reservation early. Only its user and admins may do this."""
        return Response(ReservationSerializer(reservations.give_up(self.get_object(), by=user_of(request))).data)
