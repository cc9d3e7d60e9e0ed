"""GET /api/v1/version/: what runs here."""

from __future__ import annotations

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response


class VersionSerializer(serializers.Serializer[dict[str, str]]):
    version = serializers.CharField(
        help_text="version of the server; compatible with a `proving` of the same series: 0.2 for 0.2.x"
    )
    commit = serializers.CharField(help_text="commit of the server's build; empty if unknown")


class VersionViewSet(viewsets.ViewSet):
    """Version and commit of this server."""

    @extend_schema(responses=VersionSerializer)
    def retrieve(self, request: Request) -> Response:
        return Response({"version": settings.VERSION, "commit": settings.COMMIT})
