"""The addresses of all pages, by the roles that may see them, for tests that visit them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from apps.accounts.models import Role
from apps.accounts.notices.kinds import CHANNELS

TABS = ("chart", "settings", "commands", "log", "artefacts", "provenance")


def _dry_run(team: dict[str, Any]) -> str:
    return f"{reverse('dry_run')}?profile={team['big_profile'].name}&host={team['host'].pk}"


def explored(team: dict[str, Any], **query: str) -> str:
    """A view of the campaign of two factors."""
    return f"{reverse('campaign_explore', args=[team['split'].pk])}?{urlencode(query)}"


def compared(team: dict[str, Any], *labels: str) -> str:
    """Levels of that campaign beside each other."""
    sides = [("of", f"level:{team['split'].pk}:{label}") for label in labels]
    return f"{reverse('compare')}?{urlencode(sides)}"


def compared_campaigns(team: dict[str, Any]) -> str:
    """Two campaigns that have run the same levels."""
    sides = [("of", f"campaign:{team[name].pk}") for name in ("finished", "running")]
    return f"{reverse('compare')}?{urlencode(sides)}"


def _pin(team: dict[str, Any]) -> str:
    path, _, query = explored(team, shape="lines").partition("?")
    return f"{reverse('pin_new', args=['explorer', path[1:]])}?{query}"


def pages(team: dict[str, Any]) -> list[tuple[str, str, Role]]:
    """(a name for the screenshot, address, the least role that may see it)."""
    ok, failed = team["ok_run"].pk, team["failed_run"].pk
    new, run = reverse("campaign_new"), reverse("run_detail", args=[team["imported"].runs.first().pk])
    return [
        ("home", reverse("home"), Role.VIEWER),
        ("hosts", reverse("host_list"), Role.VIEWER),
        ("host", reverse("host_detail", args=[team["host"].name]), Role.VIEWER),
        ("host-new", reverse("host_detail", args=[team["fresh"].name]), Role.VIEWER),
        ("host-quarantined", reverse("host_detail", args=[team["broken"].name]), Role.VIEWER),
        ("host-add", reverse("host_add"), Role.ADMIN),
        ("identity-add", reverse("identity_add"), Role.ADMIN),
        ("profiles", reverse("profile_list"), Role.VIEWER),
        ("profile", reverse("profile_detail", args=[team["profile"].name]) + f"?host={team['host'].pk}", Role.VIEWER),
        ("profile-add", reverse("profile_add"), Role.TUNER),
        ("profile-revise", reverse("profile_revise", args=[team["profile"].name]), Role.TUNER),
        ("settings", reverse("setting_list") + f"?host={team['host'].name}&q=mem", Role.VIEWER),
        ("workloads", reverse("workload_list"), Role.VIEWER),
        ("workload", reverse("workload_detail", args=[team["workload"].name]), Role.VIEWER),
        ("workload-add", reverse("workload_add"), Role.TUNER),
        ("twins", reverse("twin_list"), Role.VIEWER),
        ("twin", reverse("twin_detail", args=[team["twin"].pk]), Role.VIEWER),
        ("twin-add", reverse("twin_add"), Role.TUNER),
        ("datasets", reverse("dataset_list"), Role.VIEWER),
        ("dataset", reverse("dataset_detail", args=[team["dataset"].name]), Role.VIEWER),
        ("dataset-add", reverse("dataset_add"), Role.TUNER),
        ("dataset-revise", reverse("dataset_add") + f"?from={team['dataset'].name}", Role.TUNER),
        ("dataset-sql", reverse("dataset_add") + "?kind=sql", Role.TUNER),
        ("preparation", reverse("campaign_detail", args=[team["prepared"].pk]), Role.VIEWER),
        ("run-prepared", reverse("run_detail", args=[team["prepared_run"].pk]), Role.VIEWER),
        ("run-preparing", reverse("run_detail", args=[team["preparing_run"].pk]), Role.VIEWER),
        ("campaign-active-set", f"{new}?recipe=active-set&host={team['host'].pk}", Role.OPERATOR),
        ("recipes", reverse("recipe_list") + f"?host={team['host'].pk}", Role.VIEWER),
        ("recipe-add", reverse("recipe_add"), Role.TUNER),
        ("recipe-of-campaign", reverse("recipe_add") + f"?campaign={team['finished'].pk}", Role.TUNER),
        ("campaigns", reverse("campaign_list"), Role.VIEWER),
        ("campaigns-sorted", reverse("campaign_list") + "?sort=name", Role.VIEWER),
        ("campaign-rename", reverse("campaign_rename", args=[team["finished"].pk]), Role.OPERATOR),
        ("campaign-edit", f"{new}?from={team['draft'].pk}&replace=1", Role.OPERATOR),
        ("campaign-choose", new, Role.OPERATOR),
        ("campaign-recipe", f"{new}?recipe=cpu-scaling&host={team['host'].pk}", Role.OPERATOR),
        ("campaign-scratch", f"{new}?scratch=1", Role.OPERATOR),
        ("campaign-draft", reverse("campaign_detail", args=[team["draft"].pk]), Role.VIEWER),
        ("campaign-running", reverse("campaign_detail", args=[team["running"].pk]), Role.VIEWER),
        ("campaign-finished", reverse("campaign_detail", args=[team["finished"].pk]), Role.VIEWER),
        ("campaign-storage", reverse("campaign_detail", args=[team["storage"].pk]), Role.VIEWER),
        ("campaign-two-factors", reverse("campaign_detail", args=[team["split"].pk]), Role.VIEWER),
        ("schedules", reverse("schedule_list"), Role.VIEWER),
        ("schedule", reverse("schedule_detail", args=[team["schedule"].pk]), Role.VIEWER),
        ("schedule-add", reverse("schedule_add") + f"?campaign={team['finished'].pk}", Role.OPERATOR),
        ("schedule-change", reverse("schedule_change", args=[team["schedule"].pk]), Role.OPERATOR),
        ("searches", reverse("searches_list"), Role.VIEWER),
        ("search-values", reverse("searches_detail", args=[team["search"].pk]), Role.VIEWER),
        (
            "search-values-add",
            reverse("searches_add") + f"?campaign={team['finished'].pk}&space=tune-oltp",
            Role.OPERATOR,
        ),
        ("explore", reverse("campaign_explore", args=[team["split"].pk]), Role.VIEWER),
        ("explore-heat", explored(team, shape="heat", scale="relative"), Role.VIEWER),
        ("explore-facets", explored(team, x="huge pages", facet="shared_buffers", scale="relative"), Role.VIEWER),
        ("explore-order", explored(team, x="@order", colour="huge pages"), Role.VIEWER),
        ("explore-table", explored(team, view="table"), Role.VIEWER),
        ("compare-none", reverse("compare"), Role.VIEWER),
        ("compare", compared(team, "8GB, off", "8GB, on"), Role.VIEWER),
        ("compare-three", compared(team, "8GB, off", "8GB, on", "16MB, on"), Role.VIEWER),
        ("compare-campaigns", compared_campaigns(team), Role.VIEWER),
        ("compare-table", compared(team, "8GB, off", "8GB, on") + "&view=table", Role.VIEWER),
        ("campaign-table", reverse("campaign_detail", args=[team["finished"].pk]) + "?view=table", Role.VIEWER),
        *((f"run-{tab}", reverse("run_detail", args=[ok]) + f"?tab={tab}", Role.VIEWER) for tab in TABS),
        ("run-conflict", reverse("run_detail", args=[team["conflict_run"].pk]) + "?tab=settings", Role.VIEWER),
        ("run-drifted", reverse("run_detail", args=[team["drifted_run"].pk]) + "?tab=settings", Role.VIEWER),
        ("run-dirty", reverse("run_detail", args=[team["dirty_run"].pk]) + "?tab=settings", Role.VIEWER),
        ("dry-run", reverse("dry_run"), Role.VIEWER),
        ("dry-run-refused", _dry_run(team), Role.VIEWER),
        ("run-table", reverse("run_detail", args=[ok]) + "?view=table", Role.VIEWER),
        ("run-failed", reverse("run_detail", args=[failed]), Role.VIEWER),
        ("run-live", reverse("run_detail", args=[team["live_run"].pk]), Role.VIEWER),
        ("run-queued", reverse("run_detail", args=[team["queued_run"].pk]), Role.VIEWER),
        ("import-new", reverse("import_new"), Role.OPERATOR),
        ("import-draft", reverse("import_detail", args=[team["upload"].pk]), Role.OPERATOR),
        ("campaign-imported", reverse("campaign_detail", args=[team["imported"].pk]), Role.VIEWER),
        *((f"run-imported-{tab}", f"{run}?tab={tab}", Role.VIEWER) for tab in TABS),
        ("host-archive", reverse("host_detail", args=["bench-00"]), Role.VIEWER),
        ("workload-imported", reverse("workload_detail", args=[team["imported"].workload.name]), Role.VIEWER),
        ("dashboard", reverse("dashboard"), Role.VIEWER),
        ("views", reverse("pin_list"), Role.VIEWER),
        ("views-none", reverse("pin_list") + "?q=nothing+of+that+title", Role.VIEWER),
        ("pin-new", _pin(team), Role.OPERATOR),
        ("pin-edit", reverse("pin_edit", args=[team["pins"][0].pk]), Role.OPERATOR),
        ("pin-edit-gone", reverse("pin_edit", args=[team["pins"][4].pk]), Role.OPERATOR),
        ("timeline", reverse("timeline"), Role.VIEWER),
        ("decision", reverse("decision_detail", args=[team["decision"].pk]), Role.VIEWER),
        ("search", reverse("search") + "?q=cpus", Role.VIEWER),
        ("drift", reverse("drift"), Role.VIEWER),
        ("why", reverse("why") + f"?host={team['host'].name}", Role.VIEWER),
        ("why-profile", reverse("why") + f"?profile={team['profile'].name}", Role.VIEWER),
        ("decision-new", reverse("decision_new") + f"?campaign={team['finished'].pk}", Role.TUNER),
        ("account", reverse("account"), Role.VIEWER),
        ("second-factor", reverse("second_factor"), Role.VIEWER),
        ("second-factor-reset", reverse("user_second_factor", args=[team["viewer"].pk]), Role.ADMIN),
        ("users", reverse("user_list"), Role.ADMIN),
        ("teams", reverse("team_list"), Role.VIEWER),
        ("team", reverse("team_detail", args=[team["owners"].pk]), Role.VIEWER),
        ("audit", reverse("audit_log"), Role.ADMIN),
        ("audit-none", reverse("audit_log") + "?person=system&target=nothing+of+that+name", Role.ADMIN),
        ("channels", reverse("channel_list"), Role.VIEWER),
        ("channel", reverse("channel_detail", args=[team["channel"].pk]), Role.ADMIN),
        *_channel_forms(),
    ]


def _channel_forms() -> list[tuple[str, str, Role]]:
    roles = {name: Role.ADMIN if kind.for_admins else Role.VIEWER for name, kind in CHANNELS.items()}
    return [(f"channel-add-{name}", reverse("channel_add", args=[name]), role) for name, role in roles.items()]


def pages_of_fleets(fleets: dict[str, Any]) -> list[tuple[str, str, Role]]:
    """Those of campaigns that take several hosts."""
    each, roles = fleets["on_each"], fleets["with_standby"]
    run = reverse("run_detail", args=[roles.runs.order_by("position")[0].pk])
    return [
        ("campaign-on-each", reverse("campaign_detail", args=[each.pk]), Role.VIEWER),
        ("campaign-on-one", reverse("campaign_detail", args=[each.pk]) + f"?host={each.host.pk}", Role.VIEWER),
        ("campaign-roles", reverse("campaign_detail", args=[roles.pk]), Role.VIEWER),
        ("run-roles", run, Role.VIEWER),
        ("run-roles-hosts", f"{run}?tab=hosts", Role.VIEWER),
        ("run-roles-settings", f"{run}?tab=settings", Role.VIEWER),
    ]
