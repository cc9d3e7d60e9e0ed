"""The audit log, and one's sessions: the API's door."""

from __future__ import annotations

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import sessions
from apps.accounts.audit import records
from apps.accounts.models import AuditEntry, Role, Session, User
from apps.accounts.services import user_of
from apps.web.rest import paged


class AuditEntrySerializer(serializers.ModelSerializer[AuditEntry]):
    actor = serializers.CharField(source="actor.username", default="system")

    class Meta:
        model = AuditEntry
        fields = ["id", "at", "actor", "action", "target", "before", "after"]


class AuditViewSet(viewsets.GenericViewSet[AuditEntry]):
    """The audit log, newest first. Entries cannot be changed or deleted."""

    queryset = AuditEntry.objects.none()
    serializer_class = AuditEntrySerializer
    filter_backends: list[type] = []
    roles = {"entries": Role.ADMIN}

    @extend_schema(
        operation_id="audit_list",
        parameters=[OpenApiParameter(name, str) for name in records.Filters.__dataclass_fields__],
        responses=AuditEntrySerializer(many=True),
    )
    def entries(self, request: Request) -> Response:
        """Filters: `person` (user name or system), start of an `action`, part of a `target`, days `since`, `until`."""
        return paged(self, records.entries(records.Filters.of(request.query_params)), AuditEntrySerializer)


class SessionSerializer(serializers.ModelSerializer[Session]):
    id = serializers.UUIDField(source="public")

    class Meta:
        model = Session
        fields = ["id", "created_at", "seen_at", "address", "agent"]


class SessionViewSet(mixins.ListModelMixin, mixins.DestroyModelMixin, viewsets.GenericViewSet[Session]):
    """Your sessions. Deleting a session logs it out."""

    queryset = Session.objects.none()
    serializer_class = SessionSerializer
    ordering_fields = ["created_at", "seen_at"]
    lookup_field = "public"
    lookup_url_kwarg = "id"
    lookup_value_converter = "uuid"
    roles = {"destroy": Role.VIEWER}

    def get_queryset(self) -> QuerySet[Session]:
        return sessions.of(self.request.user) if isinstance(self.request.user, User) else Session.objects.none()

    def perform_destroy(self, instance: Session) -> None:
        sessions.end(instance, by=user_of(self.request))
