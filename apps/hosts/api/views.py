"""Hosts, the identities that reach them, their keys and facts."""

from __future__ import annotations

from collections.abc import Callable

import django_filters as filters
from django.db.models import OuterRef, QuerySet, Subquery
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role, Scope
from apps.accounts.services import user_of
from apps.hosts import services
from apps.hosts.api.paths import PathActions
from apps.hosts.api.remotes import RemoteActions
from apps.hosts.api.schedule import ReservationActions
from apps.hosts.api.serializers import (
    CertificateSerializer,
    ClusterSerializer,
    ConsentSerializer,
    FactsDiffSerializer,
    FactsPairSerializer,
    FactsRowSerializer,
    FactsSerializer,
    FingerprintSerializer,
    HostDetailSerializer,
    HostKeySerializer,
    HostSerializer,
    IdentitySerializer,
    PathsSerializer,
    RestoredSerializer,
    TroubleSerializer,
)
from apps.hosts.facts import changes
from apps.hosts.models import Facts, Host, HostKey, Identity, Trouble
from apps.hosts.usage import cluster_consents
from apps.web.rest import body_of, paged, query_of


class IdentityViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Identity]):
    """SSH key pairs. The public half goes into authorized_keys of a host; the private half is never shown."""

    queryset = Identity.objects.all()
    serializer_class = IdentitySerializer
    filterset_fields = ["name"]
    ordering_fields = ["name", "created_at"]
    scope = Scope.HOSTS
    roles = {"create": Role.ADMIN, "set_certificate": Role.ADMIN}

    @extend_schema(responses={201: IdentitySerializer})
    def create(self, request: Request) -> Response:
        body = self.get_serializer(data=request.data)
        body.is_valid(raise_exception=True)
        identity = services.create_identity(by=user_of(request), **body.validated_data)
        return Response(self.get_serializer(identity).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=CertificateSerializer, responses=IdentitySerializer)
    @action(detail=True, methods=["post"], url_path="set-certificate")
    def set_certificate(self, request: Request, pk: str) -> Response:
        """Log in with the certificate that a reference names, or without one."""
        identity, body = self.get_object(), body_of(request, CertificateSerializer)
        services.change_certificate(identity, body["certificate_from"], by=user_of(request))
        return Response(self.get_serializer(identity).data)


def _newest(history: QuerySet[Facts]) -> int:
    return history.values_list("number", flat=True).first() or 0


class TroubleFilter(filters.FilterSet):  # type: ignore[misc]  # it has no types
    open = filters.BooleanFilter("closed_at", lookup_expr="isnull", help_text="only unresolved ones")

    class Meta:
        model = Trouble
        fields = ["host", "run", "kind"]


class TroubleViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Trouble]):
    """Conflicts, and values that were not restored."""

    queryset = Trouble.objects.select_related("host", "closed_by")
    serializer_class = TroubleSerializer
    filterset_class = TroubleFilter
    ordering_fields = ["opened_at", "closed_at"]
    ordering = ["-opened_at"]
    scope = Scope.HOSTS
    roles = {"dismiss": Role.OPERATOR}
    of_teams = ("dismiss",)

    @extend_schema(request=None, responses=TroubleSerializer)
    @action(detail=True, methods=["post"])
    def dismiss(self, request: Request, pk: str) -> Response:
        """Dismiss a conflict. Values that were not restored are resolved when the host is released."""
        trouble = services.dismiss(self.get_object(), by=user_of(request))
        return Response(TroubleSerializer(trouble).data)


class HostFilter(filters.FilterSet):  # type: ignore[misc]  # it has no types
    label = filters.CharFilter(method="with_label", help_text="hosts with this label")

    class Meta:
        model = Host
        fields = ["name", "state", "level", "team"]

    def with_label(self, hosts: QuerySet[Host], name: str, value: str) -> QuerySet[Host]:
        return hosts.filter(labels__contains=[value])


