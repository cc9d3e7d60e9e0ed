"""Comparisons of two or more sides as JSON, for example for a pipeline."""

from __future__ import annotations

from typing import Any, cast, get_args

from django.http import QueryDict
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

import stats
from apps.results.answers.changes.of_comparison import comparison_changes
from apps.results.answers.comparison.compare import Compared, read
from apps.results.answers.comparison.sides import KINDS, MOST
from apps.web.renamed_fields import with_earlier_names
from common.verdicts import ComparisonVerdict

ASKED = [
    OpenApiParameter(
        "of",
        str,
        many=True,
        required=True,
        description=f"two to {MOST} items, the baseline first: {', '.join(KINDS.values())}",
    ),
    OpenApiParameter("figure", str, description="step.name; default: the metric of the first item's campaign"),
    OpenApiParameter(
        "delta",
        str,
        description="the margin in percent; default: that of the first campaign; 5 for a p99 that is not its metric",
    ),
    OpenApiParameter("what", str, description="levels that all items have run, as named by `whats`"),
]


class SideSerializer(serializers.Serializer[Any]):
    key = serializers.CharField(help_text="the item as requested")
    kind = serializers.CharField()
    title = serializers.CharField()
    address = serializers.CharField(source="url", help_text="address of its page")
    n = serializers.IntegerField(help_text="successful runs with the figure")
    mean = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True, help_text="95 % CI of the mean; see within_blocks")
    high = serializers.FloatField(allow_null=True)


class ComparisonSerializer(serializers.Serializer[Any]):
    """A side compared with the first side; percentages refer to the first side."""

    a = serializers.CharField(help_text="title of the baseline")
    b = serializers.CharField()
    verdict = serializers.CharField(
        help_text=f"one of {', '.join(get_args(ComparisonVerdict))}; better and worse: the CI lies entirely beyond the "
        "margin"
    )
    worse = serializers.BooleanField(help_text="whether the difference exceeds the margin with 95 % confidence")
    preliminary = serializers.BooleanField()
    sentence = serializers.CharField()
    n_a = serializers.IntegerField()
    n_b = serializers.IntegerField()
    relative_percent = serializers.FloatField()
    relative_low = serializers.FloatField(allow_null=True, help_text="95 % CI")
    relative_high = serializers.FloatField(allow_null=True)
    p = serializers.FloatField(allow_null=True)
    mde_percent = serializers.FloatField(allow_null=True, help_text="minimum detectable effect (80 % power)")
    runs_needed = serializers.IntegerField(
        allow_null=True, help_text="runs of each item that detect the margin with 80 % power"
    )
    method = serializers.CharField()
    twin = serializers.CharField(
        allow_blank=True, help_text="for a verdict that rests on a twin: its badge, such as twin, fidelity 87 %"
    )
    fidelity = serializers.FloatField(
        allow_null=True, help_text="lower fidelity of the two items, 0 to 1; null if neither runs a twin, or unknown"
    )


class UnlikeSerializer(serializers.Serializer[Any]):
    what = serializers.CharField(source="path")
    values = serializers.ListField(child=serializers.CharField(), help_text="values of each item")


@with_earlier_names(words="label")
class SharedSerializer(serializers.Serializer[Any]):
    what = serializers.CharField()
    label = serializers.CharField(help_text="of the level")  # type: ignore[assignment]  # the field, not the attribute
    runs = serializers.IntegerField(help_text="of the item with the fewest runs")


class FigureChangeSerializer(serializers.Serializer[Any]):
    figure = serializers.CharField()
    title = serializers.CharField()
    group = serializers.CharField(help_text="CPU, memory, I/O, WAL, locks and waits ...")
    unit = serializers.CharField(allow_blank=True)
    before = serializers.FloatField(help_text="mean of the first item")
    after = serializers.FloatField()
    is_ratio = serializers.BooleanField(
        help_text="change, low and high are in percent; otherwise in units or percentage points"
    )
    change = serializers.FloatField()
    low = serializers.FloatField(help_text="CI adjusted for the selection")
    high = serializers.FloatField()
    effect = serializers.FloatField(allow_null=True, help_text="in standard deviations of one run")
    q = serializers.FloatField(help_text="p adjusted for all figures and items (Benjamini and Hochberg)")


