"""Pages of workloads, recipes and new campaigns. Results are in apps/results/pages/views.py."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from agents.workloads import WORKLOADS
from apps.accounts.models import Role, User
from apps.accounts.models.walls import count_visible
from apps.accounts.services import user_of
from apps.campaigns import services
from apps.campaigns.design import steps
from apps.campaigns.execution import run_end, schedule
from apps.campaigns.library import scripts, workloads
from apps.campaigns.models import Campaign, Run, Workload
from apps.campaigns.pages import lifecycle_views, list_views, recipe_views
from apps.campaigns.pages.forms import newest_workloads, reachable
from apps.campaigns.pages.new_campaign import Draft
from apps.campaigns.pages.steps_form import ABOUT_ROLES, WorkloadForm, edited, posted_kinds
from apps.hosts.models import Host
from apps.request_values import whole
from apps.web.pages import attempt, needs, of_team, page, spoken
from common.errors import PlanError, ProvingError

SHOWN = 50


@needs(Role.VIEWER)
def workload_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    rows = newest_workloads().select_related("author")
    context = {"workloads": of_team(request, rows.filter(name__icontains=query) if query else rows), "q": query}
    return page(request, "campaigns/workloads/list.html", context)


@needs(Role.VIEWER)
def workload_detail(request: HttpRequest, name: str) -> HttpResponse:
    return _workload_page(request, name, request.GET.get("r", ""), None)


def _workload_page(request: HttpRequest, name: str, revision: str, checked: scripts.Checked | None) -> HttpResponse:
    revisions = list(
        Workload.objects.filter(name=name)
        .select_related("author", "team")
        .annotate(uses=count_visible(Workload, "campaigns"))
    )
    if not revisions:
        raise Http404(name)
    shown = next((each for each in revisions if revision in ("", str(each.revision))), None)
    if shown is None:
        raise Http404(f"{name} has no revision {revision}")
    # By their ids, of which PostgreSQL knows how many campaigns have them: a rare workload is then found by an index.
    campaigns = Campaign.objects.filter(workload__in=revisions)[:20]
    context = {"revisions": revisions, "shown": shown, "campaigns": campaigns}
    has_scripts = any(WORKLOADS[step["kind"]].scripts(step["options"]) for step in shown.steps)
    context |= {"checked": checked, "hosts": reachable(user_of(request)), "has_scripts": has_scripts}
    return page(request, "campaigns/workloads/detail.html", context)


@needs(Role.TUNER, somewhere=True)
def workload_add(request: HttpRequest) -> HttpResponse:
    """Save a workload. `?kind=` selects the first tool, `?from=` copies an existing workload; buttons add and drop
    steps."""
    base = newest_workloads().filter(name=request.GET.get("from", "")).first()
    form = _edited_form(request) if request.method == "POST" else _blank_form(request, base)
    form.offer_teams(user_of(request))
    if form.is_bound and form.is_valid() and "check" in request.POST:
        _show_complaints(request, form)
    elif form.is_bound and form.is_valid():
        fields = form.cleaned_data
        try:
            details: dict[str, Any] = {key: fields.get(key) for key in ("description", "team")}
            saved = workloads.save_workload(fields["name"], form.steps(), **details, by=user_of(request))
        except PlanError as error:
            form.blame(error)
        else:
            messages.success(request, f"{saved} is saved.")
            return redirect("workload_detail", saved.name)
    context = {"kinds": WORKLOADS, "base": base, "about_roles": ABOUT_ROLES, "hosts": reachable(user_of(request))}
    return page(request, "campaigns/workloads/form.html", context, form)


def _show_complaints(request: HttpRequest, form: WorkloadForm) -> None:
    """Check the steps as entered on a host. Nothing is saved."""
    try:
        typed_steps = steps.read(form.steps())
        steps.check(typed_steps)
        checked = scripts.ask_tools(typed_steps, _host(request), by=user_of(request))
    except PlanError as error:
        form.blame(error)
    except ProvingError as error:
        messages.error(request, spoken(error))
    else:
        form.complain(checked.complaints)
        if not checked.complaints:
            messages.success(request, checked.sentence)


def _host(request: HttpRequest) -> Host:
    host_id = whole(request.POST.get("host", ""))
    if host_id is None:
        raise PlanError("host", "no host is chosen", hint="choose the host whose tools check the scripts")
    return get_object_or_404(Host, pk=host_id)


@require_POST
@needs(Role.OPERATOR, somewhere=True)
def workload_check(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the workload with the complaints of a host's tools about its scripts."""
    workload = get_object_or_404(Workload, pk=pk)
    try:
        checked = scripts.ask_tools(workload.steps, _host(request), by=user_of(request))
    except ProvingError as error:
        messages.error(request, spoken(error))
        return redirect(f"{reverse('workload_detail', args=[workload.name])}?r={workload.revision}")
    return _workload_page(request, workload.name, str(workload.revision), checked)


def _blank_form(request: HttpRequest, base: Workload | None) -> WorkloadForm:
    if base:
        return WorkloadForm(None, steps=base.steps, initial=_initial(base))
    kind = request.GET.get("kind", "pgbench")
    if kind not in WORKLOADS:
        raise Http404(f"{kind} is not one of {', '.join(WORKLOADS)}")
    return WorkloadForm(None, steps=steps.single(kind, {}))


