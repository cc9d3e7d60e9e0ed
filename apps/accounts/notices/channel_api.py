"""Channels and deliveries: the API's door to the same services as the pages."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Channel, Delivery, Role, User
from apps.accounts.notices import channels
from apps.accounts.notices.events import KINDS
from apps.accounts.services import user_of


class ChannelSerializer(serializers.ModelSerializer[Channel]):
    owner = serializers.CharField(source="owner.username", read_only=True)
    address = serializers.CharField(
        max_length=500, help_text="a mail address, or a URL; users who cannot change a webhook see only its server"
    )
    events = serializers.ListField(child=serializers.ChoiceField(choices=list(KINDS.items())), required=False)
    details = serializers.DictField(
        child=serializers.CharField(max_length=500, allow_blank=True),
        required=False,
        help_text="the other fields of its kind, for admins; a secret among them is stored, and never in a response",
    )
    secret = serializers.CharField(read_only=True, default="", help_text="only in the response that creates it")

    class Meta:
        model = Channel
        fields = ["id", "name", "owner", "kind", "address", "details", "events", "active", "secret", "created_at"]
        read_only_fields = ["created_at"]
        extra_kwargs: ClassVar[dict[str, Any]] = {"name": {"validators": []}}

    def to_representation(self, instance: Channel) -> dict[str, Any]:
        user = user_of(self.context["request"])
        visible = {"address": instance.address_for(user), "details": instance.details_for(user)}
        return super().to_representation(instance) | visible


class ChannelChangeSerializer(ChannelSerializer):
    class Meta(ChannelSerializer.Meta):
        read_only_fields = ["created_at", "kind"]


class DeliverySerializer(serializers.ModelSerializer[Delivery]):
    class Meta:
        model = Delivery
        fields = [
            *("id", "channel", "kind", "subject", "payload", "state", "attempts", "created_at"),
            *("next_try_at", "status", "error", "ended_at"),
        ]


class ChannelViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Channel]):
    """Notification channels. All users may read them. Owners change mail channels, and admins change webhooks."""

    queryset = Channel.objects.select_related("owner")
    serializer_class = ChannelSerializer
    filterset_fields = ["kind", "active"]
    ordering_fields = ["name", "created_at"]
    roles = dict.fromkeys(("create", "partial_update", "test", "renew_secret"), Role.VIEWER)

    def get_queryset(self) -> QuerySet[Channel]:
        rows = super().get_queryset()
        if self.request.method in SAFE_METHODS:
            return rows
        return rows.filter(pk__in=Channel.objects.editable_by(user_of(self.request)))

    @extend_schema(responses={201: ChannelSerializer})
    def create(self, request: Request) -> Response:
        body = self.get_serializer(data=request.data)
        body.is_valid(raise_exception=True)
        channel, secret = channels.create(by=user_of(request), **{"events": [], **body.validated_data})
        return Response(self.get_serializer(channel).data | {"secret": secret}, status=status.HTTP_201_CREATED)

    @extend_schema(request=ChannelChangeSerializer, responses=ChannelSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change the given fields. `active` false switches the channel off."""
        channel = self.get_object()
        body = ChannelChangeSerializer(channel, data=request.data, partial=True, context=self.get_serializer_context())
        body.is_valid(raise_exception=True)
        channels.change(channel, by=user_of(request), **body.validated_data)
        return Response(self.get_serializer(channel).data)

    @extend_schema(request=None, responses={201: DeliverySerializer})
    @action(detail=True, methods=["post"])
    def test(self, request: Request, pk: str) -> Response:
        """Send a test notification. The delivery in the response shows the outcome a moment later."""
        delivery = channels.send_test(self.get_object(), by=user_of(request))
        return Response(DeliverySerializer(delivery).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=None, responses=ChannelSerializer)
    @action(detail=True, methods=["post"], url_path="renew-secret")
    def renew_secret(self, request: Request, pk: str) -> Response:
        """Create a new secret for a webhook. Only this response contains it."""
        channel = self.get_object()
        secret = channels.renew_secret(channel, by=user_of(request))
        return Response(self.get_serializer(channel).data | {"secret": secret})


class DeliveryViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Delivery]):
    """Deliveries: sent, failed and pending notifications. Mail to other users is left out."""

    queryset = Delivery.objects.all()
    serializer_class = DeliverySerializer
    filterset_fields = ["channel", "kind", "state"]
    ordering_fields = ["created_at", "next_try_at"]
    roles = {"retry": Role.VIEWER}

    def get_queryset(self) -> QuerySet[Delivery]:
        rows = Delivery.objects.all()
        if not isinstance(self.request.user, User):
            return rows.none()
        if self.request.method in SAFE_METHODS:
            return rows.visible_to(self.request.user)
        return rows.filter(channel__in=Channel.objects.editable_by(self.request.user))

    @extend_schema(request=None, responses=DeliverySerializer)
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, pk: str) -> Response:
        """Send a failed or pending delivery now."""
        delivery = self.get_object()
        channels.retry(delivery, by=user_of(request))
        delivery.refresh_from_db()
        return Response(DeliverySerializer(delivery).data)
