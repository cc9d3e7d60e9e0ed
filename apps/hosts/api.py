"""Hosts, the identities that reach them, their keys and facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import django_filters as filters
from django.db.models import OuterRef, QuerySet, Subquery
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role
from apps.accounts.rest import paged
from apps.accounts.services import user_of
from apps.hosts import changes, consents, reservations, services
from apps.hosts.api_paths import PathActions
from apps.hosts.api_schedule import HealthSerializer, ReservationActions, ReservationSerializer, WindowSerializer
from apps.hosts.models import ACCOUNT, ClusterConsent, Facts, Host, HostKey, Identity, Trouble


class IdentitySerializer(serializers.ModelSerializer[Identity]):
    private_key = serializers.CharField(
        write_only=True,
        required=False,
        trim_whitespace=False,
        max_length=20_000,
        help_text="an unencrypted OpenSSH or PEM key to use; without it we make a pair. Never shown again",
    )

    class Meta:
        model = Identity
        fields = ["id", "name", "public_key", "private_key", "created_at"]
        read_only_fields = ["public_key", "created_at"]


class IdentityViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Identity]):
    """SSH key pairs. The public half goes into authorized_keys of a host; the private half is never shown."""

    queryset = Identity.objects.all()
    serializer_class = IdentitySerializer
    filterset_fields = ["name"]
    ordering_fields = ["name", "created_at"]
    roles = {"create": Role.ADMIN}

    @extend_schema(responses={201: IdentitySerializer})
    def create(self, request: Request) -> Response:
        body = self.get_serializer(data=request.data)
        body.is_valid(raise_exception=True)
        identity = services.create_identity(by=user_of(request), **body.validated_data)
        return Response(self.get_serializer(identity).data, status=status.HTTP_201_CREATED)


class HostSerializer(serializers.ModelSerializer[Host]):
    # Empty only where a host is an archive of imported results.
    user = serializers.RegexField(
        r"^([a-z_][a-z0-9_-]{0,31}\$?)?$",
        max_length=32,
        error_messages={"invalid": ACCOUNT.message},
        help_text="the account we log in as",
    )
    port = serializers.IntegerField(min_value=1, max_value=65535, required=False, help_text="22 by default")
    pg_bin_dirs = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="further PostgreSQL bin directories"
    )
    pg_data_dirs = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="further data directories of clusters"
    )
    labels = serializers.ListField(
        child=serializers.CharField(max_length=63), required=False, help_text="words by which decisions name it"
    )
    fingerprint = serializers.CharField(
        read_only=True, allow_null=True, help_text="of the approved host key; null before"
    )

    windows = serializers.ListField(
        child=WindowSerializer(), required=False, help_text="when runs may begin; [] always. A window may end next day"
    )
    guard_command = serializers.CharField(read_only=True, help_text="puts everything back on the host's own shell")

    class Meta:
        model = Host
        fields = [
            *("id", "name", "address", "port", "user", "sudo", "identity", "jump", "python", "spool_dir", "data_dir"),
            *("pg_bin_dirs", "pg_data_dirs", "os_user", "may_reboot", "windows", "time_zone", "labels"),
            *("state", "state_reason", "machine_id", "level", "health_checked_at"),
            *("fingerprint", "supervisor", "units", "team"),
            *("last_contact_at", "check_requested_at", "release_requested_at", "created_at", "guard_command"),
        ]
        extra_kwargs = {
            "jump": {"help_text": "id of the host that we connect through"},
            "address": {"required": True, "allow_blank": False},
            "identity": {"required": True, "help_text": "id of the SSH key; null for a host of imported results only"},
        }
        read_only_fields = [
            *("state", "state_reason", "machine_id", "level", "supervisor", "units", "health_checked_at"),
            *("last_contact_at", "check_requested_at", "release_requested_at", "created_at"),
        ]


class HostDetailSerializer(HostSerializer):
    facts = serializers.DictField(read_only=True, help_text="the newest; {} before the first check")
    health = HealthSerializer(many=True, read_only=True)
    reservation = serializers.SerializerMethodField(help_text="in force; null where there is none")

    class Meta(HostSerializer.Meta):
        fields = [*HostSerializer.Meta.fields, "facts", "health", "reservation"]

    @extend_schema_field(ReservationSerializer(allow_null=True))
    def get_reservation(self, host: Host) -> Any:
        found = reservations.in_force(host, timezone.now())
        return ReservationSerializer(found).data if found else None


class HostKeySerializer(serializers.ModelSerializer[HostKey]):
    approved_by = serializers.CharField(source="approved_by.username", default=None, allow_null=True, read_only=True)

    class Meta:
        model = HostKey
        fields = ["fingerprint", "key", "state", "seen_at", "approved_by", "approved_at"]


class FingerprintSerializer(serializers.Serializer[Any]):
    fingerprint = serializers.CharField(help_text="the offered key's, as ssh-keygen -l prints it on the host")


class PathsSerializer(serializers.Serializer[Any]):
    paths = serializers.ListField(child=serializers.CharField(), help_text="files on the host")


class RecoveredSerializer(serializers.Serializer[Any]):
    run = serializers.UUIDField()
    state = serializers.CharField()
    outcome = serializers.CharField(help_text="empty where the run goes on")
    clean = serializers.BooleanField(allow_null=True, help_text="false: the host is not as it was")
    did = serializers.ListField(child=serializers.CharField(), help_text="what was ended and put back, in words")


class RestoredSerializer(serializers.Serializer[Any]):
    recovered = RecoveredSerializer(many=True)


class ConsentSerializer(serializers.Serializer[Any]):
    data_dir = serializers.CharField(help_text="of one of the host's clusters")
    may = serializers.ChoiceField(choices=ClusterConsent.May.choices, help_text="each is an act of its own")


class ClusterConsentSerializer(serializers.Serializer[Any]):
    restart = serializers.CharField(
        source="restart.given_by.username", default=None, allow_null=True, help_text="who allowed it"
    )
    disturb_clients = serializers.CharField(source="disturb_clients.given_by.username", default=None, allow_null=True)


class ClusterSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    data_dir = serializers.CharField()
    version = serializers.CharField()
    port = serializers.IntegerField()
    running = serializers.BooleanField()
    owner = serializers.CharField()
    unit = serializers.CharField(help_text="service of systemd; empty for one that pg_ctl started")
    include = serializers.CharField(help_text="the file that a run may write; empty: its configuration includes none")
    consent = ClusterConsentSerializer()


class FactsSerializer(serializers.ModelSerializer[Facts]):
    data = serializers.DictField(help_text="as the agent read it")  # type: ignore[assignment]  # the field

    class Meta:
        model = Facts
        fields = ["number", "digest", "taken_at", "seen_at", "data"]


class FactsRowSerializer(serializers.ModelSerializer[Facts]):
    class Meta:
        model = Facts
        fields = ["number", "digest", "taken_at", "seen_at"]


class FactsPairSerializer(serializers.Serializer[Any]):
    """Two versions; by default the newest and the one before it."""

    before = serializers.IntegerField(min_value=1, required=False, help_text="number of the earlier version")
    after = serializers.IntegerField(min_value=1, required=False, help_text="number of the later version")


class FactChangeSerializer(serializers.Serializer[changes.Change]):
    path = serializers.CharField(help_text="such as kernel.release or block_devices.vda.scheduler")
    before = serializers.JSONField(allow_null=True, help_text="null: not told")
    after = serializers.JSONField(allow_null=True, help_text="null: not told")
    weighty = serializers.BooleanField(help_text="runs before and after it are not alike")


class FactsDiffSerializer(serializers.Serializer[Any]):
    before = serializers.IntegerField(help_text="number of a version")
    after = serializers.IntegerField(help_text="number of a version")
    changes = FactChangeSerializer(many=True)


def _newest(history: QuerySet[Facts]) -> int:
    return history.values_list("number", flat=True).first() or 0


class TroubleSerializer(serializers.ModelSerializer[Trouble]):
    host_name = serializers.CharField(source="host.name", read_only=True)
    keys = serializers.ListField(child=serializers.DictField(), help_text="key, original, ours, found")
    problems = serializers.ListField(child=serializers.CharField(), help_text="what else stands in the way")
    closed_by = serializers.CharField(source="closed_by.username", default=None, allow_null=True)

    class Meta:
        model = Trouble
        fields = [
            *("id", "host", "host_name", "run", "kind", "keys", "problems"),
            *("opened_at", "closed_at", "closed_by", "resolution"),
        ]


class TroubleFilter(filters.FilterSet):  # type: ignore[misc]  # it has no types
    open = filters.BooleanFilter("closed_at", lookup_expr="isnull", help_text="only what nobody has seen to yet")

    class Meta:
        model = Trouble
        fields = ["host", "run", "kind"]


class TroubleViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Trouble]):
    """What runs left on hosts that people should know of: others' values left alone, values that were not put back."""

    queryset = Trouble.objects.select_related("host", "closed_by")
    serializer_class = TroubleSerializer
    filterset_class = TroubleFilter
    ordering_fields = ["opened_at", "closed_at"]
    ordering = ["-opened_at"]
    roles = {"dismiss": Role.OPERATOR}
    of_teams = ("dismiss",)

    @extend_schema(request=None, responses=TroubleSerializer)
    @action(detail=True, methods=["post"])
    def dismiss(self, request: Request, pk: str) -> Response:
        """A conflict was seen. What is dirty goes away when its host is released."""
        trouble = services.dismiss(self.get_object(), by=user_of(request))
        return Response(TroubleSerializer(trouble).data)


