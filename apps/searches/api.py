"""The API of searches, their rounds and trials. It calls the same services as the pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role, Scope, Team
from apps.accounts.services import user_of
from apps.campaigns.models import Campaign
from apps.searches import budget, importance, queries, services, space
from apps.searches.models import Round, Search, Trial
from apps.searches.space import Space
from apps.web.rest import body_of, paged

CONSTRAINT = "a limit per item, such as latency_p99 <= 20 ms; a candidate that breaks one is not confirmed"
LINE = "a setting per item, such as work_mem 1MB to 64MB log, or jit on, off"


class SearchSerializer(serializers.ModelSerializer[Search]):
    """A search for better values than those of a campaign's baseline."""

    campaign = serializers.UUIDField(source="campaign_id", help_text="id of the campaign whose baseline is the default")
    host_name = serializers.CharField(source="campaign.host.name")
    metric = serializers.CharField(source="campaign.metric")
    second_metric = serializers.CharField(help_text="second objective; empty for a search with one metric")
    picked = serializers.ListField(child=serializers.IntegerField(), help_text="trials that a user picked to confirm")
    owner = serializers.CharField(source="owner.username", help_text="campaigns run with this user's permissions")
    space = serializers.ListField(child=serializers.CharField(), help_text=LINE)
    earlier_trials = serializers.SerializerMethodField(
        help_text="number of trials of earlier searches that its optimiser learns from"
    )
    earlier_left_out = serializers.DictField(
        child=serializers.IntegerField(), help_text="why other trials of earlier searches are not used -> their number"
    )
    fixed = serializers.DictField(help_text="setting -> value in its own unit, which new candidates have")
    constraints = serializers.ListField(child=serializers.CharField(), help_text=CONSTRAINT)
    allowed_risks = serializers.ListField(child=serializers.CharField())
    spent_runs = serializers.IntegerField(source="spent")
    spent_minutes = serializers.FloatField(help_text="in which runs executed; hosts at the same time count once")
    trials = serializers.IntegerField(source="tried", help_text="number of candidates so far")

    class Meta:
        model = Search
        fields = [
            *("id", "name", "campaign", "host_name", "metric", "second_metric", "owner"),
            *("space", "fixed", "constraints"),
            *("earlier_trials", "earlier_left_out"),
            "allowed_risks",
            *("budget_runs", "budget_minutes", "spent_runs", "spent_minutes", "trials"),
            *("candidates", "blocks", "finalists", "picked", "confirmation_blocks", "seed"),
            *("state", "state_reason", "created_at", "ended_at"),
        ]

    def get_earlier_trials(self, search: Search) -> int:
        return len(search.earlier)


class SearchDetailSerializer(SearchSerializer):
    """A search, with the verdict of its confirmation."""

    remaining_s = serializers.SerializerMethodField(
        help_text="about how many seconds it may still take; null unless it is running"
    )
    confirmation = serializers.SerializerMethodField(
        help_text=(
            "{campaign, findings, constraints, twin}: only its verdicts show a gain; null until the confirmation starts"
        )
    )

    class Meta(SearchSerializer.Meta):
        fields = [*SearchSerializer.Meta.fields, "remaining_s", "confirmation"]

    def get_remaining_s(self, search: Search) -> float | None:
        return budget.of(search).remaining_s if search.state == Search.State.RUNNING else None

    @extend_schema_field(serializers.JSONField())
    def get_confirmation(self, search: Search) -> dict[str, Any] | None:
        newest = queries.confirmation(search)
        if newest is None:
            return None
        limits = [{"level": label} | each.as_dict for label, own in newest.limits.items() for each in own]
        return {
            "campaign": str(newest.campaign.pk),
            "findings": newest.findings,
            "constraints": limits,
            "twin": newest.twin,
        }


class NewSearchSerializer(serializers.Serializer[Any]):
    campaign = serializers.PrimaryKeyRelatedField(
        queryset=Campaign.objects.select_related("host", "workload"), help_text="id of the campaign with the default"
    )
    name = serializers.CharField(max_length=80, help_text="its campaigns have this name and a number")
    second_metric = serializers.CharField(
        max_length=80, required=False, allow_blank=True, help_text="search for the Pareto front of two metrics"
    )
    space = serializers.ListField(child=serializers.CharField(max_length=300), help_text=LINE)
    budget_runs = serializers.IntegerField(
        min_value=1,
        max_value=services.MOST_RUNS,
        required=False,
        help_text="runs in total, including those of the confirmation; required without budget_minutes",
    )
    budget_minutes = serializers.IntegerField(
        min_value=1,
        max_value=services.MOST_MINUTES,
        required=False,
        help_text="minutes of running, including those of the confirmation; the limit that ends first counts",
    )
    constraints = serializers.ListField(
        child=serializers.CharField(max_length=200), required=False, help_text=CONSTRAINT
    )
    allowed_risks = serializers.ListField(
        child=serializers.CharField(max_length=100), required=False, help_text="settings that risk data; admins only"
    )
    warm_start = serializers.BooleanField(
        required=False, help_text="learn from comparable trials of earlier searches; default: false"
    )
    candidates = serializers.IntegerField(required=False, help_text="candidates of a round; default: 4")
    blocks = serializers.IntegerField(required=False, help_text="blocks of a round; default: 1")
    finalists = serializers.IntegerField(required=False, help_text="most candidates to confirm; default: 2")
    confirmation_blocks = serializers.IntegerField(required=False, help_text="blocks of the confirmation; default: 5")
    seed = serializers.IntegerField(required=False, min_value=0, max_value=2**32 - 1, help_text="default: a random one")


