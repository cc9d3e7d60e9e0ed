"""Repeated runs with the same spec on a host, as JSON."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from apps.hosts.models import Host
from apps.results.answers.history.baselines import Baseline, baselines
from apps.results.api.views import JudgementSerializer


class BaselineRunSerializer(serializers.Serializer[Any]):
    run = serializers.UUIDField()
    at = serializers.DateTimeField(help_text="start of the period")
    value = serializers.FloatField()
    environment = serializers.CharField(help_text="kernel and PostgreSQL at that time")


class BaselineSerializer(serializers.Serializer[Any]):
    """Runs with one spec over time, and the changes of their level."""

    digest = serializers.CharField(help_text="digest of the spec")
    title = serializers.CharField()
    metric = serializers.CharField()
    unit = serializers.CharField(allow_blank=True)
    delta = serializers.FloatField(help_text="the margin of the newest campaign; 0.02 is 2 %")
    points = BaselineRunSerializer(many=True)
    judgements = JudgementSerializer(
        many=True, help_text="the newest run compared with the runs before it, and every change"
    )


def _fields(baseline: Baseline) -> dict[str, Any]:
    columns = zip(baseline.runs, baseline.at, baseline.values, baseline.environments, strict=True)
    names = ("run", "at", "value", "environment")
    return vars(baseline) | {
        "points": [dict(zip(names, row, strict=True)) for row in columns],
        "judgements": baseline.judgements(),
    }


class BaselinesViewSet(viewsets.ViewSet):
    """Repeated campaigns of a host: has its performance changed?"""

    @extend_schema(responses=BaselineSerializer(many=True))
    def list(self, request: Request, host: int) -> Response:
        """Specs that several campaigns ran on this host, most repetitions first."""
        repeated = baselines(get_object_or_404(Host, pk=host))
        return Response(BaselineSerializer(map(_fields, repeated), many=True).data)
