"""Workloads, recipes, campaigns, runs and their raw output."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import django_filters as filters
from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role, Scope, Team
from apps.accounts.services import user_of
from apps.campaigns import queries, recipes, services
from apps.campaigns.api.lifecycle import LifecycleActions
from apps.campaigns.api.run_serializers import (
    ArtefactSerializer,
    EventQuerySerializer,
    EventsSerializer,
    RunRowSerializer,
    RunSerializer,
)
from apps.campaigns.api.serializers import (
    API_NAMES,
    CampaignRowSerializer,
    CampaignSerializer,
    CheckedSerializer,
    NewCampaignSerializer,
    NewRecipeSerializer,
    NewWorkloadSerializer,
    PreviewSerializer,
    PrioritySerializer,
    RecipeSerializer,
    StartedCampaignSerializer,
    WhereSerializer,
    WorkloadSerializer,
)
from apps.campaigns.design.before_start import previews
from apps.campaigns.execution import nudges, run_end
from apps.campaigns.library import own_recipes, recipe_hosts, scripts, workloads
from apps.campaigns.models import Artefact, Campaign, Run, Workload
from apps.hosts.models import Host
from apps.request_values import whole
from apps.web.pages import attachment
from apps.web.rest import body_of, query_of


class WorkloadViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Workload]):
    """Workloads. Saving under an existing name creates its next revision."""

    queryset = Workload.objects.select_related("author").order_by("name", "-revision")
    serializer_class = WorkloadSerializer
    filterset_fields = ["name", "team"]
    ordering_fields = ["name", "revision", "created_at"]
    scope = Scope.CAMPAIGNS
    roles = {"create": Role.TUNER, "check": Role.OPERATOR}
    of_teams = tuple(roles)

    @extend_schema(request=NewWorkloadSerializer, responses={201: WorkloadSerializer})
    def create(self, request: Request) -> Response:
        fields = body_of(request, NewWorkloadSerializer)
        name, raw_steps = fields.pop("name"), fields.pop("steps")
        workload = workloads.save_workload(name, raw_steps, by=user_of(request), **fields)
        return Response(WorkloadSerializer(workload).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=WhereSerializer, responses=CheckedSerializer)
    @action(detail=True, methods=["post"])
    def check(self, request: Request, pk: str) -> Response:
        """Check the scripts with the tools of a host. Nothing is executed."""
        where = body_of(request, WhereSerializer)
        checked = scripts.ask_tools(self.get_object().steps, by=user_of(request), **where)
        return Response(CheckedSerializer(checked).data)


class FileRenderer(JSONRenderer):
    """Accepts requests for bytes. The file itself is not rendered here, only errors are."""

    media_type = "application/octet-stream"
    format = "bin"


class HostQuerySerializer(serializers.Serializer[Any]):
    host = serializers.PrimaryKeyRelatedField(
        queryset=Host.objects.all(), required=False, help_text="id of the host that the factors are scaled to"
    )


class NamedHostSerializer(serializers.Serializer[Any]):
    host = serializers.PrimaryKeyRelatedField(queryset=Host.objects.all(), help_text="id of a host")


class RecipeViewSet(viewsets.ViewSet):
    """Recipes, which are templates of campaigns: the built-in ones and imported ones."""

    lookup_field = "name"
    lookup_value_regex = "[a-z0-9-]+"
    scope = Scope.CAMPAIGNS
    roles = {"create": Role.TUNER, "destroy": Role.TUNER}

    def _recipe(self, name: str) -> recipes.Recipe:
        recipe = own_recipes.find(name)
        if recipe is None:
            raise NotFound(f"{name} is not a recipe; accepted: {', '.join(own_recipes.catalogue())}")
        return recipe

    def _on_host(self, recipe: recipes.Recipe, request: Request) -> recipes.Recipe:
        host = query_of(request, HostQuerySerializer).get("host")
        return recipe_hosts.on_host(recipe, host) if host else recipe

    @extend_schema(responses=RecipeSerializer(many=True))
    def list(self, request: Request) -> Response:
        return Response(RecipeSerializer(own_recipes.catalogue().values(), many=True).data)

    @extend_schema(parameters=[HostQuerySerializer], responses=RecipeSerializer)
    def retrieve(self, request: Request, name: str) -> Response:
        return Response(RecipeSerializer(self._on_host(self._recipe(name), request)).data)

    @extend_schema(parameters=[NamedHostSerializer], responses=PreviewSerializer)
    @action(detail=True)
    def preview(self, request: Request, name: str) -> Response:
        """The runs that a campaign from this recipe would have on a host, and their estimated duration."""
        query = query_of(request, NamedHostSerializer)
        planned = recipe_hosts.preview(self._recipe(name), query["host"])
        return Response(PreviewSerializer(planned).data)

    @extend_schema(request=NewRecipeSerializer, responses={201: RecipeSerializer})
    def create(self, request: Request) -> Response:
        """Import a recipe. An identical version is accepted again; if a field is invalid, nothing is saved."""
        body = body_of(request, NewRecipeSerializer)
        row = own_recipes.import_recipe(body["yaml"], by=user_of(request))
        recipe = own_recipes.get(row.name, row.version)
        return Response(RecipeSerializer(recipe).data, status=status.HTTP_201_CREATED)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, name: str) -> Response:
        """Withdraw an imported recipe. Campaigns created from it remain. To restore it, import the same text or a
        next version."""
        self._recipe(name)
        own_recipes.withdraw(name, by=user_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class RecipeFileViewSet(viewsets.ViewSet):
    """Recipes as YAML files."""

    renderer_classes = [JSONRenderer, FileRenderer]

    @extend_schema(
        parameters=[OpenApiParameter("version", int, description="version of an imported recipe; default: the newest")],
        responses={(200, "text/plain"): OpenApiTypes.STR},
    )
    def retrieve(self, request: Request, name: str) -> HttpResponse:
        """The YAML of a recipe, including its comments. It can be imported into another instance."""
        text = own_recipes.text_of(name, whole(request.query_params.get("version", "")))
        if text is None:
            raise NotFound(f"{name} is not a recipe, or has no such version")
        return attachment(f"{name}.yaml", text)


class CampaignFilter(filters.FilterSet):  # type: ignore[misc]  # it has no types
    host = filters.NumberFilter("host_id")
    team = filters.ModelChoiceFilter(queryset=Team.objects.all(), method="of_team", help_text="id of one of its hosts")

    archived = filters.BooleanFilter("archived_at", lookup_expr="isnull", exclude=True, help_text="without it, both")

    class Meta:
        model = Campaign
        fields = ["state", "recipe"]

    def of_team(self, campaigns: QuerySet[Campaign], name: str, value: Team) -> QuerySet[Campaign]:
        return campaigns.filter(queries.of_team(value.pk))


class CampaignViewSet(
    LifecycleActions, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Campaign]
):
    """Campaigns: a question, its factors, and the runs planned from them."""

    queryset = Campaign.objects.select_related("host", "workload__author", "dataset", "profile__profile", "created_by")
    filterset_class = CampaignFilter
    ordering_fields = ["name", "state", "created_at", "started_at", "ended_at"]
    ordering = ["-created_at"]
    scope = Scope.CAMPAIGNS
    roles = {
        **dict.fromkeys(("create", "start", "cancel", "priority"), Role.OPERATOR),
        **LifecycleActions.writers,
    }
    of_teams = tuple(roles)
    api_names = API_NAMES

    def get_queryset(self) -> QuerySet[Campaign]:
        if self.action != "list":
            return super().get_queryset()
        return queries.listed("workload__name", "workload__revision").select_related("workload")

    def get_serializer_class(self) -> type[serializers.BaseSerializer[Any]]:
        return CampaignRowSerializer if self.action == "list" else CampaignSerializer

    @extend_schema(request=NewCampaignSerializer, responses={201: CampaignSerializer})
    def create(self, request: Request) -> Response:
        body = body_of(request, NewCampaignSerializer)
        make = services.create_from_recipe if "recipe" in body else services.create_campaign
        campaign = make(by=user_of(request), **body)
        return Response(CampaignSerializer(campaign).data, status=status.HTTP_201_CREATED)

    @extend_schema(responses=PreviewSerializer)
    @action(detail=True)
    def preview(self, request: Request, pk: str) -> Response:
        """The runs that a start would plan now, in order."""
        return Response(PreviewSerializer(previews.preview(self.get_object())).data)

    @extend_schema(request=None, responses=StartedCampaignSerializer)
    @action(detail=True, methods=["post"])
    def start(self, request: Request, pk: str) -> Response:
        """Start a draft: plan its runs, check their scripts on the host, and queue them."""
        campaign = self.get_object()
        unchecked = services.start_campaign(campaign, by=user_of(request))
        return Response({**CampaignSerializer(campaign).data, "unchecked": unchecked})

    @extend_schema(request=PrioritySerializer, responses=CampaignSerializer)
    @action(detail=True, methods=["post"])
    def priority(self, request: Request, pk: str) -> Response:
        """Change its priority in the queues of its hosts, even while it runs."""
        campaign, body = self.get_object(), body_of(request, PrioritySerializer)
        services.set_priority(campaign, body["priority"], by=user_of(request))
        return Response(CampaignSerializer(campaign).data)

    @extend_schema(request=None, responses=CampaignSerializer)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: str) -> Response:
        """Cancel a campaign. Queued runs are dropped; active runs are stopped and their hosts restored."""
        campaign = self.get_object()
        services.cancel_campaign(campaign, by=user_of(request))
        return Response(CampaignSerializer(campaign).data)


class RunFilter(filters.FilterSet):  # type: ignore[misc]  # it has no types
    campaign = filters.UUIDFilter("campaign_id")
    host = filters.NumberFilter("host_id")

    class Meta:
        model = Run
        fields = ["state", "outcome", "block"]


class RunViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Run]):
    """Runs. Each is one combination of levels, measured once."""

    queryset = Run.objects.select_related("host", "facts").defer("facts__data").order_by("campaign_id", "position")
    filterset_class = RunFilter
    ordering_fields = ["position", "block", "started_at", "ended_at"]
    scope = Scope.CAMPAIGNS
    roles = {"cancel": Role.OPERATOR, "give_up": Role.OPERATOR}
    of_teams = ("cancel", "give_up")

    def get_queryset(self) -> QuerySet[Run]:
        if self.action != "list":
            return super().get_queryset()
        return queries.runs_listed(Run.objects.order_by("campaign_id", "position"))

    def get_serializer_class(self) -> type[serializers.BaseSerializer[Any]]:
        return RunRowSerializer if self.action == "list" else RunSerializer

    @extend_schema(request=None, responses=RunSerializer)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: str) -> Response:
        """Cancel this run. Its campaign continues."""
        run = self.get_object()
        services.cancel_run(run, by=user_of(request))
        return Response(RunSerializer(run).data)

    @extend_schema(request=None, responses=RunSerializer)
    @action(detail=True, methods=["post"], url_path="give-up")
    def give_up(self, request: Request, pk: str) -> Response:
        """Give up an active run that its agent does not end. The run fails, and its hosts are quarantined."""
        run = self.get_object()
        run_end.give_up_run(run, by=user_of(request))
        return Response(RunSerializer(run).data)

    @extend_schema(parameters=[EventQuerySerializer], responses=EventsSerializer, filters=False)
    @action(detail=True, pagination_class=None)
    def events(self, request: Request, pk: str) -> Response:
        """The event log of the agent after `after`. Repeat the request with `next_after` until `ended` is true."""
        query = query_of(request, EventQuerySerializer)
        run = self.get_object()
        if run.state != Run.State.ENDED:
            nudges.watch(run.pk)
        return Response(EventsSerializer(queries.following_events(run, **query)).data)


class ArtefactFilter(filters.FilterSet):  # type: ignore[misc]  # it has no types
    run = filters.UUIDFilter("run_id")
    campaign = filters.UUIDFilter("run__campaign_id")

    class Meta:
        model = Artefact
        fields = ["path"]


class ArtefactViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Artefact]):
    """Raw output of the tools."""

    queryset = (
        Artefact.objects.exclude(run=None)
        .defer("content")
        .annotate(fetched=Q(content__isnull=False))
        .order_by("run_id", "path")
    )
    serializer_class = ArtefactSerializer
    filterset_class = ArtefactFilter
    ordering_fields = ["path", "size"]

    @extend_schema(responses={(200, "application/octet-stream"): OpenApiTypes.BINARY})
    @action(detail=True, renderer_classes=[JSONRenderer, FileRenderer])
    def download(self, request: Request, pk: str) -> HttpResponse:
        """The file as an attachment."""
        artefact = self.get_object()
        if artefact.content is None:
            raise NotFound(f"{artefact.path} was not fetched: damaged, or too large ({artefact.size} bytes)")
        answer = HttpResponse(bytes(artefact.content), content_type="application/octet-stream")
        answer["Content-Disposition"] = content_disposition_header(True, PurePosixPath(artefact.path).name)
        answer["X-Content-Type-Options"] = "nosniff"
        return answer