class HostViewSet(
    PathActions,
    RemoteActions,
    ReservationActions,
    mixins.ListModelMixin,
    mixins.RetrieveModelMixin,
    viewsets.GenericViewSet[Host],
):
    """Database hosts. The server connects to a new host after its host key was fetched, compared and approved."""

    queryset = Host.objects.all()
    serializer_class = HostSerializer
    filterset_class = HostFilter
    ordering_fields = ["name", "state", "created_at", "last_contact_at"]
    scope = Scope.HOSTS
    roles = {
        "create": Role.ADMIN,
        "partial_update": Role.ADMIN,
        "fetch_host_key": Role.ADMIN,
        "approve_host_key": Role.ADMIN,
        "check": Role.OPERATOR,
        "release": Role.ADMIN,
        "destroy": Role.ADMIN,
        "reserve": Role.OPERATOR,
        "give_up": Role.OPERATOR,
        "allow_cluster": Role.ADMIN,
        "allow_path": Role.ADMIN,
        "save_remote_server": Role.ADMIN,
        "check_remote_server": Role.OPERATOR,
        "remove_remote_server": Role.ADMIN,
        "forbid_path": Role.ADMIN,
        "forbid_cluster": Role.ADMIN,
        "restore": Role.ADMIN,
        "install_units": Role.ADMIN,
        "uninstall_units": Role.ADMIN,
    }
    of_teams = tuple(roles)

    def get_queryset(self) -> QuerySet[Host]:
        pinned = HostKey.objects.filter(host=OuterRef("pk"), state=HostKey.State.PINNED)
        hosts = Host.objects.select_related("identity", "jump").order_by("name")
        return hosts.annotate(fingerprint=Subquery(pinned.values("fingerprint")[:1]))

    def get_serializer_class(self) -> type[HostSerializer]:
        return HostSerializer if self.action == "list" else HostDetailSerializer

    def _answer(self, host: Host, code: int = status.HTTP_200_OK) -> Response:
        return Response(HostDetailSerializer(self.get_queryset().get(pk=host.pk)).data, status=code)

    @extend_schema(request=HostSerializer, responses={201: HostDetailSerializer})
    def create(self, request: Request) -> Response:
        host = services.add_host(by=user_of(request), **body_of(request, HostSerializer))
        return self._answer(host, status.HTTP_201_CREATED)

    @extend_schema(request=HostSerializer(partial=True), responses=HostDetailSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        host = self.get_object()
        body = HostSerializer(host, data=request.data, partial=True)
        body.is_valid(raise_exception=True)
        return self._answer(services.change_host(host, by=user_of(request), **body.validated_data))

    @extend_schema(request=None, responses=HostKeySerializer)
    @action(detail=True, methods=["post"], url_path="fetch-host-key")
    def fetch_host_key(self, request: Request, pk: str) -> Response:
        """Fetch the host key. It is not trusted until it is approved."""
        return Response(HostKeySerializer(services.fetch_host_key(self.get_object(), by=user_of(request))).data)

    @extend_schema(request=FingerprintSerializer, responses=HostKeySerializer)
    @action(detail=True, methods=["post"], url_path="approve-host-key")
    def approve_host_key(self, request: Request, pk: str) -> Response:
        """Approve the host key with this fingerprint, after you compared it out of band."""
        body = body_of(request, FingerprintSerializer)
        key = services.approve_host_key(self.get_object(), body["fingerprint"], by=user_of(request))
        return Response(HostKeySerializer(key).data)

    @extend_schema(request=None, responses={202: HostDetailSerializer})
    @action(detail=True, methods=["post"])
    def check(self, request: Request, pk: str) -> Response:
        """Request a check, which reads the facts of the host. `check_requested_at` is null after the check."""
        host = self.get_object()
        services.request_check(host, by=user_of(request))
        return self._answer(host, status.HTTP_202_ACCEPTED)

    @extend_schema(request=None, responses=HostDetailSerializer)
    @action(detail=True, methods=["post"])
    def release(self, request: Request, pk: str) -> Response:
        """Release a host from quarantine after an admin checked it."""
        host = self.get_object()
        services.release_host(host, by=user_of(request))
        return self._answer(host)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Delete it, if nothing refers to it."""
        services.remove_host(self.get_object(), by=user_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(request=None, responses=RestoredSerializer)
    @action(detail=True, methods=["post"])
    def restore(self, request: Request, pk: str) -> Response:
        """Restore values that dead runs left. The response lists the actions. A quarantined host stays quarantined."""
        recovered = services.restore_host(self.get_object(), by=user_of(request))
        return Response(RestoredSerializer({"recovered": recovered}).data)

    @extend_schema(request=None, responses=PathsSerializer)
    @action(detail=True, methods=["post"], url_path="install-units")
    def install_units(self, request: Request, pk: str) -> Response:
        """Install the systemd units that supervise runs. Requires level root, and systemd as PID 1."""
        return Response({"paths": services.install_units(self.get_object(), by=user_of(request))})

    @extend_schema(request=None, responses=PathsSerializer)
    @action(detail=True, methods=["post"], url_path="uninstall-units")
    def uninstall_units(self, request: Request, pk: str) -> Response:
        """Uninstall the systemd units from the host. Refused while a run is active."""
        return Response({"paths": services.uninstall_units(self.get_object(), by=user_of(request))})

    @extend_schema(responses=ClusterSerializer(many=True), filters=False)
    @action(detail=True, filterset_class=None, ordering_fields=[], pagination_class=None)
    def clusters(self, request: Request, pk: str) -> Response:
        """Existing PostgreSQL clusters of the host, and what runs may do with them."""
        return self._clusters(self.get_object())

    def _clusters(self, host: Host) -> Response:
        return Response(ClusterSerializer(cluster_consents.clusters(host, host.facts), many=True).data)

    def _consent(self, act: Callable[..., None], request: Request) -> Response:
        host, body = self.get_object(), body_of(request, ConsentSerializer)
        act(host, body["data_dir"], body["may"], by=user_of(request))
        return self._clusters(host)

    @extend_schema(request=ConsentSerializer, responses=ClusterSerializer(many=True))
    @action(detail=True, methods=["post"], url_path="allow-cluster", pagination_class=None)
    def allow_cluster(self, request: Request, pk: str) -> Response:
        """Allow runs to measure or restart a cluster, or to run while it has clients."""
        return self._consent(cluster_consents.allow, request)

    @extend_schema(request=ConsentSerializer, responses=ClusterSerializer(many=True))
    @action(detail=True, methods=["post"], url_path="forbid-cluster", pagination_class=None)
    def forbid_cluster(self, request: Request, pk: str) -> Response:
        """Revoke this permission. Queued runs that depend on it fail when they start."""
        return self._consent(cluster_consents.withdraw, request)

    @extend_schema(
        parameters=[
            OpenApiParameter("number", OpenApiTypes.INT, description="an earlier version; default: the newest")
        ],
        responses=FactsSerializer,
    )
    @action(detail=True, filterset_class=None)
    def facts(self, request: Request, pk: str) -> Response:
        """The facts of the host: processors, NUMA nodes, memory, tools, PostgreSQL installations."""
        history = self.get_object().facts_history.order_by("-number")
        number = request.query_params.get("number")
        if number is not None:
            version = serializers.IntegerField(min_value=1).run_validation(number)
            return Response(FactsSerializer(get_object_or_404(history, number=version)).data)
        return Response(FactsSerializer(get_object_or_404(history[:1])).data)

    @extend_schema(parameters=[FactsPairSerializer], responses=FactsDiffSerializer)
    @action(detail=True, url_path="facts/diff", filterset_class=None)
    def facts_diff(self, request: Request, pk: str) -> Response:
        """Differences between two versions of the facts, without values that vary all the time, such as free memory."""
        pair = query_of(request, FactsPairSerializer)
        history = self.get_object().facts_history.order_by("-number")
        after = get_object_or_404(history, number=pair.get("after", _newest(history)))
        before = get_object_or_404(history, number=pair.get("before", max(1, after.number - 1)))
        differences = changes.between(before.data, after.data)
        diff = {"before": before.number, "after": after.number, "changes": differences}
        return Response(FactsDiffSerializer(diff).data)

    @extend_schema(responses=FactsRowSerializer(many=True), filters=False)
    @action(detail=True, url_path="facts/history", filterset_class=None, ordering_fields=[])
    def facts_history(self, request: Request, pk: str) -> Response:
        """Versions of the facts, newest first."""
        return paged(self, self.get_object().facts_history.order_by("-number").defer("data"), FactsRowSerializer)
