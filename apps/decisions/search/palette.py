"""Destinations for an entered text: pages and actions that the user may open, objects by name, runs by ID. Only
reads (SELECT)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse

from apps.accounts.models import Role, User
from apps.campaigns.models import Run
from apps.decisions.search import full_text
from apps.tuning import parameters

MOST = 20
MOST_SETTINGS = 5
MOST_RUNS = 5
RUN_ID = re.compile(r"[0-9a-f]{4,32}")


@dataclass(frozen=True)
class PaletteEntry:
    """An address with a title. `kind`: page, action, run, setting, search, or a kind of full_text.py."""

    kind: str
    title: str
    path: str
    detail: str = ""


@dataclass(frozen=True)
class _Page:
    """A page that is not an object. `name`: the name of its URL. `role`: the lowest role that may open it, in any
    team; with `anywhere` False on the whole instance."""

    title: str
    name: str
    synonyms: str = ""
    role: Role = Role.VIEWER
    anywhere: bool = True
    kind: str = "page"


def _action(title: str, name: str, role: Role, synonyms: str = "", *, anywhere: bool = True) -> _Page:
    return _Page(title, name, synonyms, role, anywhere, "action")


PAGES = (
    _Page("Home", "home"),
    _Page("Dashboard", "dashboard", "charts"),
    _Page("Hosts", "host_list", "machines servers"),
    _Page("Profiles", "profile_list", "tunings"),
    _Page("Settings", "setting_list", "parameters knobs gucs sysctl"),
    _Page("Workloads", "workload_list", "pgbench fio sysbench"),
    _Page("Data sets", "dataset_list", "scale"),
    _Page("Campaigns", "campaign_list", "benchmarks"),
    _Page("Schedules", "schedule_list", "repeat nightly cron trend"),
    _Page("Value searches", "searches_list", "tune optimise optuna best values"),
    _Page("Recipes", "recipe_list", "templates"),
    _Page("Decisions", "timeline", "history timeline"),
    _Page("Compare", "compare", "difference"),
    _Page("Drift", "drift", "stale decisions"),
    _Page("Why is it set this way?", "why", "reasons"),
    _Page("Dry run", "dry_run", "commands preview"),
    _Page("Search", "search", "find"),
    _Page("Notifications", "channel_list", "channels mail webhook"),
    _Page("Teams", "team_list", "members"),
    _Page("Your account", "account", "tokens password sessions"),
    _Page("Users", "user_list", "people admin", Role.ADMIN, anywhere=False),
    _Page("Audit log", "audit_log", "admin", Role.ADMIN, anywhere=False),
    _action("New campaign", "campaign_new", Role.OPERATOR, "start benchmark"),
    _action("Import results", "import_new", Role.OPERATOR, "upload", anywhere=False),
    _action("Create a profile", "profile_add", Role.TUNER, "new"),
    _action("Create a workload", "workload_add", Role.TUNER, "new"),
    _action("Create a data set", "dataset_add", Role.TUNER, "new"),
    _action("Import a recipe", "recipe_add", Role.TUNER, "new"),
    _action("Add a host", "host_add", Role.ADMIN, "new register", anywhere=False),
)


def find(text: str, user: User) -> list[PaletteEntry]:
    """Return at most MOST places, best first: the exact title, titles that start with the text, titles with words that
    do, the rest.

    Without a text, all pages and actions. The last place is the full-text search."""
    typed = " ".join(text.replace("\0", "").split())[: full_text.LONGEST]
    pages = list(_pages(typed, user))
    if not typed:
        return pages
    matches = [*pages, *_runs(typed), *_objects(typed), *_settings(typed)]
    best = sorted(matches, key=lambda place: _rank(place.title, typed))[: MOST - 1]
    return [
        *best,
        PaletteEntry("search", f"Search everything for “{typed}”", f"{reverse('search')}?{urlencode({'q': typed})}"),
    ]


def _rank(title: str, typed: str) -> int:
    name, text = title.lower(), typed.lower()
    if name == text:
        return 0
    if name.startswith(text):
        return 1
    parts = re.split(r"[\s._/-]+", name)
    return 2 if all(any(part.startswith(word) for part in parts) for word in text.split()) else 3


def _pages(typed: str, user: User) -> Iterator[PaletteEntry]:
    for page in PAGES:
        may = user.may_somewhere(page.role) if page.anywhere else user.may(page.role)
        terms = f"{page.title} {page.synonyms}".lower().split()
        if may and all(any(word.startswith(part) for word in terms) for part in typed.lower().split()):
            yield PaletteEntry(page.kind, page.title, reverse(page.name))


def _settings(typed: str) -> Iterator[PaletteEntry]:
    for each in parameters.matching(parameters.every(), typed)[:MOST_SETTINGS]:
        yield PaletteEntry("setting", each.name, f"{reverse('setting_list')}?{urlencode({'q': each.path})}", each.about)


def _runs(typed: str) -> Iterator[PaletteEntry]:
    """Yield the runs whose ID starts with the text. A range of IDs, so that the index of the primary key is used."""
    begin = typed.lower().replace("-", "")
    if RUN_ID.fullmatch(begin):
        low, high = (UUID(begin.ljust(32, digit)) for digit in "0f")
        rows = Run.objects.filter(pk__gte=low, pk__lte=high).select_related("campaign").order_by("pk")
        for run in rows.only("pk", "state", "position", "campaign__name")[:MOST_RUNS]:
            detail = f"run {run.position + 1} of {run.campaign.name}, {run.state}"
            yield PaletteEntry("run", str(run.pk), reverse("run_detail", args=[run.pk]), detail)


def _objects(typed: str) -> Iterator[PaletteEntry]:
    """Yield the matches of the full-text search, each page once: comments are on the page of their campaign."""
    paths: set[str] = set()
    for hit in full_text.search(typed):
        if hit.path not in paths:
            paths.add(hit.path)
            yield PaletteEntry(hit.kind, hit.title, hit.path)
