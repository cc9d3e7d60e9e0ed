"""Decisions and comments on them."""

from __future__ import annotations

from typing import Any, ClassVar

import django_filters as filters
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from agents.wire.protocol import digest
from apps.accounts.models import Role, Scope
from apps.accounts.services import user_of
from apps.campaigns.models import Campaign
from apps.decisions import services
from apps.decisions.configuration_drift import comparison, report
from apps.decisions.evidence import replay
from apps.decisions.models import Comment, Decision, DecisionQuerySet, Event, Review, Standing
from apps.decisions.validity import confirmation
from apps.hosts.models import Host
from apps.tuning.api import TextRenderer
from apps.tuning.exports import FORMATS
from apps.web.pages import attachment
from apps.web.renamed_fields import with_earlier_names
from apps.web.rest import body_of, paged, query_of
from apps.web.visible_keys import VisibleKeyField


class CommentSerializer(serializers.ModelSerializer[Comment]):
    author = serializers.CharField(source="author.username", read_only=True)

    class Meta:
        model = Comment
        fields = ["id", "author", "text", "dissent", "created_at"]
        read_only_fields = ["created_at"]


class DecisionRowSerializer(serializers.ModelSerializer[Decision]):
    hosts = serializers.PrimaryKeyRelatedField(
        many=True, queryset=Host.objects.all(), required=False, help_text="ids; default: the hosts of the campaign"
    )
    labels = serializers.ListField(
        child=serializers.CharField(max_length=63),
        required=False,
        help_text="also applies to every host with one of these labels",
    )
    settings = serializers.DictField(read_only=True, help_text="what the chosen level sets")
    accepted_by = serializers.CharField(source="accepted_by.username", default=None, read_only=True, allow_null=True)
    author = serializers.CharField(source="author.username", read_only=True)
    supersedes = VisibleKeyField(
        Decision,
        queryset=Decision.objects.all(),
        required=False,
        help_text="id of the decision that this one replaces",
    )

    class Meta:
        model = Decision
        fields = [
            *("id", "title", *Decision.WRITTEN, "status", "campaign", "level", "settings"),
            *("hosts", "labels", "postgresql_from", "postgresql_to", "kernel_from", "kernel_to", "evidence_digest"),
            *("supersedes", "team", "author", "accepted_by", "created_at"),
        ]
        read_only_fields = ["status", "evidence_digest", "created_at"]
        extra_kwargs: ClassVar[dict[str, Any]] = {"question": {"required": False}}


@with_earlier_names(words="text")
class ReviewSerializer(serializers.ModelSerializer[Review]):
    class Meta:
        model = Review
        fields = ["campaign", "verdict", "text", "reviewed_at"]
        read_only_fields = fields


@with_earlier_names(words="text")
class DecisionEventSerializer(serializers.ModelSerializer[Event]):
    by = serializers.CharField(source="by.username", default=None, allow_null=True, help_text="null: the server itself")
    host = serializers.CharField(source="host.name", default=None, allow_null=True)

    class Meta:
        model = Event
        fields = ["at", "kind", "by", "host", "campaign", "text"]
        read_only_fields = fields


@with_earlier_names(words="text")
class ReasonSerializer(serializers.Serializer[Any]):
    """A fact that has changed since the decision."""

    fact = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)
    text = serializers.CharField(source="words")


class StandingSerializer(serializers.ModelSerializer[Standing]):
    host = serializers.CharField(source="host.name")
    conditions = serializers.DictField(
        help_text="kernel, postgresql, cpu, cpus, nodes, memory_kb: the facts that the decision depends on"
    )
    reasons = ReasonSerializer(many=True)
    campaign = VisibleKeyField(Campaign, read_only=True, help_text="the confirming campaign")

    class Meta:
        model = Standing
        fields = ["host", "conditions", "reasons", "stale_since", "campaign"]
        read_only_fields = fields


class ConfirmSerializer(serializers.Serializer[Any]):
    start = serializers.BooleanField(default=False, help_text="start it immediately; otherwise it stays a draft")


class ConfirmingSerializer(serializers.Serializer[Any]):
    campaign = serializers.UUIDField()
    state = serializers.CharField()


@with_earlier_names(found="actual")
class DriftRowSerializer(serializers.Serializer[Any]):
    setting = serializers.CharField()
    key = serializers.CharField(help_text="a kernel file, a parameter or a program")
    decided = serializers.CharField()
    actual = serializers.CharField(source="found", allow_null=True)
    state = serializers.CharField(help_text=f"{comparison.SAME}, {comparison.DIFFERS} or {comparison.UNKNOWN}")
    why = serializers.CharField(help_text="unknown, or the time of the reading if that is older than `at`")
    cluster = serializers.CharField(help_text="the cluster of the parameter; empty if it is not a PostgreSQL parameter")


