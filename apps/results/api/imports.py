"""Imports for scripts: upload, check how the files are understood, commit."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role, Scope
from apps.accounts.services import user_of
from apps.campaigns.api.serializers import CampaignSerializer, FactorSerializer
from apps.campaigns.design import steps
from apps.results import services
from apps.results.exchange.transfer import check_length, contents
from apps.results.imports.understand import DraftRun, Understood
from apps.results.models import Import
from apps.web.renamed_fields import with_earlier_names

SHOWN_RUNS = 1000


class ImportRowSerializer(serializers.ModelSerializer[Import]):
    campaign = serializers.UUIDField(source="campaign_id", allow_null=True, help_text="null while it is a draft")
    created_by = serializers.CharField(source="created_by.username")

    class Meta:
        model = Import
        fields = ["id", "title", "digest", "campaign", "created_by", "created_at"]


class NoteSerializer(serializers.Serializer[Any]):
    severity = serializers.CharField(help_text="error: the import cannot be committed; warning: for information")
    place = serializers.CharField(help_text="file, with line or field")
    message = serializers.CharField()
    hint = serializers.CharField(allow_blank=True, help_text="accepted values")


class FigureSerializer(serializers.Serializer[Any]):
    step = serializers.CharField()
    name = serializers.CharField()
    value = serializers.FloatField()
    unit = serializers.CharField(allow_blank=True)
    better = serializers.CharField(allow_blank=True)
    definition = serializers.CharField(allow_blank=True)


@with_earlier_names(cell="levels")
class FoundRunSerializer(serializers.Serializer[Any]):
    sources = serializers.CharField(help_text="number of files, or of lines of a table")
    levels = serializers.DictField(source="cell", child=serializers.CharField(), help_text="factor -> level")
    block = serializers.IntegerField(help_text="repetition, from 0")
    host = serializers.CharField(allow_blank=True)
    outcome = serializers.CharField()
    error = serializers.JSONField(allow_null=True)
    figures = FigureSerializer(many=True)


class ImportSerializer(ImportRowSerializer):
    """An import, as its files are understood. After the commit, `notes` list what was left out."""

    mapping = serializers.DictField(
        help_text="stated by the user: `pattern`, `columns`, `host`, `name`, `question`, `metric`, `delta`"
    )
    pattern = serializers.CharField(allow_blank=True, help_text="pattern of file names, stated or guessed")
    columns = serializers.DictField(help_text="column -> its use, stated or guessed: see mapping")
    factors = FactorSerializer(many=True)
    metrics = serializers.ListField(
        child=serializers.CharField(), help_text="figures that a campaign from this import can compare"
    )
    notes = NoteSerializer(many=True)
    count = serializers.IntegerField(help_text="number of runs")
    runs = FoundRunSerializer(many=True, help_text=f"the first {SHOWN_RUNS}")

    class Meta(ImportRowSerializer.Meta):
        fields = [
            *ImportRowSerializer.Meta.fields,
            *("mapping", "pattern", "columns", "factors", "metrics", "notes", "count", "runs"),
        ]


def _shown(import_row: Import) -> Any:
    """Return the row, with the interpretation of its files as further attributes."""
    understood = Understood() if import_row.campaign_id else services.preview(import_row)
    interpretation = {
        "pattern": understood.pattern,
        "columns": understood.uses,
        "factors": understood.factors,
        "count": len(understood.runs),
    }
    interpretation |= {
        "metrics": steps.metrics(understood.steps),
        "runs": [_run(run) for run in understood.runs[:SHOWN_RUNS]],
    }
    for name, value in interpretation.items():
        setattr(import_row, name, value)
    if not import_row.campaign_id:
        import_row.notes = [asdict(note) for note in understood.notes]
    return ImportSerializer(import_row).data


def _run(run: DraftRun) -> dict[str, Any]:
    figures = [{"step": name, **asdict(figure)} for name, step in run.steps.items() for figure in step.figures]
    names = ("sources", "cell", "block", "host", "outcome", "error")
    return {name: getattr(run, name) for name in names} | {"figures": figures}


class MappingSerializer(serializers.Serializer[Any]):
    """The interpretation of an import. Missing fields are guessed, or read from the manifest."""

    pattern = serializers.CharField(required=False, help_text="pattern of levels in file names: {policy}-{n}.out")
    columns = serializers.DictField(
        required=False, help_text="column -> {as, name, unit, better, levels}; as: factor, figure, time, ..."
    )
    order = serializers.DictField(required=False, help_text="factor -> its levels, the baseline first")
    host = serializers.CharField(required=False, help_text="a known host, or a new name")
    name = serializers.CharField(required=False)
    question = serializers.CharField(required=False)
    metric = serializers.CharField(required=False)
    delta = serializers.FloatField(required=False, help_text="0.02 is 2 %")


class UploadSerializer(serializers.Serializer[Any]):
    files = serializers.ListField(child=serializers.FileField(), help_text="outputs, tables, or zips of them")


class ImportViewSet(
    mixins.ListModelMixin, mixins.RetrieveModelMixin, mixins.DestroyModelMixin, viewsets.GenericViewSet[Import]
):
    """Imports of old results. The same contents are imported only once."""

    queryset = Import.objects.select_related("created_by").order_by("-created_at")
    ordering_fields = ["created_at", "title"]
    scope = Scope.CAMPAIGNS
    roles = dict.fromkeys(("create", "retrieve", "say", "commit", "destroy"), Role.OPERATOR)

    def get_serializer_class(self) -> type[serializers.BaseSerializer[Any]]:
        return ImportRowSerializer if self.action == "list" else ImportSerializer

    def get_parsers(self) -> list[Any]:
        posted = self.request is not None and self.action_map.get("post") == "create"
        return [MultiPartParser()] if posted else super().get_parsers()

    @extend_schema(
        request={"multipart/form-data": UploadSerializer}, responses={200: ImportSerializer, 201: ImportSerializer}
    )
    def create(self, request: Request) -> Response:
        """Upload files. The status is 200 instead of 201 if the same contents were uploaded before."""
        check_length(request)
        import_row, new = services.upload(contents(request.FILES), by=user_of(request))
        return Response(_shown(import_row), status=status.HTTP_201_CREATED if new else status.HTTP_200_OK)

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return Response(_shown(self.get_object()))

    @extend_schema(request=MappingSerializer, responses=ImportSerializer)
    @action(detail=True, methods=["post"])
    def say(self, request: Request, pk: str) -> Response:
        """Replace the mapping: {pattern, columns, host, name, question, metric, delta}, all of them optional."""
        mapping = request.data if isinstance(request.data, dict) else {"": request.data}
        return Response(_shown(services.store_mapping(self.get_object(), mapping, by=user_of(request))))

    @extend_schema(request=None, responses={200: CampaignSerializer, 201: CampaignSerializer})
    @action(detail=True, methods=["post"])
    def commit(self, request: Request, pk: str) -> Response:
        """Commit an import as a campaign. The status is 200 instead of 201 if it was already committed."""
        import_row = self.get_object()
        known = import_row.campaign_id is not None
        campaign = services.commit(import_row, by=user_of(request))
        return Response(CampaignSerializer(campaign).data, status=status.HTTP_200_OK if known else 201)

    def perform_destroy(self, instance: Import) -> None:
        services.discard(instance, by=user_of(self.request))