class ExtendSearchSerializer(serializers.Serializer[Any]):
    runs = serializers.IntegerField(
        min_value=1, max_value=services.MOST_RUNS, required=False, help_text="runs to add to the budget"
    )
    minutes = serializers.IntegerField(
        min_value=1, max_value=services.MOST_MINUTES, required=False, help_text="minutes to add to the budget"
    )


class ChangeSearchSerializer(serializers.Serializer[Any]):
    add = serializers.ListField(child=serializers.CharField(max_length=300), required=False, help_text=LINE)
    fix = serializers.DictField(
        child=serializers.CharField(max_length=100), required=False, help_text='such as {"work_mem": "16MB"}'
    )
    free = serializers.ListField(
        child=serializers.CharField(max_length=100), required=False, help_text="fixed settings to vary again"
    )


class PickTrialsSerializer(serializers.Serializer[Any]):
    trials = serializers.ListField(
        child=serializers.IntegerField(min_value=1), help_text="their numbers; none: the search chooses"
    )


class RoundSerializer(serializers.ModelSerializer[Round]):
    """A campaign of a search."""

    campaign = serializers.UUIDField(source="campaign_id")

    class Meta:
        model = Round
        fields = ["number", "kind", "state", "campaign"]


class TrialSerializer(serializers.ModelSerializer[Trial]):
    """A candidate and its results so far. The best of many looks better than it is: only the confirmation shows a
    gain."""

    values = serializers.JSONField(help_text="setting -> value in its own unit")
    settings = serializers.SerializerMethodField(help_text='setting -> value with its unit, such as "16MB"')
    checks = serializers.ListField(
        child=serializers.DictField(), help_text="{constraint, value, is_met}: mean of its runs; null if not measured"
    )
    log_ratio = serializers.FloatField(
        allow_null=True, help_text="mean log ratio to the default in the same blocks; above 0 is better"
    )
    low = serializers.FloatField(
        allow_null=True, help_text="95 % confidence interval over all rounds; null below 3 blocks"
    )
    change = serializers.SerializerMethodField(
        help_text="{mean, low, high}: change of the metric to the default in percent, such as -50 for half of it"
    )
    second_log_ratio = serializers.FloatField(allow_null=True, help_text="of the second metric")
    second_change = serializers.SerializerMethodField(help_text="as change, of the second metric; null without one")
    front = serializers.SerializerMethodField(
        help_text=f"{', '.join(queries.FRONT)}; null for a bad trial, and without a second metric"
    )

    class Meta:
        model = Trial
        fields = [
            *("number", "values", "settings", "state", "reason", "checks", "blocks"),
            *("log_ratio", "low", "high", "change"),
            *("second_log_ratio", "second_change", "front"),
        ]

    @extend_schema_field(serializers.DictField(child=serializers.CharField()))
    def get_settings(self, trial: Trial) -> dict[str, str]:
        varied: Space = self.context["varied"]
        return varied.texts(trial.values)

    @extend_schema_field(serializers.DictField(child=serializers.FloatField(allow_null=True)))
    def get_change(self, trial: Trial) -> dict[str, float | None]:
        return _as_change(queries.changes_of(trial.search)(trial)[0])

    @extend_schema_field(serializers.DictField(child=serializers.FloatField(allow_null=True), allow_null=True))
    def get_second_change(self, trial: Trial) -> dict[str, float | None] | None:
        changes = queries.changes_of(trial.search)(trial)
        return _as_change(changes[1]) if len(changes) > 1 else None

    @extend_schema_field(serializers.ChoiceField(choices=queries.FRONT, allow_null=True))
    def get_front(self, trial: Trial) -> str | None:
        ranks: dict[int, str] = self.context.get("ranks", {})
        return ranks.get(trial.number)


def _as_change(figures: queries.Change) -> dict[str, float | None]:
    return dict(zip(("mean", "low", "high"), figures, strict=True))


class SettingImportanceSerializer(serializers.Serializer[Any]):
    """Share of the variance that depends on a setting, alone or together with others."""

    name = serializers.CharField()
    percent = serializers.FloatField(help_text="of the variance of the results, for the values that were tried")
    low = serializers.FloatField(help_text="95 % credible interval")
    high = serializers.FloatField()