class SideChangesSerializer(serializers.Serializer[Any]):
    """Figures of one side that differ from the first side, largest effects first. They are associations, not causes."""

    side = serializers.CharField(source="label")
    sentence = serializers.CharField()
    mechanisms = serializers.ListField(
        child=serializers.CharField(), help_text="known mechanisms whose figures moved as expected"
    )
    compared = serializers.IntegerField(help_text="number of figures")
    figures = FigureChangeSerializer(many=True, source="changes")


class PlanChangeSerializer(serializers.Serializer[Any]):
    step = serializers.CharField()
    side = serializers.CharField(source="level")
    sentence = serializers.CharField()
    before = serializers.CharField(help_text="plan of the first item, one node per line")
    after = serializers.CharField()


class ComparedSerializer(serializers.Serializer[Any]):
    """The figures of each side, compared with the first side, and other differences."""

    figure = serializers.CharField()
    unit = serializers.CharField(allow_blank=True)
    better = serializers.CharField(allow_blank=True)
    delta = serializers.FloatField(help_text="a fraction")
    paired = serializers.BooleanField(help_text="within the blocks of one campaign")
    within_blocks = serializers.BooleanField(
        help_text="the intervals of means (low, high) include the variation within blocks only"
    )
    worse = serializers.BooleanField(help_text="whether an item is worse than the first by more than the margin")
    sentence = serializers.CharField(allow_blank=True)
    sides = SideSerializer(many=True)
    comparisons = ComparisonSerializer(many=True, help_text="empty if neither direction is better")
    differences = UnlikeSerializer(many=True, help_text="of settings and options")
    unplanned = UnlikeSerializer(
        many=True, help_text="kernel, versions, hardware: differences that are not part of the design"
    )
    warnings = serializers.ListField(child=serializers.CharField())
    more = serializers.ListField(child=serializers.CharField(), help_text="runs needed for a certain verdict")
    figures = serializers.ListField(child=serializers.CharField(), help_text="other values that can be compared")
    changes = SideChangesSerializer(many=True, help_text="other figures that changed, within one campaign and host")
    plans = PlanChangeSerializer(many=True, help_text="items for which the planner chose another plan")
    what = serializers.CharField(allow_blank=True)
    whats = SharedSerializer(many=True)


def _comparison_fields(compared: Compared, one: stats.Comparison) -> dict[str, Any]:
    fidelity = compared.fidelity(one)
    low, high = one.interval or (None, None)
    names = ("a", "b", "verdict", "preliminary", "n_a", "n_b", "p", "mde_percent", "runs_needed", "method")
    fields = {name: getattr(one, name) for name in names} | {
        "sentence": one.sentence(),
        "worse": one.verdict == "worse",
        "twin": fidelity.badge if fidelity else "",
        "fidelity": fidelity.value if fidelity else None,
    }
    return fields | {"relative_percent": one.ratio_percent, "relative_low": low, "relative_high": high}


def _shown(compared: Compared) -> dict[str, Any]:
    comparisons = [_comparison_fields(compared, comparison) for comparison in compared.comparisons]
    whats = [{"what": what, "label": level_name, "runs": runs} for what, level_name, runs in compared.whats]
    worse = any(comparison["worse"] for comparison in comparisons)
    changes = comparison_changes(compared)
    return {**vars(compared), "sides": compared.arms, "comparisons": comparisons, "whats": whats, "worse": worse} | {
        "sentence": compared.sentence,
        "changes": changes.levels,
        "plans": changes.plans,
    }


class CompareViewSet(viewsets.ViewSet):
    """Compare runs, levels, campaigns, profiles or hosts."""

    @extend_schema(parameters=ASKED, responses=ComparedSerializer)
    def retrieve(self, request: Request) -> Response:
        return Response(ComparedSerializer(_shown(read(cast(QueryDict, request.query_params)))).data)
