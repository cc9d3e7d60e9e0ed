"""Which requests count among the costly ones that a user has at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import URLPattern, get_resolver

from apps.middleware import turns
from tests.documents.permissions import OPEN, PAGES

# Names of what is answered to GET and does not count: forms, single rows, pages of a list, and streams, of which a
# browser has one for each tab.
CHEAP = {
    *("account", "audit_log", "campaign_extend", "campaign_list", "campaign_live", "campaign_new"),
    *("campaign_rename", "campaign_stream", "channel_add", "channel_detail", "channel_list", "dashboard"),
    *("dataset_add", "dataset_detail", "dataset_list", "decisions_on_host", "home", "host_add", "host_detail"),
    *("host_list", "host_queue", "identity_add", "import_new", "launcher", "passkey_remove", "pin_edit"),
    *("pin_go", "pin_list", "pin_new", "profile_add", "profile_detail", "profile_list", "profile_revise"),
    *("recipe_add", "recipe_file", "recipe_hours", "recipe_list", "run_live", "run_stream", "schedule_add"),
    *("schedule_change", "schedule_list", "searches_add", "searches_list", "second_factor", "setting_list"),
    *("signers", "team_detail", "team_list", "twin_add", "twin_detail", "twin_list", "user_list"),
    *("user_second_factor", "workload_add", "workload_detail", "workload_list"),
    *("api:apitoken-list", "api:artefact-detail", "api:artefact-list", "api:audit", "api:campaign-detail"),
    *("api:campaign-history", "api:campaign-list", "api:channel-detail", "api:channel-list"),
    *("api:datacopy-detail", "api:datacopy-list", "api:dataset-detail", "api:dataset-list"),
    *("api:decision-comments", "api:decision-detail", "api:decision-events", "api:decision-list"),
    *("api:delivery-detail", "api:delivery-list", "api:host-allowed-paths", "api:host-clusters"),
    *("api:host-detail", "api:host-facts", "api:host-facts-diff", "api:host-facts-history", "api:host-list"),
    *("api:host-remote-servers", "api:identity-detail", "api:identity-list", "api:import-list", "api:me"),
    *("api:measurement-detail", "api:measurement-list", "api:on-hosts", "api:palette", "api:pin-detail"),
    *("api:pin-list", "api:profile-detail", "api:profile-diff", "api:profile-list", "api:profile-revisions"),
    *("api:queue", "api:recipe-detail", "api:recipe-file", "api:recipe-list", "api:run-detail", "api:run-list"),
    *("api:runpart-detail", "api:runpart-list", "api:schedule-detail", "api:schedule-list"),
    *("api:schedule-slots", "api:search-list", "api:search-rounds", "api:search-trial-list", "api:series-list"),
    *("api:session-list", "api:setting-detail", "api:setting-list", "api:setting-parameters", "api:team-detail"),
    *("api:team-list", "api:trouble-detail", "api:trouble-list", "api:trustedjob-list", "api:twin-detail"),
    *("api:twin-list", "api:user-detail", "api:user-list", "api:version", "api:workload-detail"),
    "api:workload-list",
}


def routes(patterns: list[Any] | None = None, before: str = "") -> Iterator[tuple[str, Any]]:
    """(name, view) of every address of the server."""
    for each in get_resolver("apps.urls").url_patterns if patterns is None else patterns:
        if isinstance(each, URLPattern):
            yield f"{before}{each.name}", each.callback
        else:
            yield from routes(each.url_patterns, f"{each.namespace}:" if each.namespace else before)


def is_answered_to_get(name: str, view: Any) -> bool:
    if not name.startswith("api:"):
        return any(rule.get for page, rule in PAGES.items() if page.partition(":")[0] == name)
    return "get" in view.actions if getattr(view, "actions", None) else hasattr(view.cls, "get")


def test_each_address_is_declared_as_costly_or_cheap() -> None:
    """Parts of names decided it: files of a part, previews and events were not counted."""
    names = {name for name, view in routes() if name not in OPEN and is_answered_to_get(name, view)}

    assert sorted(names - turns.COSTLY - CHEAP) == [], "add each to COSTLY in apps/middleware/turns.py, or to CHEAP"
    assert names == turns.COSTLY | CHEAP
    assert not turns.COSTLY & CHEAP


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
def test_a_request_that_changes_something_does_not_count(method: str) -> None:
    assert not any(turns._is_costly(method, name) for name in turns.COSTLY)


def test_a_posted_preview_counts() -> None:
    assert turns._is_costly("POST", turns.PREVIEW)
