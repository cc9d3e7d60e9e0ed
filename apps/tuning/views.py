"""Pages of profiles: the list, one profile with its revisions, forms and dry runs."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models import Count, Max
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.accounts.models.walls import count_visible
from apps.accounts.services import require, user_of
from apps.hosts.models import Host
from apps.tuning import parameters, rules, services
from apps.tuning.exports import FORMATS
from apps.tuning.forms import DryRunForm, ProfileForm, RevisionForm
from apps.tuning.models import Profile, Revision
from apps.web.pages import attachment, blame, needs, of_team, page, spoken
from common.errors import PlanError, ProvingError, RoleError


@needs(Role.VIEWER)
def profile_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    profiles = Profile.objects.annotate(
        count=Count("revisions", distinct=True),
        changed_at=Max("revisions__created_at"),
        campaigns=count_visible(Profile, "revisions__campaigns", distinct=True),
    ).order_by("name")
    rows = of_team(request, profiles.filter(name__icontains=query) if query else profiles)
    return page(request, "tuning/list.html", {"profiles": rows, "q": query})


@needs(Role.VIEWER)
def setting_list(request: HttpRequest) -> HttpResponse:
    """List all parameters that a factor or a profile can set, with present values of the host in ?host=."""
    hosts = list(Host.objects.filter(facts_history__isnull=False).distinct().order_by("name"))
    named, query = request.GET.get("host"), request.GET.get("q", "").strip()
    host = next((each for each in hosts if named in (each.name, str(each.pk))), None)
    if named is None and len(hosts) == 1:
        host = hosts[0]
    matches = parameters.matching(parameters.every(host.facts if host else None), query)
    return page(request, "tuning/settings.html", {"settings": matches, "hosts": hosts, "host": host, "q": query})


@needs(Role.VIEWER)
def profile_detail(request: HttpRequest, name: str) -> HttpResponse:
    profile = get_object_or_404(Profile.objects.select_related("team"), name=name)
    revisions = list(profile.revisions.select_related("author").prefetch_related("campaigns"))
    shown = _revision(revisions, request.GET.get("r"), 0)
    other = _revision(revisions, request.GET.get("against"), revisions.index(shown) + 1 if shown else 0)
    initial = {"profile": profile.name, "r": shown.number if shown else "", "host": request.GET.get("host", "")}
    dry = DryRunForm(initial if initial["host"] else None, initial=initial)
    context = {
        "profile": profile,
        "revisions": revisions,
        "shown": shown,
        "other": other,
        "flat": rules.flatten(shown.settings) if shown else {},
        "differences": rules.diff(other.settings, shown.settings) if shown and other else [],
        "dry": dry,
        **_dry_run(dry),
    }
    return page(request, "tuning/detail.html", context)


def _revision(revisions: list[Revision], number: str | None, default: int) -> Revision | None:
    """Return the revision with this number; without a number the one at index `default`, if there is one."""
    if not number:
        return revisions[default] if default < len(revisions) else None
    revision = next((each for each in revisions if str(each.number) == number), None)
    if revision is None:
        raise Http404(f"revision {number} does not exist")
    return revision


def _dry_run(form: DryRunForm, by: User | None = None) -> dict[str, Any]:
    """Return a dry run by the facts, or with values from the host if the user may contact it."""
    if not form.is_bound or not form.is_valid():
        return {}
    revision, host = form.cleaned_data["revision"], form.cleaned_data["host"]
    shown = {"host": host, "revision": revision, "formats": FORMATS.values(), "now": timezone.now()}
    try:
        preview = services.ask(revision.settings, host, by=by) if by else services.dry_run(revision.settings, host)
    except RoleError:
        raise
    except PlanError as error:
        return shown | {"problem": spoken(error)}
    except ProvingError as error:
        preview = services.dry_run(revision.settings, host)
        shown["unanswered"] = spoken(error)
    return shown | {"preview": preview, "dry_run": preview.run, "lines": "\n".join(preview.run.lines)}


@needs(Role.VIEWER, somewhere=True)
def dry_run(request: HttpRequest) -> HttpResponse:
    """Show what a profile would change on a host. POST queries the host for its present values; neither changes
    anything."""
    ask = request.method == "POST"
    params = request.POST if ask else request.GET
    form = DryRunForm(params if params.get("profile") and params.get("host") else None, initial=params.dict())
    context = {"dry": form, **_dry_run(form, user_of(request) if ask else None)}
    template = "tuning/_dry_run.html" if request.headers.get("HX-Request") else "tuning/dry_run.html"
    return page(request, template, context, form)


@needs(Role.VIEWER)
def profile_export(request: HttpRequest, name: str, kind: str) -> HttpResponse:
    """Download a file to install by hand."""
    form = DryRunForm({"profile": name, "host": request.GET.get("host", ""), "r": request.GET.get("r", "")})
    if kind not in FORMATS or not form.is_valid():
        raise Http404(f"{name} as {kind}: give a format ({', '.join(FORMATS)}) and a host that was checked")
    return attachment(*services.export(form.cleaned_data["revision"], form.cleaned_data["host"], kind))


@needs(Role.TUNER, somewhere=True)
def profile_add(request: HttpRequest) -> HttpResponse:
    form = ProfileForm(request.POST or None).offer_teams(user_of(request))
    if request.method == "POST" and form.is_valid():
        fields = form.cleaned_data
        details: dict[str, Any] = {key: fields.get(key) for key in ("description", "note", "team")}
        try:
            revision = services.create_profile(fields["name"], form.settings(), **details, by=user_of(request))
        except PlanError as error:
            blame(form, error)
        else:
            messages.success(request, f"{revision} is saved.")
            return redirect("profile_detail", revision.profile.name)
    return page(request, "tuning/form.html", {}, form)


@needs(Role.TUNER, somewhere=True)
def profile_revise(request: HttpRequest, name: str) -> HttpResponse:
    profile = get_object_or_404(Profile, name=name)
    require(user_of(request), Role.TUNER, "revise profile", on=profile)
    latest = profile.latest
    form = RevisionForm(request.POST or None, settings=latest.settings if latest else {})
    if request.method == "POST" and form.is_valid():
        try:
            revision = services.revise(profile, form.settings(), note=form.cleaned_data["note"], by=user_of(request))
        except PlanError as error:
            blame(form, error)
        else:
            same = latest is not None and revision.pk == latest.pk
            messages.success(request, f"{revision} already has these values." if same else f"{revision} is saved.")
            return redirect("profile_detail", profile.name)
    return page(request, "tuning/form.html", {"profile": profile, "latest": latest}, form)


urlpatterns = [
    path("settings/", setting_list, name="setting_list"),
    path("profiles/", profile_list, name="profile_list"),
    path("profiles/add/", profile_add, name="profile_add"),
    path("profiles/<str:name>/", profile_detail, name="profile_detail"),
    path("dry-run/", dry_run, name="dry_run"),
    path("profiles/<str:name>/export/<slug:kind>/", profile_export, name="profile_export"),
    path("profiles/<str:name>/revise/", profile_revise, name="profile_revise"),
]
