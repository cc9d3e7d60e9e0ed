"""Jobs, events and files of the other hosts of a run."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from django.http import HttpResponse
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.campaigns import queries
from apps.campaigns.api.run_serializers import EventQuerySerializer, EventsSerializer
from apps.campaigns.api.views import FileRenderer
from apps.campaigns.models import RunPart
from apps.web.rest import query_of


class PartFileSerializer(serializers.Serializer[Any]):
    path = serializers.CharField()
    size = serializers.IntegerField(help_text="bytes on the host")
    sha256 = serializers.CharField()


class RunPartRowSerializer(serializers.ModelSerializer[RunPart]):
    run = serializers.UUIDField(source="run_id")
    host = serializers.IntegerField(source="host_id")
    host_name = serializers.CharField(source="host.name")
    error = serializers.JSONField(allow_null=True, help_text="blame, message, hint; null if there is no error")

    class Meta:
        model = RunPart
        fields = [
            *("id", "run", "position", "role", "host", "host_name", "state", "outcome", "agent_state", "epoch"),
            *("error", "last_seq"),
        ]


class RunPartSerializer(RunPartRowSerializer):
    spec = serializers.DictField(help_text="resolved and immutable")
    manifest = serializers.JSONField(allow_null=True, help_text="the manifest that its agent sealed")
    files = PartFileSerializer(source="artefacts", many=True, help_text="available at file/?path=")

    class Meta(RunPartRowSerializer.Meta):
        fields = [*RunPartRowSerializer.Meta.fields, "digest", "spec", "manifest", "files"]


class RunPartFilter(filters.FilterSet):  # type: ignore[misc]  # it has no types
    run = filters.UUIDFilter("run_id")
    campaign = filters.UUIDFilter("run__campaign_id")

    class Meta:
        model = RunPart
        fields = ["role", "state", "outcome"]


class RunPartViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[RunPart]):
    """The part of a run on another host: the server, or a standby."""

    queryset = RunPart.objects.select_related("host").order_by("run_id", "position")
    filterset_class = RunPartFilter
    ordering_fields = ["position"]

    def get_queryset(self) -> QuerySet[RunPart]:
        parts = super().get_queryset()
        return parts.defer("spec", "manifest") if self.action == "list" else parts

    def get_serializer_class(self) -> type[serializers.BaseSerializer[Any]]:
        return RunPartRowSerializer if self.action == "list" else RunPartSerializer

    @extend_schema(parameters=[EventQuerySerializer], responses=EventsSerializer, filters=False)
    @action(detail=True, pagination_class=None)
    def events(self, request: Request, pk: str) -> Response:
        """The event log of its agent after `after`, as for a run."""
        query = query_of(request, EventQuerySerializer)
        return Response(EventsSerializer(queries.following_events(self.get_object(), **query)).data)

    @extend_schema(
        parameters=[OpenApiParameter("path", str, required=True)],
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
        filters=False,
    )
    @action(detail=True, pagination_class=None, renderer_classes=[JSONRenderer, FileRenderer])
    def file(self, request: Request, pk: str) -> HttpResponse:
        """A file of the run, as an attachment."""
        path = request.query_params.get("path", "")
        artefact = self.get_object().artefacts.filter(path=path).first()
        if artefact is None or artefact.content is None:
            raise NotFound(
                f"{path or 'no path'}: not a file of this part, or not fetched because it is damaged or too large"
            )
        answer = HttpResponse(bytes(artefact.content), content_type="application/octet-stream")
        answer["Content-Disposition"] = content_disposition_header(True, PurePosixPath(artefact.path).name)
        answer["X-Content-Type-Options"] = "nosniff"
        return answer
