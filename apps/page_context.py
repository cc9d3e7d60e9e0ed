"""Template variables of every page."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest

# First word of a URL's name -> the entry of the main navigation to which its page belongs.
SECTIONS = {
    "home": "home",
    "dashboard": "dashboard",
    "pin": "dashboard",
    "host": "host_list",
    "identity": "host_list",
    "profile": "profile_list",
    "setting": "profile_list",
    "workload": "workload_list",
    "twin": "workload_list",
    "dataset": "dataset_list",
    "campaign": "campaign_list",
    "run": "campaign_list",
    "schedule": "campaign_list",
    "searches": "campaign_list",
    "import": "campaign_list",
    "decision": "timeline",
    "timeline": "timeline",
    "drift": "timeline",
    "why": "timeline",
}


def version(request: HttpRequest) -> dict[str, str]:
    """Return version and commit, for the footer."""
    return {"server_version": settings.VERSION, "server_commit": settings.COMMIT}


def navigation(request: HttpRequest) -> dict[str, str]:
    """For the header: which entry is the current one."""
    name = request.resolver_match.url_name if request.resolver_match else None
    return {"nav_section": SECTIONS.get((name or "").partition("_")[0], "")}
