"""Directories, files and devices of a host that workloads may write to."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.services import user_of
from apps.hosts.models import AllowedPath, Host
from apps.hosts.usage import allowed_paths
from apps.web.rest import body_of


class PathSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(help_text="absolute")


class NewPathSerializer(PathSerializer):
    kind = serializers.ChoiceField(
        choices=AllowedPath.Kind.choices, help_text="whether a file or device is overwritten"
    )


class AllowedPathSerializer(PathSerializer):
    kind = serializers.CharField(help_text="clusters: the host's cluster directory, which is always allowed")
    lies_on = serializers.CharField(help_text="file system and device, from the facts")
    given_by = serializers.CharField(
        source="allowed.given_by.username", default=None, allow_null=True, help_text="null: always allowed"
    )


class PathActions(viewsets.GenericViewSet[Host]):
    """The host key that the address of the host presents."""

    @extend_schema(responses=AllowedPathSerializer(many=True), filters=False)
    @action(detail=True, url_path="allowed-paths", filterset_class=None, ordering_fields=[], pagination_class=None)
    def allowed_paths(self, request: Request, pk: str) -> Response:
        """Paths where workloads may write."""
        return self._allowed(self.get_object())

    def _allowed(self, host: Host) -> Response:
        return Response(AllowedPathSerializer(allowed_paths.path_rows(host, host.facts), many=True).data)

    @extend_schema(request=NewPathSerializer, responses=AllowedPathSerializer(many=True))
    @action(detail=True, methods=["post"], url_path="allow-path", pagination_class=None)
    def allow_path(self, request: Request, pk: str) -> Response:
        """Allow workloads to write in a directory, or to overwrite a file or a device."""
        host, body = self.get_object(), body_of(request, NewPathSerializer)
        allowed_paths.allow(host, body["path"], body["kind"], by=user_of(request))
        return self._allowed(host)

    @extend_schema(request=PathSerializer, responses=AllowedPathSerializer(many=True))
    @action(detail=True, methods=["post"], url_path="forbid-path", pagination_class=None)
    def forbid_path(self, request: Request, pk: str) -> Response:
        """Revoke this permission. Queued runs that depend on it fail when they start."""
        host, body = self.get_object(), body_of(request, PathSerializer)
        allowed_paths.withdraw(host, body["path"], by=user_of(request))
        return self._allowed(host)
