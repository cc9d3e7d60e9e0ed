"""Every address, app by app."""

from django.urls import include, path

from apps import health

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("api/", include("apps.api_urls")),
]