@with_earlier_names(asked="queried")
class DriftSerializer(serializers.Serializer[Any]):
    host = serializers.CharField(source="host.name")
    state = serializers.CharField(help_text="of all its values")
    at = serializers.DateTimeField(allow_null=True, help_text="when its values were read; null: never")
    queried = serializers.BooleanField(
        source="asked", help_text="true: read from the host now; false: from its stored facts"
    )
    rows = DriftRowSerializer(many=True)


class AskDriftSerializer(serializers.Serializer[Any]):
    host = serializers.PrimaryKeyRelatedField(queryset=Host.objects.all(), help_text="id of a host in the scope")


class DecidedFileSerializer(serializers.Serializer[Any]):
    host = serializers.PrimaryKeyRelatedField(queryset=Host.objects.all(), help_text="id of a host that was checked")
    file = serializers.ChoiceField(choices=list(FORMATS), help_text="which kind of file")


class RenewSerializer(serializers.Serializer[Any]):
    review_on = serializers.DateField(required=False, allow_null=True, help_text="review date; null: none")


class ReplayedSerializer(serializers.Serializer[Any]):
    label = serializers.CharField(help_text="of the level")  # type: ignore[assignment]  # the field
    verdict = serializers.CharField(help_text="in the frozen evidence")
    again = serializers.CharField(help_text="in the current results")
    relative_percent = serializers.FloatField(allow_null=True)
    again_percent = serializers.FloatField(allow_null=True)
    same = serializers.BooleanField()


class ReplaySerializer(serializers.Serializer[Any]):
    intact = serializers.BooleanField(help_text="whether the frozen evidence still matches its digest")
    altered = serializers.ListField(
        child=serializers.UUIDField(), help_text="runs in the evidence whose figures have changed"
    )
    levels = ReplayedSerializer(many=True)


class DecisionSerializer(DecisionRowSerializer):
    standings = StandingSerializer(
        many=True, read_only=True, help_text="for each host, whether the decision still holds"
    )
    reviews = ReviewSerializer(many=True, read_only=True, help_text="verdicts of newer campaigns, oldest first")
    evidence = serializers.DictField(read_only=True, help_text="the results when the decision was written")

    class Meta(DecisionRowSerializer.Meta):
        fields = [*DecisionRowSerializer.Meta.fields, "standings", "reviews", "evidence"]


class DecisionFilter(filters.FilterSet):  # type: ignore[misc]  # it has no types
    campaign = filters.UUIDFilter("campaign_id")
    host = filters.NumberFilter(method="of_host", help_text="id of a host in the scope")
    setting = filters.CharFilter(
        method="of_setting", help_text="settings that the decision sets, such as postgresql.shared_buffers"
    )
    stale = filters.BooleanFilter(method="that_went", help_text="a host in the scope changed")

    class Meta:
        model = Decision
        fields = ["status", "team"]

    def of_host(self, decisions: DecisionQuerySet, name: str, key: int) -> DecisionQuerySet:
        host = Host.objects.filter(pk=key).first()
        return decisions.about(host) if host else decisions.none()

    def of_setting(self, decisions: DecisionQuerySet, name: str, value: str) -> DecisionQuerySet:
        return decisions.filter(names__contains=[value])

    def that_went(self, decisions: DecisionQuerySet, name: str, value: bool) -> DecisionQuerySet:
        went = Standing.objects.filter(decision=OuterRef("pk"), stale_since__isnull=False)
        return decisions.filter(Exists(went) if value else ~Exists(went))


class DecisionViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Decision]):
    """Decisions with their reasons and evidence. The text never changes; a later decision can supersede it."""

    queryset = Decision.objects.select_related("author", "accepted_by").prefetch_related("hosts")
    filterset_class = DecisionFilter
    ordering_fields = ["title", "status", "created_at", "review_on"]
    ordering = ["-created_at"]
    scope = Scope.CAMPAIGNS
    roles = {
        "create": Role.TUNER,
        "accept": Role.TUNER,
        "reject": Role.TUNER,
        "withdraw": Role.TUNER,
        "renew": Role.TUNER,
        "confirm": Role.OPERATOR,
        "ask_drift": Role.OPERATOR,
        "comment": Role.OPERATOR,
    }
    of_teams = tuple(roles)

    def get_queryset(self) -> QuerySet[Decision]:
        decisions = super().get_queryset()
        return decisions.defer("evidence") if self.action == "list" else decisions

    def get_serializer_class(self) -> type[serializers.BaseSerializer[Any]]:
        return DecisionRowSerializer if self.action == "list" else DecisionSerializer

    @extend_schema(responses={201: DecisionSerializer})
    def create(self, request: Request) -> Response:
        decision = services.write_decision(by=user_of(request), **body_of(request, DecisionSerializer))
        return Response(DecisionSerializer(decision).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=None, responses=DecisionSerializer)
    @action(detail=True, methods=["post"])
    def accept(self, request: Request, pk: str) -> Response:
        """Accept a proposed decision."""
        return Response(DecisionSerializer(services.accept_decision(self.get_object(), by=user_of(request))).data)

    @extend_schema(request=None, responses=DecisionSerializer)
    @action(detail=True, methods=["post"])
    def reject(self, request: Request, pk: str) -> Response:
        """Reject a proposed decision."""
        return Response(DecisionSerializer(services.reject_decision(self.get_object(), by=user_of(request))).data)

    @extend_schema(request=None, responses=DecisionSerializer)
    @action(detail=True, methods=["post"])
    def withdraw(self, request: Request, pk: str) -> Response:
        """Withdraw a proposed decision. Only its author may do this."""
        return Response(DecisionSerializer(services.withdraw_decision(self.get_object(), by=user_of(request))).data)

    @extend_schema(request=RenewSerializer, responses=DecisionSerializer)
    @action(detail=True, methods=["post"])
    def renew(self, request: Request, pk: str) -> Response:
        """Renew the decision: it was reviewed and still holds."""
        day = body_of(request, RenewSerializer).get("review_on")
        return Response(DecisionSerializer(services.renew_decision(self.get_object(), day, by=user_of(request))).data)

    @extend_schema(request=ConfirmSerializer, responses={201: ConfirmingSerializer})
    @action(detail=True, methods=["post"])
    def confirm(self, request: Request, pk: str) -> Response:
        """Plan a confirming campaign: the same comparison on stale hosts, with enough runs for its effect."""
        body = body_of(request, ConfirmSerializer)
        campaign = confirmation.confirm_decision(self.get_object(), by=user_of(request), **body)
        confirming = ConfirmingSerializer({"campaign": campaign.pk, "state": campaign.state})
        return Response(confirming.data, status=status.HTTP_201_CREATED)

    @extend_schema(responses=DriftSerializer(many=True), filters=False)
    @action(detail=True, filterset_class=None, ordering_fields=[], pagination_class=None)
    def drift(self, request: Request, pk: str) -> Response:
        """Hosts in the scope whose known values differ from the decision."""
        return Response(DriftSerializer(report.host_drifts(self.get_object()), many=True).data)

    @extend_schema(request=AskDriftSerializer, responses=DriftSerializer)
    @drift.mapping.post
    def ask_drift(self, request: Request, pk: str) -> Response:
        """Query a host for its present values. This changes nothing on the host."""
        body = body_of(request, AskDriftSerializer)
        host_drift = report.ask(self.get_object(), body["host"], by=user_of(request))
        return Response(DriftSerializer(host_drift).data)

    @extend_schema(parameters=[DecidedFileSerializer], responses={(200, "text/plain"): OpenApiTypes.STR}, filters=False)
    @action(detail=True, filterset_class=None, renderer_classes=[JSONRenderer, TextRenderer])
    def export(self, request: Request, pk: str) -> HttpResponse:
        """The decided settings as a file to install by hand. Settings that the format does not support are comments."""
        choice = query_of(request, DecidedFileSerializer)
        return attachment(*services.export(self.get_object(), choice["host"], choice["file"]))

    @extend_schema(responses=ReplaySerializer, filters=False)
    @action(detail=True, filterset_class=None)
    def replay(self, request: Request, pk: str) -> Response:
        """The frozen runs, evaluated with the current statistics."""
        decision = self.get_object()
        outcome = {
            "intact": digest(decision.evidence) == decision.evidence_digest,
            "altered": replay.altered(decision.evidence),
            "levels": replay.replay(decision.evidence),
        }
        return Response(ReplaySerializer(outcome).data)

    @extend_schema(responses=DecisionEventSerializer(many=True), filters=False)
    @action(detail=True, ordering_fields=[])
    def events(self, request: Request, pk: str) -> Response:
        """The history of the decision, oldest first."""
        events = self.get_object().events.select_related("by", "host").order_by("at", "pk")
        return paged(self, events, DecisionEventSerializer)

    @extend_schema(responses=CommentSerializer(many=True), filters=False)
    @action(detail=True, ordering_fields=[])
    def comments(self, request: Request, pk: str) -> Response:
        """Oldest first."""
        comments = self.get_object().comments.select_related("author").order_by("created_at", "pk")
        return paged(self, comments, CommentSerializer)

    @extend_schema(request=CommentSerializer, responses={201: CommentSerializer})
    @comments.mapping.post
    def comment(self, request: Request, pk: str) -> Response:
        """Add a comment, or dissent."""
        body = body_of(request, CommentSerializer)
        added = services.comment(self.get_object(), by=user_of(request), **body)
        return Response(CommentSerializer(added).data, status=status.HTTP_201_CREATED)
