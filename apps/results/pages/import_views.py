"""Pages of imports: the upload, how it is understood, and its campaign."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path

from apps.accounts.models import Role
from apps.accounts.services import user_of
from apps.results import services
from apps.results.exchange.transfer import check_length, contents
from apps.results.imports.columns import USES
from apps.results.imports.understand import Understood
from apps.results.models import Import
from apps.results.pages.import_forms import ImportForm, columns_of, mapping_of
from apps.web.pages import needs, page, sentence, spoken
from common.errors import PlanError, RoleError

SHOWN_RUNS = 200
SHOWN_NOTES = 100
SHOWN_IMPORTS = 50
SHOWN_FIGURES = 6


@needs(Role.OPERATOR)
def import_new(request: HttpRequest) -> HttpResponse:
    context: dict[str, Any] = {"imports": Import.objects.select_related("campaign", "created_by")[:SHOWN_IMPORTS]}
    if request.method != "POST":
        return page(request, "results/imports/new.html", context)
    try:
        check_length(request)
        import_row, new = services.upload(contents(request.FILES), by=user_of(request))
    except RoleError:
        raise
    except PlanError as error:
        answer = page(request, "results/imports/new.html", context | {"refusal": spoken(error)})
        answer.status_code = 422
        return answer
    if not new:
        messages.info(request, _known(import_row))
    return redirect("import_detail", import_row.pk)


def _known(import_row: Import) -> str:
    became = (
        "and is this campaign. Nothing was changed" if import_row.campaign_id else "and is available here as a draft"
    )
    when = f"{import_row.created_at:%Y-%m-%d %H:%M}"
    return f"The same contents were uploaded on {when} by {import_row.created_by}, {became}."


@needs(Role.OPERATOR)
def import_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show a draft as it is understood now, read it again, or commit it as a campaign."""
    import_row = get_object_or_404(Import, pk=pk)
    if import_row.campaign_id:
        return redirect("campaign_detail", import_row.campaign_id)
    if request.method == "POST" and "discard" in request.POST:
        services.discard(import_row, by=user_of(request))
        messages.success(request, f"{import_row} was deleted.")
        return redirect("import_new")
    refusal = _act(request, import_row) if request.method == "POST" else ""
    if import_row.campaign_id:
        messages.success(request, "Imported. You can chart, compare and cite it like any other campaign.")
        return redirect("campaign_detail", import_row.campaign_id)
    understood = services.preview(import_row)
    form = ImportForm(request.POST if refusal else None, understood, import_row.mapping)
    answer = page(
        request, "results/imports/detail.html", _context(import_row, understood) | {"form": form, "refusal": refusal}
    )
    answer.status_code = 422 if refusal else 200
    return answer


def _act(request: HttpRequest, import_row: Import) -> str:
    """Store the mapping and commit if requested. Returns the error, or ""."""
    by = user_of(request)
    try:
        services.store_mapping(import_row, mapping_of(request.POST), by=by)
        if "commit" in request.POST:
            services.commit(import_row, by=by)
    except RoleError:
        raise
    except ValueError:
        return "Enter the minimum effect as a percentage, such as 2."
    except PlanError as error:
        return sentence(error.subject.replace("_", " ").capitalize(), error)
    return ""


def _context(import_row: Import, understood: Understood) -> dict[str, Any]:
    outcomes = [run.outcome for run in understood.runs]
    return {
        "draft": import_row,
        "understood": understood,
        "columns": columns_of(understood),
        "uses": USES,
        "runs": [_shown(run) for run in understood.runs[:SHOWN_RUNS]],
        "failed": sum(outcome != "ok" for outcome in outcomes),
        "notes": sorted(understood.notes, key=lambda note: note.severity)[:SHOWN_NOTES],
        "files": import_row.files.count(),
    }


def _shown(run: Any) -> dict[str, Any]:
    figures = [figure for step in run.steps.values() for figure in step.figures]
    return {
        "sources": run.sources,
        "cell": ", ".join(run.cell.values()),
        "block": run.block + 1,
        "host": run.host,
        "outcome": run.outcome,
        "kinds": ", ".join(dict.fromkeys(step.kind for step in run.steps.values())),
        "figures": figures[:SHOWN_FIGURES],
        "more": len(figures) - SHOWN_FIGURES,
        "error": run.error,
    }


urlpatterns = [
    path("imports/", import_new, name="import_new"),
    path("imports/<uuid:pk>/", import_detail, name="import_detail"),
]
