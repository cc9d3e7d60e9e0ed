"""Twins of production databases."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role, Scope
from apps.accounts.services import user_of
from apps.campaigns.api.serializers import NewTeamField
from apps.campaigns.models import DataSet, Twin
from apps.campaigns.twins import services
from apps.hosts.models import NAME
from apps.web.rest import body_of


class TwinRowSerializer(serializers.ModelSerializer[Twin]):
    author = serializers.CharField(source="author.username", default=None, allow_null=True, read_only=True)

    class Meta:
        model = Twin
        fields = [
            *("id", "name", "dataset", "workload", "database", "version", "seconds", "factor", "covered", "team"),
            *("author", "created_at"),
        ]
        read_only_fields = fields


class TwinStatementSerializer(serializers.Serializer[Any]):
    queryid = serializers.CharField()
    script = serializers.CharField(help_text="name of its script in the workload; empty if it was left out")
    reason = serializers.CharField(help_text="why it was left out")
    transaction = serializers.CharField(default="", help_text="script of the transaction that it is part of, or empty")
    text = serializers.CharField(help_text="from pg_stat_statements; only the first word if the text may hold values")
    calls = serializers.IntegerField()
    ms = serializers.FloatField(help_text="execution time in production")
    rows = serializers.IntegerField()
    hit = serializers.IntegerField(help_text="shared blocks hit")
    read = serializers.IntegerField(help_text="shared blocks read")
    temp = serializers.IntegerField(help_text="temporary blocks read and written")
    wal_bytes = serializers.IntegerField()
    share = serializers.FloatField(help_text="of the execution time of all statements, 0 to 1")


class TwinSerializer(TwinRowSerializer):
    statements = TwinStatementSerializer(many=True)
    missing = serializers.ListField(child=serializers.CharField())

    class Meta(TwinRowSerializer.Meta):
        fields = [*TwinRowSerializer.Meta.fields, "statements", "missing"]
        read_only_fields = fields


class NewTwinSerializer(serializers.Serializer[Any]):
    """The file of `proving twin capture`, and how its load runs."""

    file = serializers.FileField(help_text="written by proving twin capture")
    name = serializers.RegexField(NAME.regex, max_length=63, help_text="of the data set and the workload")
    factor = serializers.FloatField(
        default=1.0, min_value=services.LEAST, max_value=services.MOST, help_text="rows per row of production"
    )
    clients = serializers.IntegerField(default=8, min_value=1, max_value=10000)
    jobs = serializers.IntegerField(default=2, min_value=1, max_value=1024, help_text="threads of pgbench")
    time_s = serializers.IntegerField(default=60, min_value=1, max_value=86400, help_text="seconds of the load")
    pace = serializers.ChoiceField(
        choices=services.PACES, default="closed", help_text="closed loop, or the call rate of production"
    )
    without = serializers.ListField(
        child=serializers.CharField(max_length=30), default=list, help_text="query ids of statements to leave out"
    )
    transactions = serializers.ListField(
        child=serializers.CharField(max_length=1000),
        default=list,
        help_text="statements of one transaction: query ids, separated by commas, in their order",
    )
    dataset = serializers.PrimaryKeyRelatedField(
        queryset=DataSet.objects.all(),
        required=False,
        help_text="id of existing data, such as a copy of production; default: a new data set with synthetic rows",
    )
    team = NewTeamField()


class TwinViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Twin]):
    """Twins: a data set and a workload made from a captured production database."""

    queryset = Twin.objects.select_related("author").order_by("name", "-created_at", "-pk")
    filterset_fields = ["name", "team", "workload"]
    ordering_fields = ["name", "created_at"]
    scope = Scope.CAMPAIGNS
    roles = {"create": Role.TUNER}
    of_teams = tuple(roles)

    def get_serializer_class(self) -> type[serializers.BaseSerializer[Any]]:
        return TwinRowSerializer if self.action == "list" else TwinSerializer

    def get_parsers(self) -> list[Any]:
        posted = self.request is not None and self.action_map.get("post") == "create"
        return [MultiPartParser()] if posted else super().get_parsers()

    @extend_schema(request={"multipart/form-data": NewTwinSerializer}, responses={201: TwinSerializer})
    def create(self, request: Request) -> Response:
        """Create data set and workload from a captured file. Needs the permission to run commands."""
        fields = body_of(request, NewTwinSerializer)
        load = services.Load(*(fields.pop(name) for name in ("clients", "jobs", "time_s", "pace")))
        raw = fields.pop("file").read()
        fields["transactions"] = [services.ids(each) for each in fields["transactions"]]
        twin = services.create(fields.pop("name"), raw, load=load, by=user_of(request), **fields)
        return Response(TwinSerializer(twin).data, status=status.HTTP_201_CREATED)
