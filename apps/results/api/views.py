"""The results of campaigns and runs: tables, measurements and series."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any
from uuid import UUID

import django_filters as filters
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import (
    OpenApiParameter,
    extend_schema,
    extend_schema_field,
    extend_schema_view,
)
from rest_framework import mixins, serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from apps.campaigns.models import Campaign, Run
from apps.results.answers.summary import SummaryTable
from apps.results.answers.table import CampaignTable
from apps.results.models import Measurement, Series
from apps.results.runs import page_content, proof, time_axis
from apps.results.store import samples
from apps.results.store.campaign_cache import CampaignCache
from apps.results.store.series import declared
from apps.web.renamed_fields import with_earlier_names
from apps.web.rest import query_of
from common.verdicts import TONES


class PointSerializer(serializers.Serializer[Any]):
    run = serializers.UUIDField()
    block = serializers.IntegerField()
    position = serializers.IntegerField()
    value = serializers.FloatField()


class ModeSerializer(serializers.Serializer[Any]):
    mean = serializers.FloatField(help_text="geometric")
    runs = serializers.IntegerField()


class LevelRowSerializer(serializers.Serializer[Any]):
    label = serializers.CharField()  # type: ignore[assignment]  # the field, not the attribute
    points = PointSerializer(many=True)
    planned = serializers.IntegerField()
    outcomes = serializers.DictField(
        child=serializers.IntegerField(), help_text="outcome -> number of runs; empty: not ended"
    )
    ok = serializers.IntegerField()
    not_ok = serializers.IntegerField()
    mean = serializers.FloatField(allow_null=True, help_text="geometric mean of the successful runs")
    low = serializers.FloatField(allow_null=True, help_text="95 % CI of the mean; see within_blocks")
    high = serializers.FloatField(allow_null=True)
    relative_percent = serializers.FloatField(allow_null=True, help_text="against the baseline")
    relative_low = serializers.FloatField(allow_null=True)
    relative_high = serializers.FloatField(allow_null=True)
    verdict = serializers.CharField(allow_blank=True)
    preliminary = serializers.BooleanField(help_text="too few runs for a verdict, or the campaign is running")
    sentence = serializers.CharField(allow_blank=True)
    latency_ms = serializers.FloatField(allow_null=True)
    mde_percent = serializers.FloatField(allow_null=True, help_text="minimum detectable effect (80 % power)")
    runs_needed = serializers.IntegerField(
        allow_null=True, help_text="runs of each level that detect the margin with 80 % power"
    )
    method = serializers.CharField(allow_blank=True, help_text="of the comparison with the baseline")
    proven = serializers.IntegerField(help_text="successful runs with all settings in effect")
    proof_lines = serializers.ListField(child=serializers.CharField())
    quartiles = serializers.ListField(
        child=serializers.FloatField(), help_text="of the successful runs: minimum, 25 %, 50 %, 75 %, maximum"
    )
    zeros = serializers.IntegerField(help_text="successful runs that are left out because their figure is 0")
    failed_percent = serializers.FloatField(allow_null=True, help_text="failed transactions, mean of the runs")
    failures = serializers.CharField(
        allow_blank=True, help_text="a sentence if more transactions or runs fail than at the baseline"
    )
    cpu = serializers.CharField(
        allow_blank=True, help_text="a sentence if the verdict is inconclusive, but that on CPU per transaction is not"
    )
    modes = ModeSerializer(many=True, help_text="the lower and the upper of two modes; empty unless there are both")


class HostLevelSerializer(serializers.Serializer[Any]):
    label = serializers.CharField()  # type: ignore[assignment]  # the field, not the attribute
    ok = serializers.IntegerField()
    relative_percent = serializers.FloatField(allow_null=True, help_text="against the baseline on this host")
    relative_low = serializers.FloatField(allow_null=True)
    relative_high = serializers.FloatField(allow_null=True)
    verdict = serializers.CharField(allow_blank=True)
    preliminary = serializers.BooleanField()


class HostAnswerSerializer(serializers.Serializer[Any]):
    host = serializers.IntegerField()
    name = serializers.CharField()
    mean = serializers.FloatField(allow_null=True, help_text="of the baseline")
    levels = HostLevelSerializer(many=True)


class OfHostSerializer(serializers.Serializer[Any]):
    host = serializers.IntegerField(required=False, help_text="one of its hosts; default: all, each as a block")


def _host(request: Request) -> int | None:
    host: int | None = query_of(request, OfHostSerializer).get("host")
    return host


@with_earlier_names(look="interim_analysis", unplanned_look="unplanned_analysis")
class CampaignTableSerializer(serializers.Serializer[CampaignTable]):
    """One row per combination of levels, baseline first; null if the data does not support a figure."""

    metric = serializers.CharField()
    unit = serializers.CharField()
    better = serializers.CharField()
    definition = serializers.CharField(allow_blank=True)
    factor_names = serializers.CharField()
    delta = serializers.FloatField()
    baseline = serializers.CharField()
    levels = LevelRowSerializer(many=True)
    sentence = serializers.CharField()
    method = serializers.CharField(allow_blank=True)
    drift = serializers.DictField(allow_null=True)
    interim_analysis = serializers.DictField(
        allow_null=True,
        help_text="the newest: number, of, blocks, planned, alpha spent of 0.05, nominal_p, comparison (with the "
        "adjusted interval), met",
    )
    look = serializers.SerializerMethodField(help_text="use interim_analysis")
    unplanned_analysis = serializers.CharField(
        allow_blank=True, help_text="why the intervals hold at any number of runs and are wider; empty: as planned"
    )
    overheads = serializers.DictField(
        child=serializers.CharField(),
        help_text="level with a tracer -> cost of each event compared with the level without",
    )
    hosts = HostAnswerSerializer(many=True, help_text="the answer of each host, if there are several")
    disagreement = serializers.CharField(allow_blank=True, help_text="where the overall answer holds for no host")
    within_blocks = serializers.BooleanField(
        help_text="the intervals of means (low, high of a level) include the variation within blocks only"
    )
    noise_floor_percent = serializers.FloatField(
        allow_null=True, help_text="difference of two identical levels that 95 % of campaigns do not exceed"
    )
    modes = serializers.DictField(
        allow_null=True,
        help_text="of runs with two modes: percent (lower against upper one), lower and upper (runs of each)",
    )

    def get_look(self, table: CampaignTable) -> dict[str, Any] | None:
        analysis = table.interim_analysis
        return analysis and {**analysis, "found": analysis["comparison"]}


class ResultsViewSet(viewsets.ViewSet):
    """The results of a campaign, as far as its data supports them."""

    @extend_schema(parameters=[OfHostSerializer], responses=CampaignTableSerializer)
    def retrieve(self, request: Request, campaign: UUID) -> HttpResponse:
        campaign_row = get_object_or_404(Campaign.objects.select_related("workload"), pk=campaign)
        cached = CampaignCache(campaign_row, _host(request)).answer(lambda table: CampaignTableSerializer(table).data)
        return HttpResponse(cached, content_type="application/json")


class JudgementSerializer(serializers.Serializer[Any]):
    """A sentence, as on the page."""

    topic = serializers.CharField(help_text="data, comparison, interaction, main effect, latency, noise, drift ...")
    sentence = serializers.CharField()
    tone = serializers.ChoiceField(list(TONES))
    figures = serializers.DictField(help_text="figures of the sentence; their names include their units")


class JudgementsViewSet(viewsets.ViewSet):
    """The findings of a campaign, by topic, including what the data does not support."""

    @extend_schema(parameters=[OfHostSerializer], responses=JudgementSerializer(many=True))
    def retrieve(self, request: Request, campaign: UUID) -> Response:
        campaign_row = get_object_or_404(Campaign.objects.select_related("workload"), pk=campaign)
        return Response(JudgementSerializer(CampaignCache(campaign_row, _host(request)).judgements(), many=True).data)


class SummaryCellSerializer(serializers.Serializer[Any]):
    level = serializers.CharField()
    n = serializers.IntegerField(help_text="successful runs with this figure")
    mean = serializers.FloatField(allow_null=True, help_text="geometric mean; arithmetic if a value is not above zero")
    low = serializers.FloatField(
        allow_null=True, help_text="95 % CI of the mean; within blocks, if every level ran in each of them"
    )
    high = serializers.FloatField(allow_null=True)


@with_earlier_names(cells="by_level")
class SummaryFigureSerializer(serializers.Serializer[Any]):
    step = serializers.CharField()
    name = serializers.CharField()
    unit = serializers.CharField()
    better = serializers.CharField(allow_blank=True)
    definition = serializers.CharField(allow_blank=True)
    by_level = SummaryCellSerializer(source="cells", many=True, help_text="in the order of the levels")


class SummarySerializer(serializers.Serializer[SummaryTable]):
    """The main figures of every measured step, by level."""

    factor_names = serializers.CharField()
    levels = serializers.ListField(child=serializers.CharField())
    figures = SummaryFigureSerializer(many=True)


class SummaryViewSet(viewsets.ViewSet):
    """The summary of a campaign: the main figures of every step."""

    @extend_schema(parameters=[OfHostSerializer], responses=SummarySerializer)
    def retrieve(self, request: Request, campaign: UUID) -> Response:
        table = CampaignCache(get_object_or_404(Campaign, pk=campaign), _host(request)).summary()
        return Response(SummarySerializer(table).data)


@with_earlier_names(found="actual")
class ProofCheckSerializer(serializers.Serializer[Any]):
    phase = serializers.CharField(help_text="before, during or after the load")
    wanted = serializers.JSONField(source="expected", allow_null=True)
    actual = serializers.JSONField(allow_null=True)
    ok = serializers.BooleanField()
    read_from = serializers.CharField(source="source")  # `source` is reserved in serializers
    evidence = serializers.DictField(help_text="as the agent sent it: per process, per node, rows of pg_settings")


@with_earlier_names(looks="checks")
class SubjectSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="a process, a parameter or a kernel file")
    checks = ProofCheckSerializer(many=True)


class ProvenSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    wanted = serializers.JSONField(source="expected", allow_null=True)
    status = serializers.CharField(help_text="held, drifted, not_in_effect, unproven or inconsistent (data set)")
    sentence = serializers.CharField(allow_blank=True)
    subjects = SubjectSerializer(many=True)


@with_earlier_names(found="actual")
class ChangeSerializer(serializers.Serializer[Any]):
    setting = serializers.CharField()
    key = serializers.CharField()
    original = serializers.JSONField(allow_null=True, help_text="null: there was no such file")
    wanted = serializers.JSONField(
        source="expected", allow_null=True, help_text="null: changed by the kernel together with another value"
    )
    actual = serializers.JSONField(allow_null=True, help_text="read after it was written")
    restored = serializers.JSONField(allow_null=True, help_text="read after it was restored; null before that")
    state = serializers.CharField(
        help_text=(
            "open, put_back (restored), left_alone (changed by another user or program) or not_put_back (not restored)"
        )
    )


class ProofSerializer(serializers.Serializer[proof.ProofReport]):
    """Whether the settings of a run were in effect in each phase, and whether they were restored."""

    status = serializers.CharField(help_text="the worst state of its settings; empty if the run changes none")
    sentence = serializers.CharField()
    settings = ProvenSerializer(many=True)
    changes = ChangeSerializer(many=True)


class ProofViewSet(viewsets.ViewSet):
    """Evidence that the host reported before, during and after a run, and after the restore."""

    @extend_schema(responses=ProofSerializer)
    def retrieve(self, request: Request, run: UUID) -> Response:
        return Response(ProofSerializer(page_content.proof_of(get_object_or_404(Run, pk=run))).data)


class FiniteField(serializers.FloatField):
    """JSON has no word for infinity or nan: null."""

    def to_representation(self, value: Any) -> Any:
        return value if math.isfinite(value) else None


class MeasurementSerializer(serializers.ModelSerializer[Measurement]):
    run = serializers.UUIDField(source="run_id")
    value = FiniteField(allow_null=True, help_text="null if the tool reported no number")

    class Meta:
        model = Measurement
        fields = ["id", "run", "step", "name", "value", "unit", "better", "definition"]


class MeasurementFilter(filters.FilterSet):  # type: ignore[misc]  # it has no types
    run = filters.UUIDFilter("run_id")
    campaign = filters.UUIDFilter("run__campaign_id")

    class Meta:
        model = Measurement
        fields = ["name", "step"]


class MeasurementViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Measurement]):
    """Figures of runs, with unit and better direction."""

    queryset = Measurement.objects.order_by("run__campaign_id", "run__position", "step", "name")
    serializer_class = MeasurementSerializer
    filterset_class = MeasurementFilter
    ordering_fields = ["name", "value"]


class ColumnSerializer(serializers.Serializer[Any]):
    unit = serializers.CharField()
    help = serializers.CharField()
    group = serializers.CharField(help_text="columns of one group share a chart")
    better = serializers.CharField(allow_blank=True, help_text="higher, lower, or empty if neither")
    gauge = serializers.BooleanField(help_text="true: a momentary value; false: a count since the previous sample")
    shown = serializers.BooleanField(help_text="whether its chart is drawn by default")
    heat = serializers.BooleanField(help_text="whether it is a heat map even with few rows")


DeclaredField = serializers.DictField(child=ColumnSerializer(allow_null=True))


class SeriesRowSerializer(serializers.ModelSerializer[Series]):
    run = serializers.UUIDField(source="run_id")

    class Meta:
        model = Series
        fields = ["id", "run", "step", "source", "columns", "samples", "thinned_s"]


class SeriesSerializer(SeriesRowSerializer):
    declared = serializers.SerializerMethodField(help_text="column -> its description; null if it is not declared")
    values = serializers.SerializerMethodField(help_text="column -> samples; null where one is missing")

    class Meta(SeriesRowSerializer.Meta):
        fields = [*SeriesRowSerializer.Meta.fields, "declared", "values"]

    @extend_schema_field(DeclaredField)
    def get_declared(self, series: Series) -> dict[str, dict[str, Any] | None]:
        columns = {name: declared(series.source, name) for name in series.columns if name != "t"}
        return {name: asdict(column) if column else None for name, column in columns.items()}

    @extend_schema_field({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "number"}}})
    def get_values(self, series: Series) -> dict[str, list[float | None]]:
        by_column = samples.values_of(series, *_window(self.context["request"]))
        return {name: [v if math.isfinite(v) else None for v in values.tolist()] for name, values in by_column.items()}


def _window(request: Request) -> tuple[float | None, float | None]:
    try:
        return time_axis.window(request.query_params)
    except ValueError as error:
        raise serializers.ValidationError({"from": [f"{error}; such as ?from=60&to=120.5"]}) from error


WINDOW = [
    OpenApiParameter(
        "from", float, description="only samples from this time on, in seconds since the start of the step"
    ),
    OpenApiParameter("to", float, description="only samples up to this time"),
]


class SeriesFilter(filters.FilterSet):  # type: ignore[misc]  # it has no types
    run = filters.UUIDFilter("run_id")
    campaign = filters.UUIDFilter("run__campaign_id")

    class Meta:
        model = Series
        fields = ["step", "source"]


@extend_schema_view(retrieve=extend_schema(parameters=WINDOW))
class SeriesViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Series]):
    """Samples of one collector during one step. The list has no values; a single series has."""

    queryset = Series.objects.order_by("run__campaign_id", "run__position", "step", "source")
    filterset_class = SeriesFilter
    ordering_fields = ["source", "samples"]

    def get_serializer_class(self) -> type[serializers.BaseSerializer[Any]]:
        return SeriesRowSerializer if self.action == "list" else SeriesSerializer