class HostFilter(filters.FilterSet):  # type: ignore[misc]  # it has no types
    label = filters.CharFilter(method="with_label", help_text="hosts that carry it")

    class Meta:
        model = Host
        fields = ["name", "state", "level", "team"]

    def with_label(self, hosts: QuerySet[Host], name: str, value: str) -> QuerySet[Host]:
        return hosts.filter(labels__contains=[value])


class HostViewSet(
    PathActions,
    ReservationActions,
    mixins.ListModelMixin,
    mixins.RetrieveModelMixin,
    viewsets.GenericViewSet[Host],
):
    """Database hosts. A new one is reached after its host key was fetched, compared and approved."""

    queryset = Host.objects.all()
    serializer_class = HostSerializer
    filterset_class = HostFilter
    ordering_fields = ["name", "state", "created_at", "last_contact_at"]
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
        body = HostSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        host = services.add_host(by=user_of(request), **body.validated_data)
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
        """Ask the host for its key now. It is offered, not trusted."""
        return Response(HostKeySerializer(services.fetch_host_key(self.get_object(), by=user_of(request))).data)

    @extend_schema(request=FingerprintSerializer, responses=HostKeySerializer)
    @action(detail=True, methods=["post"], url_path="approve-host-key")
    def approve_host_key(self, request: Request, pk: str) -> Response:
        """Trust the offered key with this fingerprint, after it was compared out of band."""
        body = FingerprintSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        key = services.approve_host_key(self.get_object(), body.validated_data["fingerprint"], by=user_of(request))
        return Response(HostKeySerializer(key).data)

    @extend_schema(request=None, responses={202: HostDetailSerializer})
    @action(detail=True, methods=["post"])
    def check(self, request: Request, pk: str) -> Response:
        """Have the host's facts read soon; `check_requested_at` is null again when that is done."""
        host = self.get_object()
        services.request_check(host, by=user_of(request))
        return self._answer(host, status.HTTP_202_ACCEPTED)

    @extend_schema(request=None, responses=HostDetailSerializer)
    @action(detail=True, methods=["post"])
    def release(self, request: Request, pk: str) -> Response:
        """Take a host out of quarantine, after someone looked."""
        host = self.get_object()
        services.release_host(host, by=user_of(request))
        return self._answer(host)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Only one that nothing refers to."""
        services.remove_host(self.get_object(), by=user_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(request=None, responses=RestoredSerializer)
    @action(detail=True, methods=["post"])
    def restore(self, request: Request, pk: str) -> Response:
        """Put back what runs left that died; tells what was done. Takes nothing out of quarantine."""
        recovered = services.restore_host(self.get_object(), by=user_of(request))
        return Response(RestoredSerializer({"recovered": recovered}).data)

    @extend_schema(request=None, responses=PathsSerializer)
    @action(detail=True, methods=["post"], url_path="install-units")
    def install_units(self, request: Request, pk: str) -> Response:
        """Have systemd supervise the runs of this host: level root, where systemd is PID 1."""
        return Response({"paths": services.install_units(self.get_object(), by=user_of(request))})

    @extend_schema(request=None, responses=PathsSerializer)
    @action(detail=True, methods=["post"], url_path="uninstall-units")
    def uninstall_units(self, request: Request, pk: str) -> Response:
        """Remove the units from the host; refused while a run is under way."""
        return Response({"paths": services.uninstall_units(self.get_object(), by=user_of(request))})

    @extend_schema(responses=ClusterSerializer(many=True), filters=False)
    @action(detail=True, filterset_class=None, ordering_fields=[], pagination_class=None)
    def clusters(self, request: Request, pk: str) -> Response:
        """PostgreSQL clusters that are on the host already, and what is allowed with them."""
        return self._clusters(self.get_object())

    def _clusters(self, host: Host) -> Response:
        return Response(ClusterSerializer(consents.clusters(host, host.facts), many=True).data)

    def _consent(self, act: Callable[..., None], request: Request) -> Response:
        host, body = self.get_object(), ConsentSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        act(host, body.validated_data["data_dir"], body.validated_data["may"], by=user_of(request))
        return self._clusters(host)

    @extend_schema(request=ConsentSerializer, responses=ClusterSerializer(many=True))
    @action(detail=True, methods=["post"], url_path="allow-cluster", pagination_class=None)
    def allow_cluster(self, request: Request, pk: str) -> Response:
        """Allow runs to restart a cluster, or to disturb its clients."""
        return self._consent(consents.allow, request)

    @extend_schema(request=ConsentSerializer, responses=ClusterSerializer(many=True))
    @action(detail=True, methods=["post"], url_path="forbid-cluster", pagination_class=None)
    def forbid_cluster(self, request: Request, pk: str) -> Response:
        """Take that back; runs that wait and were planned on it fail when they would begin."""
        return self._consent(consents.withdraw, request)

    @extend_schema(
        parameters=[OpenApiParameter("number", OpenApiTypes.INT, description="an earlier set; the newest by default")],
        responses=FactsSerializer,
    )
    @action(detail=True, filterset_class=None)
    def facts(self, request: Request, pk: str) -> Response:
        """What the agent found: processors, NUMA nodes, memory, tools, PostgreSQL installations."""
        history = self.get_object().facts_history.order_by("-number")
        number = request.query_params.get("number")
        if number is not None:
            wanted = serializers.IntegerField(min_value=1).run_validation(number)
            return Response(FactsSerializer(get_object_or_404(history, number=wanted)).data)
        return Response(FactsSerializer(get_object_or_404(history[:1])).data)

    @extend_schema(parameters=[FactsPairSerializer], responses=FactsDiffSerializer)
    @action(detail=True, url_path="facts/diff", filterset_class=None)
    def facts_diff(self, request: Request, pk: str) -> Response:
        """What differs between two versions of the facts; free memory and its like is left out."""
        pair = FactsPairSerializer(data=request.query_params)
        pair.is_valid(raise_exception=True)
        history = self.get_object().facts_history.order_by("-number")
        after = get_object_or_404(history, number=pair.validated_data.get("after", _newest(history)))
        before = get_object_or_404(history, number=pair.validated_data.get("before", max(1, after.number - 1)))
        found = changes.between(before.data, after.data)
        told = {"before": before.number, "after": after.number, "changes": found}
        return Response(FactsDiffSerializer(told).data)

    @extend_schema(responses=FactsRowSerializer(many=True), filters=False)
    @action(detail=True, url_path="facts/history", filterset_class=None, ordering_fields=[])
    def facts_history(self, request: Request, pk: str) -> Response:
        """Each time the facts changed, newest first."""
        return paged(self, self.get_object().facts_history.order_by("-number").defer("data"), FactsRowSerializer)
