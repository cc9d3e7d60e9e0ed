"""All URLs, by app."""

from django.urls import include, path

from apps.accounts import views as accounts
from apps.accounts.audit import audit_views as audit
from apps.accounts.ci import job_views as ci_jobs
from apps.accounts.identity import oidc_views as oidc
from apps.accounts.notices import channel_views as channels
from apps.accounts.second_factor import factor_views as factors
from apps.accounts.second_factor import passkey_views as passkeys
from apps.accounts.team import people_views as people
from apps.accounts.team import team_views as teams
from apps.accounts.tokens import token_views as tokens
from apps.campaigns.pages import dataset_views as datasets
from apps.campaigns.pages import schedule_views as schedules
from apps.campaigns.pages import twin_views as twins
from apps.campaigns.pages import views as campaigns
from apps.decisions.pages import views as decisions
from apps.hosts.pages import identity_views as identities
from apps.hosts.pages import views as hosts
from apps.middleware import limits
from apps.monitoring import health, metrics
from apps.results.pages import compare_views as compare
from apps.results.pages import explorer_views as explorer
from apps.results.pages import import_views as imports
from apps.results.pages import live_views as live
from apps.results.pages import pin_views as pins
from apps.results.pages import run_views as runs
from apps.results.pages import schedule_views as schedule
from apps.results.pages import spread_views as spreads
from apps.results.pages import views as results
from apps.searches.pages import views as searches
from apps.tuning import views as tuning

handler400, handler500 = limits.bad_request, limits.server_error
urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
    path("api/", include("apps.api_urls")),
    *accounts.urlpatterns,
    *tokens.urlpatterns,
    *ci_jobs.urlpatterns,
    *factors.urlpatterns,
    *passkeys.urlpatterns,
    *oidc.urlpatterns,
    *audit.urlpatterns,
    *people.urlpatterns,
    *teams.urlpatterns,
    *channels.urlpatterns,
    *identities.urlpatterns,
    *hosts.urlpatterns,
    *tuning.urlpatterns,
    # Before campaigns, whose pattern for actions would match these URLs of a run.
    *results.urlpatterns,
    *runs.urlpatterns,
    *schedule.urlpatterns,
    *explorer.urlpatterns,
    *spreads.urlpatterns,
    *compare.urlpatterns,
    *live.urlpatterns,
    *imports.urlpatterns,
    *pins.urlpatterns,
    *schedules.urlpatterns,
    *searches.urlpatterns,
    *campaigns.urlpatterns,
    *datasets.urlpatterns,
    *twins.urlpatterns,
    *decisions.urlpatterns,
]
