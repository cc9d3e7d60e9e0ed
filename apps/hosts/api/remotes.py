"""The remote servers of a host."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.services import user_of
from apps.hosts import services
from apps.hosts.models import Host, RemoteServer
from apps.hosts.usage import remote_servers
from apps.infrastructure import references
from apps.web.rest import body_of


class RemoteNameSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=63, help_text="name of the remote server")


class NewRemoteSerializer(RemoteNameSerializer):
    """An omitted field keeps its value, or gets its default for a new server."""

    addresses = serializers.ListField(
        child=serializers.CharField(max_length=253),
        required=False,
        help_text="host names or IP addresses of one cluster; with several, runs use the one that accepts writes",
    )
    port = serializers.IntegerField(required=False, min_value=1, max_value=65535, help_text="default: 5432")
    database = serializers.CharField(required=False, max_length=63, help_text="where sessions begin; default: postgres")
    use_database = serializers.BooleanField(
        required=False,
        help_text="runs use a schema in this database, which must be empty, instead of creating one; default: false",
    )
    user = serializers.CharField(
        required=False, max_length=63, help_text="a role that may create databases, or schemas in its database"
    )
    sslmode = serializers.ChoiceField(
        choices=RemoteServer.SslMode.choices, required=False, help_text="default: verify-full"
    )
    wait_minutes = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=remote_servers.MAX_WAIT_MINUTES,
        help_text="how long a run waits for changes of parameters that SQL cannot set; 0, the default, refuses them",
    )
    ca_certificate = serializers.CharField(
        required=False, allow_blank=True, help_text="PEM, for verify-ca and verify-full"
    )
    client_certificate = serializers.CharField(required=False, allow_blank=True, help_text="PEM")
    password = serializers.CharField(required=False, allow_blank=True, write_only=True, help_text="stored encrypted")
    client_key = serializers.CharField(
        required=False, allow_blank=True, write_only=True, help_text="PEM; stored encrypted"
    )
    password_from = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=references.LONGEST,
        help_text="instead of the password: file:/PATH or env:NAME, read at each use; only instance admins may set it",
    )
    client_key_from = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=references.LONGEST,
        help_text="instead of the client key, the same; the file may also contain the client certificate",
    )


class RemoteServerSerializer(serializers.ModelSerializer[RemoteServer]):
    checked = serializers.DictField(read_only=True, help_text="the agent's answer to the newest successful check")
    check_error = serializers.DictField(read_only=True, allow_null=True, help_text="why the newest check failed")

    class Meta:
        model = RemoteServer
        fields = [
            *("name", *remote_servers.FIELDS),
            *("password_from", "client_key_from", "checked", "check_error", "checked_at", "changed_at"),
        ]
        read_only_fields = fields


class RemoteActions(viewsets.GenericViewSet[Host]):
    """Add, list, check and remove remote servers."""

    @extend_schema(responses=RemoteServerSerializer(many=True), filters=False)
    @action(detail=True, url_path="remote-servers", filterset_class=None, ordering_fields=[], pagination_class=None)
    def remote_servers(self, request: Request, pk: str) -> Response:
        """Remote servers of the host: PostgreSQL that only SQL reaches."""
        return self._remotes(self.get_object())

    def _remotes(self, host: Host) -> Response:
        return Response(RemoteServerSerializer(host.remote_servers.all(), many=True).data)

    @extend_schema(request=NewRemoteSerializer, responses=RemoteServerSerializer(many=True))
    @action(detail=True, methods=["post"], url_path="save-remote-server", pagination_class=None)
    def save_remote_server(self, request: Request, pk: str) -> Response:
        """Add a remote server, or change the one of that name. The secrets are needed again with another
        address, port or CA, and with an SSL mode that verifies less."""
        host, body = self.get_object(), body_of(request, NewRemoteSerializer)
        fields = dict(body)
        remote_servers.register(host, fields.pop("name"), by=user_of(request), **fields)
        return self._remotes(host)

    @extend_schema(request=RemoteNameSerializer, responses=RemoteServerSerializer)
    @action(detail=True, methods=["post"], url_path="check-remote-server", pagination_class=None)
    def check_remote_server(self, request: Request, pk: str) -> Response:
        """Connect to a remote server from the host, and read its version, rights and round-trip time."""
        host, body = self.get_object(), body_of(request, RemoteNameSerializer)
        server = services.query_remote_server(host, body["name"], by=user_of(request))
        return Response(RemoteServerSerializer(server).data)

    @extend_schema(request=RemoteNameSerializer, responses=RemoteServerSerializer(many=True))
    @action(detail=True, methods=["post"], url_path="remove-remote-server", pagination_class=None)
    def remove_remote_server(self, request: Request, pk: str) -> Response:
        """Remove a remote server. Queued runs that were planned on it fail when they start."""
        host, body = self.get_object(), body_of(request, RemoteNameSerializer)
        remote_servers.remove(host, body["name"], by=user_of(request))
        return self._remotes(host)
