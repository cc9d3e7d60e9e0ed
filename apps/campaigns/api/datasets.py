"""Data sets, and the hosts that have copies of them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from agents.datasets import DATASETS, RESETS
from apps.accounts.models import Role, Scope
from apps.accounts.services import user_of
from apps.campaigns.api.serializers import CampaignSerializer, NewTeamField
from apps.campaigns.library import datasets, preparing
from apps.campaigns.models import DataCopy, DataSet
from apps.hosts.models import NAME, Host
from apps.tuning.models import Revision
from apps.web.rest import body_of


class DataSetSerializer(serializers.ModelSerializer[DataSet]):
    options = serializers.DictField()
    author = serializers.CharField(source="author.username", default=None, allow_null=True, read_only=True)

    class Meta:
        model = DataSet
        fields = [
            *("id", "name", "revision", "kind", "options", "reset", "digest", "description", "team", "author"),
            "created_at",
        ]
        read_only_fields = fields


class NewDataSetSerializer(serializers.Serializer[Any]):
    name = serializers.RegexField(NAME.regex, max_length=63, help_text="a known name gets its next revision")
    kind = serializers.ChoiceField(choices=list(DATASETS), default="pgbench", help_text="kind of the data set")
    options = serializers.DictField(required=False, default=dict, help_text="options of its kind")
    reset = serializers.ChoiceField(choices=RESETS, default="auto", help_text="reset policy for runs that write")
    description = serializers.CharField(required=False, allow_blank=True, default="")
    team = NewTeamField()


class PrepareSerializer(serializers.Serializer[Any]):
    host = serializers.PrimaryKeyRelatedField(queryset=Host.objects.all(), help_text="id of a host")
    bin_dir = serializers.CharField(required=False, help_text="version of PostgreSQL; default: the newest")
    profile = serializers.PrimaryKeyRelatedField(
        queryset=Revision.objects.all(), required=False, help_text="id of a profile's revision"
    )


class DataCopySerializer(serializers.ModelSerializer[DataCopy]):
    host = serializers.IntegerField(source="host_id")
    host_name = serializers.CharField(source="host.name")
    dataset = serializers.CharField(allow_null=True, help_text="name and revision, where known")
    recipe = serializers.DictField(help_text="kind and options")
    relations = serializers.DictField(help_text="the largest relations: name -> bytes and rows")
    seconds = serializers.ListField(child=serializers.JSONField(), help_text="[[step, seconds]]")
    made_by = serializers.UUIDField(source="made_by_id", allow_null=True, help_text="the run")

    class Meta:
        model = DataCopy
        fields = [
            *("id", "host", "host_name", "home", "database", "dataset", "recipe", "major", "fingerprint", "state"),
            *("size", "relations", "seconds", "made_by", "made_at", "used_at"),
        ]


class DataSetViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[DataSet]):
    """Data sets: how data is created. Saving under an existing name creates its next revision."""

    queryset = DataSet.objects.select_related("author").order_by("name", "-revision")
    serializer_class = DataSetSerializer
    filterset_fields = ["name", "team"]
    ordering_fields = ["name", "revision", "created_at"]
    scope = Scope.CAMPAIGNS
    roles = {"create": Role.TUNER, "prepare": Role.OPERATOR}
    of_teams = tuple(roles)

    @extend_schema(request=NewDataSetSerializer, responses={201: DataSetSerializer})
    def create(self, request: Request) -> Response:
        dataset = datasets.save_dataset(by=user_of(request), **body_of(request, NewDataSetSerializer))
        return Response(DataSetSerializer(dataset).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=PrepareSerializer, responses={201: CampaignSerializer})
    @action(detail=True, methods=["post"])
    def prepare(self, request: Request, pk: str) -> Response:
        """Prepare the data set on a host for later runs, by a campaign of one run."""
        fields = body_of(request, PrepareSerializer)
        target = {"bin_dir": fields["bin_dir"]} if "bin_dir" in fields else {}
        campaign = preparing.prepare(
            self.get_object(), fields["host"], target=target, profile=fields.get("profile"), by=user_of(request)
        )
        return Response(CampaignSerializer(campaign).data, status=status.HTTP_201_CREATED)


class DataCopyViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[DataCopy]):
    """Copies of data sets on hosts, and their state."""

    queryset = DataCopy.objects.select_related("host", "dataset").order_by("host__name", "database", "pk")
    serializer_class = DataCopySerializer
    filterset_fields = ["host", "state", "dataset"]
    ordering_fields = ["size", "made_at", "used_at"]
    scope = Scope.CAMPAIGNS
    roles = {"remove": Role.OPERATOR}
    of_teams = ("remove",)

    @extend_schema(request=None, responses={201: CampaignSerializer})
    @action(detail=True, methods=["post"])
    def remove(self, request: Request, pk: str) -> Response:
        """Remove the copy from its host, by a campaign of one run."""
        campaign = preparing.remove(self.get_object(), by=user_of(request))
        return Response(CampaignSerializer(campaign).data, status=status.HTTP_201_CREATED)
