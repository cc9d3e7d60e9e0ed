"""Observations of a run: the cost of its collectors, checkpoints, findings from its samples, fidelity of a twin."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from apps.campaigns.models import Run
from apps.results.api.views import JudgementSerializer
from apps.results.models import Mark
from apps.results.runs import observed, stability
from apps.results.runs.fidelity import ComparedStatement, Fidelity, Figures, fidelity_of
from apps.web.renamed_fields import with_earlier_names


class StatementFiguresSerializer(serializers.Serializer[Figures]):
    """A statement in production, or in the run."""

    calls = serializers.IntegerField()
    calls_share = serializers.FloatField(help_text="of the calls of all statements of the twin, 0 to 1")
    calls_per_s = serializers.FloatField()
    ms = serializers.FloatField(help_text="per call")
    rows = serializers.FloatField(help_text="per call")
    blocks = serializers.FloatField(help_text="shared blocks hit and read, per call")
    temp = serializers.FloatField(help_text="temporary blocks read and written, per call")
    wal_bytes = serializers.FloatField(help_text="per call")


class ComparedStatementSerializer(serializers.Serializer[ComparedStatement]):
    script = serializers.CharField()
    text = serializers.CharField()
    share = serializers.FloatField(help_text="of production's execution time, 0 to 1")
    resemblance = serializers.FloatField(help_text="in share of calls, rows and blocks per call, 0 to 1")
    production = StatementFiguresSerializer()
    twin = StatementFiguresSerializer(allow_null=True, help_text="null if the statement did not run")


class FidelitySerializer(serializers.Serializer[Fidelity]):
    twin = serializers.IntegerField(source="twin.pk", help_text="id of the twin")
    value = serializers.FloatField(help_text="covered x resemblance, 0 to 1")
    covered = serializers.FloatField(help_text="share of production's execution time in statements of the twin, 0 to 1")
    resemblance = serializers.FloatField(help_text="mean over the statements, weighted by production's time, 0 to 1")
    statements = ComparedStatementSerializer(many=True)


class CostSerializer(serializers.Serializer[observed.Cost]):
    step = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]  # the field, not the attribute
    samples = serializers.IntegerField()
    seconds = serializers.FloatField(help_text="duration of the measured step")
    cpu_s = serializers.FloatField(help_text="of the agent")
    apart_s = serializers.FloatField(help_text="CPU time of its helper processes: psql and its backend")
    wall_s = serializers.FloatField(help_text="time that the agent waited")
    cpu_ms_per_sample = serializers.FloatField()
    wall_ms_per_sample = serializers.FloatField()
    cpu_percent = serializers.FloatField(help_text="fraction of one CPU")


class MarkSerializer(serializers.ModelSerializer[Mark]):
    data = serializers.DictField(help_text="buffers, buffers_percent, write_s, sync_s, total_s, distance_kb")  # type: ignore[assignment]

    class Meta:
        model = Mark
        fields = ["step", "kind", "t", "until", "label", "data"]


@with_earlier_names(within="findings")
class ObservedSerializer(serializers.Serializer[Any]):
    """Events during the measurement, findings from the samples, and the cost of the collectors."""

    findings = JudgementSerializer(many=True, help_text="warm-up, trend, stalls and checkpoints, step by step")
    costs = CostSerializer(many=True, help_text="per step and collector; source `all` is the sum of a step")
    marks = MarkSerializer(many=True, help_text="checkpoints, in seconds since the step began")
    fidelity = FidelitySerializer(
        allow_null=True, help_text="if the run is of a twin: its statements compared with production"
    )


class ObservedViewSet(viewsets.ViewSet):
    """Checkpoints of a run and the cost of its collectors. The artefact postgresql.json has PostgreSQL's counters."""

    @extend_schema(responses=ObservedSerializer)
    def retrieve(self, request: Request, run: UUID) -> Response:
        observed_run = get_object_or_404(Run, pk=run)
        observations = {
            "findings": stability.findings(observed_run.step_stabilities.all(), observed_run.measurements.all()),
            "costs": observed.costs_of(observed_run),
            "marks": observed_run.marks.all(),
            "fidelity": fidelity_of(observed_run),
        }
        return Response(ObservedSerializer(observations).data)