class ImportanceSerializer(serializers.Serializer[Any]):
    """How much of the variance of a search's results depends on each setting."""

    trials = serializers.IntegerField(help_text="with a result")
    reason = serializers.CharField(help_text="why there is no answer yet, else empty")
    predicted = serializers.FloatField(
        allow_null=True, help_text="percent of the variance that the settings predict for a trial from the others"
    )
    settings = SettingImportanceSerializer(many=True, help_text="most important first; empty if there is a reason")


class SearchFilter(filters.FilterSet):  # type: ignore[misc]  # it has no types
    host = filters.NumberFilter("campaign__host_id")
    team = filters.ModelChoiceFilter(
        queryset=Team.objects.all(), method="of_team", help_text="id of a team that owns a host of the campaign"
    )

    class Meta:
        model = Search
        fields = ["name", "state", "campaign"]

    def of_team(self, searches: QuerySet[Search], name: str, value: Team) -> QuerySet[Search]:
        return searches.filter(queries.of_team(value.pk))


class SearchesViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Search]):
    """Searches for better values of settings."""

    queryset = Search.objects.all()
    serializer_class = SearchSerializer
    filterset_class = SearchFilter
    ordering_fields = ["name", "created_at"]
    ordering = ["-created_at"]
    scope = Scope.CAMPAIGNS
    roles = dict.fromkeys(("create", "pause", "resume", "stop", "extend", "change", "pick"), Role.OPERATOR)
    of_teams = tuple(roles)

    def get_queryset(self) -> QuerySet[Search]:
        return queries.listed()

    @extend_schema(responses=SearchDetailSerializer)
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """A search, with the verdict of its confirmation."""
        return Response(SearchDetailSerializer(self.get_object()).data)

    @extend_schema(request=NewSearchSerializer, responses={201: SearchDetailSerializer})
    def create(self, request: Request) -> Response:
        """Start a search. Only an admin can allow settings that risk data."""
        search = services.create_search(by=user_of(request), **body_of(request, NewSearchSerializer))
        return Response(self._detail(search.pk), status=status.HTTP_201_CREATED)

    @extend_schema(request=None, responses=SearchDetailSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        """Pause a search. The campaign of its round continues to its end."""
        return self._changed(services.pause_search)

    @extend_schema(request=None, responses=SearchDetailSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        """Resume a paused search. You own it from then on."""
        return self._changed(services.resume_search)

    @extend_schema(request=None, responses=SearchDetailSerializer)
    @action(detail=True, methods=["post"])
    def stop(self, request: Request, pk: str) -> Response:
        """Stop a search without a confirmation. The campaign of its round is cancelled. This cannot be undone."""
        return self._changed(services.stop_search)

    @extend_schema(request=ExtendSearchSerializer, responses=SearchDetailSerializer)
    @action(detail=True, methods=["post"])
    def extend(self, request: Request, pk: str) -> Response:
        """Add runs or minutes to the budget. A finished search continues, and ends with another confirmation."""
        return self._changed(services.extend_search, **body_of(request, ExtendSearchSerializer))

    @extend_schema(request=ChangeSearchSerializer, responses=SearchDetailSerializer)
    @action(detail=True, methods=["post"])
    def change(self, request: Request, pk: str) -> Response:
        """Add settings or fix them at a value, from the next round on."""
        body = ChangeSearchSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        return self._changed(services.change_search, **body.validated_data)

    @extend_schema(request=PickTrialsSerializer, responses=SearchDetailSerializer)
    @action(detail=True, methods=["post"])
    def pick(self, request: Request, pk: str) -> Response:
        """Choose the trials that the confirmation runs. Without any, the search chooses them."""
        return self._changed(services.pick_trials, **body_of(request, PickTrialsSerializer))

    @extend_schema(responses=RoundSerializer(many=True))
    @action(detail=True, filter_backends=[])
    def rounds(self, request: Request, pk: str) -> Response:
        """The campaigns of a search, oldest first."""
        return paged(self, self.get_object().rounds.order_by("number"), RoundSerializer)

    @extend_schema(responses=TrialSerializer(many=True))
    @action(detail=True, filter_backends=[], url_path="trials")
    def trial_list(self, request: Request, pk: str) -> Response:
        """The candidates of a search, oldest first."""
        search = self.get_object()
        shown = {"ranks": queries.front_ranks(search), "varied": space.read(search.space)}
        return paged(self, search.trials.order_by("number"), TrialSerializer, **shown)

    @extend_schema(responses=ImportanceSerializer)
    @action(detail=True, filter_backends=[])
    def importance(self, request: Request, pk: str) -> Response:
        """Which settings matter, by the trials of the search. The first request after a round takes seconds."""
        return Response(ImportanceSerializer(importance.importance_of(self.get_object())).data)

    def _changed(self, change: Callable[..., Any], **fields: Any) -> Response:
        search = self.get_object()
        change(search, by=user_of(self.request), **fields)
        return Response(self._detail(search.pk))

    def _detail(self, key: Any) -> dict[str, Any]:
        return dict(SearchDetailSerializer(queries.listed().get(pk=key)).data)
