"""Every address of the API."""

from django.urls import include, path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.routers import SimpleRouter

from apps.accounts.api import MeViewSet, UserViewSet
from apps.accounts.audit.audit_api import AuditViewSet, SessionViewSet
from apps.accounts.ci.job_api import ExchangeView, TrustedJobViewSet
from apps.accounts.notices.channel_api import ChannelViewSet, DeliveryViewSet
from apps.accounts.team.team_api import TeamViewSet
from apps.accounts.tokens.token_api import TokenViewSet
from apps.campaigns.api.datasets import DataCopyViewSet, DataSetViewSet
from apps.campaigns.api.parts import RunPartViewSet
from apps.campaigns.api.queues import OnHostsViewSet, QueueViewSet
from apps.campaigns.api.schedules import ScheduleViewSet
from apps.campaigns.api.twins import TwinViewSet
from apps.campaigns.api.views import (
    ArtefactViewSet,
    CampaignViewSet,
    RecipeFileViewSet,
    RecipeViewSet,
    RunViewSet,
    WorkloadViewSet,
)
from apps.decisions.api.team import FeedViewSet, PaletteViewSet, SearchViewSet, TimelineViewSet, WhyViewSet
from apps.decisions.api.views import DecisionViewSet
from apps.hosts.api.views import HostViewSet, IdentityViewSet, TroubleViewSet
from apps.monitoring.version_api import VersionViewSet
from apps.results.api.baselines import BaselinesViewSet
from apps.results.api.compare import CompareViewSet
from apps.results.api.exports import CampaignExportViewSet, RunExportViewSet
from apps.results.api.imports import ImportViewSet
from apps.results.api.observed import ObservedViewSet
from apps.results.api.pins import PinViewSet
from apps.results.api.views import (
    JudgementsViewSet,
    MeasurementViewSet,
    ProofViewSet,
    ResultsViewSet,
    SeriesViewSet,
    SummaryViewSet,
)
from apps.searches.api import SearchesViewSet
from apps.tuning.api import ProfileViewSet, SettingViewSet
from apps.web.problems import NotHere

router = SimpleRouter()
router.register("hosts", HostViewSet)
router.register("troubles", TroubleViewSet)
router.register("identities", IdentityViewSet)
router.register("profiles", ProfileViewSet)
router.register("settings", SettingViewSet, basename="setting")
router.register("workloads", WorkloadViewSet)
router.register("datasets", DataSetViewSet)
router.register("datacopies", DataCopyViewSet)
router.register("twins", TwinViewSet)
router.register("recipes", RecipeViewSet, basename="recipe")
router.register("campaigns", CampaignViewSet)
router.register("schedules", ScheduleViewSet)
router.register("searches", SearchesViewSet)
router.register("runs", RunViewSet)
router.register("runparts", RunPartViewSet)
router.register("artefacts", ArtefactViewSet)
router.register("measurements", MeasurementViewSet)
router.register("series", SeriesViewSet)
router.register("imports", ImportViewSet)
router.register("pins", PinViewSet)
router.register("decisions", DecisionViewSet)
router.register("tokens", TokenViewSet)
router.register("ci-jobs", TrustedJobViewSet)
router.register("sessions", SessionViewSet)
router.register("users", UserViewSet)
router.register("teams", TeamViewSet)
router.register("channels", ChannelViewSet)
router.register("deliveries", DeliveryViewSet)

v1 = [
    path("campaigns/<uuid:campaign>/hosts/", OnHostsViewSet.as_view({"get": "list"}), name="on-hosts"),
    path("hosts/<int:host>/queue/", QueueViewSet.as_view({"get": "retrieve"}), name="queue"),
    path("hosts/<int:host>/baselines/", BaselinesViewSet.as_view({"get": "list"}), name="baselines"),
    path("campaigns/<uuid:campaign>/summary/", SummaryViewSet.as_view({"get": "retrieve"}), name="summary"),
    path(
        "campaigns/<uuid:campaign>/export/<str:file>/",
        CampaignExportViewSet.as_view({"get": "retrieve"}),
        name="campaign-export",
    ),
    path("runs/<uuid:run>/export/<str:file>/", RunExportViewSet.as_view({"get": "retrieve"}), name="run-export"),
    path("campaigns/<uuid:campaign>/results/", ResultsViewSet.as_view({"get": "retrieve"}), name="results"),
    path("campaigns/<uuid:campaign>/judgements/", JudgementsViewSet.as_view({"get": "retrieve"}), name="judgements"),
    path("runs/<uuid:run>/observed/", ObservedViewSet.as_view({"get": "retrieve"}), name="observed"),
    path("runs/<uuid:run>/proof/", ProofViewSet.as_view({"get": "retrieve"}), name="proof"),
    path("recipes/<slug:name>.yaml", RecipeFileViewSet.as_view({"get": "retrieve"}), name="recipe-file"),
    path("compare/", CompareViewSet.as_view({"get": "retrieve"}), name="compare"),
    path("audit/", AuditViewSet.as_view({"get": "entries"}), name="audit"),
    path("why/", WhyViewSet.as_view({"get": "retrieve"}), name="why"),
    path("timeline/", TimelineViewSet.as_view({"get": "retrieve"}), name="timeline"),
    path("search/", SearchViewSet.as_view({"get": "retrieve"}), name="search"),
    path("palette/", PaletteViewSet.as_view({"get": "retrieve"}), name="palette"),
    path("feed/", FeedViewSet.as_view({"post": "create", "delete": "destroy"}), name="feed"),
    path("version/", VersionViewSet.as_view({"get": "retrieve"}), name="version"),
    path("ci-jobs/exchange/", ExchangeView.as_view(), name="ci-exchange"),
    path("me/", MeViewSet.as_view({"get": "retrieve"}), name="me"),
    *router.urls,
]

app_name = "api"
urlpatterns = [
    path("v1/", include(v1)),
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
    path("docs/", SpectacularSwaggerSplitView.as_view(url_name="api:schema"), name="docs"),
    re_path("", NotHere.as_view()),
]
