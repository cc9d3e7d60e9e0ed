"""Saved views and the dashboard as JSON. Pages call the same services."""

from __future__ import annotations

import django_filters as filters
from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role, Scope
from apps.accounts.services import user_of
from apps.results.explore import chart_addresses, pins
from apps.results.models import Pin
from apps.web.rest import body_of
from common.errors import PlanError


class PinSerializer(serializers.ModelSerializer[Pin]):
    title = serializers.CharField(max_length=160, required=False, help_text="default: one that the page offers")
    address = serializers.CharField(
        max_length=chart_addresses.LONGEST,
        help_text="path and query of a page with charts; responses contain all its choices",
    )
    chart = serializers.CharField(
        max_length=40, required=False, help_text="a chart of that page; default: its usual one"
    )
    dashboard = serializers.BooleanField(default=True, help_text="false: a saved view, not on the dashboard")
    by = serializers.CharField(source="by.username", read_only=True)
    link = serializers.SerializerMethodField(help_text="short link to the page with its choices")
    figure = serializers.SerializerMethodField(
        help_text="address of the drawn chart; null if its page no longer exists"
    )

    class Meta:
        model = Pin
        fields = [
            *("id", "title", "note", "shows", "address", "chart", "dashboard", "position"),
            *("link", "figure", "by", "at"),
        ]
        read_only_fields = ["shows", "position", "at"]

    def get_link(self, pin: Pin) -> str:
        return reverse("pin_go", args=[pin.pk])

    def get_figure(self, pin: Pin) -> str | None:
        try:
            return chart_addresses.find(pin.address, pin.chart).figure
        except PlanError:
            return None


class PinChangeSerializer(PinSerializer):
    class Meta(PinSerializer.Meta):
        fields = ["title", "note", "dashboard"]


class MoveSerializer(serializers.Serializer[None]):
    way = serializers.ChoiceField(choices=list(pins.WAYS))


class PinFilter(filters.FilterSet):  # type: ignore[misc]  # it has no types
    title = filters.CharFilter(lookup_expr="icontains")
    dashboard = filters.BooleanFilter("position", lookup_expr="isnull", exclude=True)

    class Meta:
        model = Pin
        fields = ["chart"]


class PinViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Pin]):
    """Saved views, and which of them are on the dashboard."""

    queryset = Pin.objects.select_related("by")
    serializer_class = PinSerializer
    filterset_class = PinFilter
    ordering_fields = ["title", "position", "at"]
    ordering = ["-at"]
    scope = Scope.CAMPAIGNS
    roles = dict.fromkeys(("create", "partial_update", "move", "destroy"), Role.OPERATOR)

    @extend_schema(responses={201: PinSerializer})
    def create(self, request: Request) -> Response:
        body = self.get_serializer(data=request.data)
        body.is_valid(raise_exception=True)
        pin = pins.pin(by=user_of(request), **body.validated_data)
        return Response(self.get_serializer(pin).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=PinChangeSerializer, responses=PinSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change the title or the note, or add it to or remove it from the dashboard. The view itself cannot change."""
        pin = self.get_object()
        body = PinChangeSerializer(pin, data=request.data, partial=True)
        body.is_valid(raise_exception=True)
        return Response(self.get_serializer(pins.change(pin, by=user_of(request), **body.validated_data)).data)

    @extend_schema(request=MoveSerializer, responses=PinSerializer)
    @action(detail=True, methods=["post"])
    def move(self, request: Request, pk: str) -> Response:
        """Move it `up` or `down` by one position on the dashboard."""
        pin = self.get_object()
        pins.move(pin, body_of(request, MoveSerializer)["way"], by=user_of(request))
        pin.refresh_from_db()
        return Response(self.get_serializer(pin).data)

    def destroy(self, request: Request, pk: str) -> Response:
        """Delete a saved view and its short link. The data it shows remains."""
        pins.remove(self.get_object(), by=user_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)