def _initial(base: Workload) -> dict[str, Any]:
    return {key: getattr(base, key) for key in ("name", "description", "team")}


def _edited_form(request: HttpRequest) -> WorkloadForm:
    """Return the form as posted. After a button that changes the steps it is not validated."""
    changed = edited(request.POST)
    if changed is None:
        blank = [steps.single(kind, {})[0] for kind in posted_kinds(request.POST)]
        return WorkloadForm(request.POST, steps=blank)
    return WorkloadForm(
        None, steps=changed, initial={key: request.POST.get(key, "") for key in ("name", "description", "team")}
    )


@needs(Role.OPERATOR, somewhere=True)
def campaign_new(request: HttpRequest) -> HttpResponse:
    """Choose a recipe or an empty form, then fill in the form. Adding a row shows it again."""
    if not {"recipe", "scratch", "from"} & request.GET.keys() and request.method == "GET":
        return recipe_views.choice(request, choosing=True)
    draft = Draft(request)
    if request.method == "POST" and "add" in request.POST:
        draft.add_setting(request.POST.get("setting", "") if request.POST["add"] == "setting" else "")
    elif request.method == "POST":
        campaign = draft.create(user_of(request))
        if campaign:
            if "start" in request.POST:
                _start(request, campaign, user_of(request))
            else:
                messages.success(request, "The campaign is a draft: review it, then start it.")
            return redirect("campaign_detail", campaign.pk)
    return page(request, "campaigns/form.html", draft.context(), draft.form)


@require_POST
@needs(Role.OPERATOR, somewhere=True)
def campaign_preview(request: HttpRequest) -> HttpResponse:
    """Show the plan of the form as entered, for htmx while it is filled in. Saves nothing."""
    draft = Draft(request)
    context = {**draft.preview(user_of(request)), "load_defaults": draft.defaults}
    return page(request, "campaigns/_preview.html", context)


@require_POST
@needs(Role.OPERATOR, somewhere=True)
def campaign_action(request: HttpRequest, pk: UUID, action: str) -> HttpResponse:
    campaign, by = get_object_or_404(Campaign, pk=pk), user_of(request)
    if action == "start":
        _start(request, campaign, by)
    elif action == "cancel":
        done = "Campaign cancelled. Stopping the active run and restoring its host."
        attempt(request, lambda: services.cancel_campaign(campaign, by=by), done)
    elif action == "priority":
        done = "The priority changed."
        attempt(request, lambda: _prioritise(campaign, request.POST.get("priority", ""), by), done)
    elif action in lifecycle_views.ACTIONS:
        lifecycle_views.ACTIONS[action](request, campaign, by)
    else:
        raise Http404(action)
    return redirect("campaign_detail", pk)


def _prioritise(campaign: Campaign, typed: str, by: User) -> None:
    try:
        priority = int(typed)
    except ValueError as error:
        hint = "accepted: -100 to 100; the highest starts first"
        raise PlanError("priority", f"{typed!r:.20} is not a number", hint=hint) from error
    services.set_priority(campaign, priority, by=by)


@needs(Role.VIEWER)
def host_queue(request: HttpRequest, name: str) -> HttpResponse:
    """Show the queue on a host's page. Loaded by htmx, because the page itself belongs to an app that knows no
    campaigns."""
    host = get_object_or_404(Host, name=name)
    return page(request, "campaigns/_queue.html", {"queue": schedule.schedule(host, timezone.now())})


def _start(request: HttpRequest, campaign: Campaign, by: User) -> None:
    unchecked: list[str] = []
    done = "Started: its runs are queued."
    attempt(request, lambda: unchecked.append(services.start_campaign(campaign, by=by)), done)
    for warning in filter(None, unchecked):
        messages.warning(request, warning)


@require_POST
@needs(Role.OPERATOR, somewhere=True)
def run_action(request: HttpRequest, pk: UUID, action: str) -> HttpResponse:
    run, by = get_object_or_404(Run, pk=pk), user_of(request)
    if action == "give-up":
        done = "Run given up. Its hosts are quarantined."
        attempt(request, lambda: run_end.give_up_run(run, by=by), done)
    elif action == "cancel":
        done = "Run cancelled." if run.state == Run.State.QUEUED else "Stopping the run and restoring its host."
        attempt(request, lambda: services.cancel_run(run, by=by), done)
    else:
        raise Http404(action)
    return redirect("run_detail", pk)


urlpatterns = [
    path("workloads/", workload_list, name="workload_list"),
    path("workloads/add/", workload_add, name="workload_add"),
    path("workloads/<int:pk>/check/", workload_check, name="workload_check"),
    path("workloads/<str:name>/", workload_detail, name="workload_detail"),
    *recipe_views.urlpatterns,
    *list_views.urlpatterns,
    path("campaigns/new/", campaign_new, name="campaign_new"),
    path("campaigns/preview/", campaign_preview, name="campaign_preview"),
    *lifecycle_views.urlpatterns,
    path("campaigns/<uuid:pk>/<slug:action>/", campaign_action, name="campaign_action"),
    path("queues/<str:name>/", host_queue, name="host_queue"),
    path("runs/<uuid:pk>/<slug:action>/", run_action, name="run_action"),
]
