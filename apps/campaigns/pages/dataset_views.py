"""Pages of data sets: the list, one data set with its copies, the form, and the buttons to prepare or remove a copy."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path
from django.views.decorators.http import require_POST

from agents.datasets import DATASETS
from apps.accounts.models import Role
from apps.accounts.models.walls import count_visible
from apps.accounts.services import user_of
from apps.campaigns.library import datasets, preparing
from apps.campaigns.models import Campaign, DataCopy, DataSet, DataUse
from apps.campaigns.pages.dataset_forms import ABOUT_RESETS, DataSetForm, PrepareForm
from apps.campaigns.pages.forms import newest_datasets
from apps.web.pages import attempt, blame, needs, of_team, page, spoken
from common.errors import PlanError, RoleError

SHOWN_USES = 50


@needs(Role.VIEWER)
def dataset_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    rows = newest_datasets().select_related("author").annotate(lives=count_visible(DataSet, "copies"))
    copies = DataCopy.objects.select_related("host", "dataset", "made_by").annotate(
        used=count_visible(DataCopy, "uses")
    )
    context = {
        "datasets": of_team(request, rows.filter(name__icontains=query) if query else rows),
        "copies": copies.filter(Q(dataset__name__icontains=query)) if query else copies,
        "q": query,
        "kinds": DATASETS,
    }
    return page(request, "campaigns/datasets/list.html", context)


@needs(Role.VIEWER)
def dataset_detail(request: HttpRequest, name: str) -> HttpResponse:
    form = PrepareForm(by=user_of(request))
    return page(request, "campaigns/datasets/detail.html", _about(request, name) | {"form": form})


def _about(request: HttpRequest, name: str) -> dict[str, Any]:
    revisions = list(
        DataSet.objects.filter(name=name)
        .select_related("author", "team")
        .annotate(uses=count_visible(DataSet, "campaigns"))
    )
    if not revisions:
        raise Http404(name)
    number = request.GET.get("r") or str(revisions[0].revision)
    shown = next((revision for revision in revisions if str(revision.revision) == number), None)
    if shown is None:
        raise Http404(f"{name} has no revision {number}")
    copies = list(shown.copies.select_related("host", "made_by").annotate(used=count_visible(DataCopy, "uses")))
    uses = DataUse.objects.filter(run__campaign__dataset=shown).select_related("run__campaign", "copy__host")
    under_way = Campaign.objects.filter(dataset=shown, kind=Campaign.Kind.PREPARATION, state=Campaign.State.RUNNING)
    return {
        "revisions": revisions,
        "shown": shown,
        "kind": DATASETS[shown.kind],
        "about_reset": ABOUT_RESETS[shown.reset],
        "copies": copies,
        "steps": list(dict.fromkeys(step for copy in copies for step, _ in copy.seconds)),
        "uses": uses.order_by("-run__started_at")[:SHOWN_USES],
        "under_way": under_way.select_related("host"),
    }


@needs(Role.TUNER, somewhere=True)
def dataset_add(request: HttpRequest) -> HttpResponse:
    """Save a data set. `?kind=` selects its kind, `?from=` copies an existing one."""
    base = newest_datasets().filter(name=request.GET.get("from", "")).first()
    kind = base.kind if base else request.GET.get("kind", "pgbench")
    if kind not in DATASETS:
        raise Http404(f"{kind} is not one of {', '.join(DATASETS)}")
    initial = {key: getattr(base, key) for key in ("name", "description", "reset", "team")} if base else {}
    form = DataSetForm(request.POST or None, kind=kind, options=base.options if base else None, initial=initial)
    form.offer_teams(user_of(request))
    if request.method == "POST" and form.is_valid():
        fields = form.cleaned_data
        details = {"reset": fields["reset"], "description": fields["description"], "team": fields.get("team")}
        try:
            saved = datasets.save_dataset(fields["name"], kind, form.options(), by=user_of(request), **details)
        except PlanError as error:
            blame(form, error)
        else:
            messages.success(request, f"{saved} is saved.")
            return redirect("dataset_detail", saved.name)
    context = {"kind": DATASETS[kind], "kinds": DATASETS, "base": base}
    return page(request, "campaigns/datasets/form.html", context, form)


@require_POST
@needs(Role.OPERATOR, somewhere=True)
def dataset_prepare(request: HttpRequest, name: str, revision: int) -> HttpResponse:
    dataset = get_object_or_404(DataSet, name=name, revision=revision)
    form = PrepareForm(request.POST, by=user_of(request))
    if form.is_valid():
        options = {"target": form.target_request(), "profile": form.cleaned_data["profile"]}
        try:
            campaign = preparing.prepare(dataset, form.host(), by=user_of(request), **options)
        except RoleError:
            raise
        except PlanError as error:
            form.add_error(None, spoken(error))
        else:
            messages.success(request, "The preparation is queued on the host. This page follows it.")
            return redirect("run_detail", campaign.runs.get().pk)
    return page(request, "campaigns/datasets/detail.html", _about(request, name), form)


@require_POST
@needs(Role.OPERATOR, somewhere=True)
def copy_remove(request: HttpRequest, pk: int) -> HttpResponse:
    copy = get_object_or_404(DataCopy.objects.select_related("host", "dataset"), pk=pk)
    done = f"The removal is queued on {copy.host}; the database is dropped when it runs."
    attempt(request, lambda: preparing.remove(copy, by=user_of(request)), done)
    return redirect("dataset_list")


urlpatterns = [
    path("datasets/", dataset_list, name="dataset_list"),
    path("datasets/add/", dataset_add, name="dataset_add"),
    path("datasets/copies/<int:pk>/remove/", copy_remove, name="dataset_copy_remove"),
    path("datasets/<str:name>/", dataset_detail, name="dataset_detail"),
    path("datasets/<str:name>/<int:revision>/prepare/", dataset_prepare, name="dataset_prepare"),
]
