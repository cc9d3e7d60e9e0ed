"""Pages of comparisons: the URL names the sides; the page has their figures and rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import path, reverse
from django.views.decorators.cache import cache_control

from apps.accounts.models import Role
from apps.request_values import whole
from apps.results import charts
from apps.results.answers.changes.of_comparison import comparison_changes
from apps.results.answers.comparison import shared_cells
from apps.results.answers.comparison.compare import Compared, read
from apps.results.answers.comparison.sides import KINDS, LETTERS
from apps.results.answers.interim_analyses import RUNNING
from apps.results.answers.margins import margin_of
from apps.results.exchange import exports
from apps.results.pages.figures import as_json, width_of
from apps.results.runs import side_by_side, time_axis
from apps.web.pages import UNPROCESSABLE, needs, page, spoken
from common.errors import PlanError

TIME = "time"
FIGURES = {"runs": charts.runs_chart, "interval": charts.interval_chart, "ecdf": charts.ecdf_chart}
PLACE_DIGITS = 5
HEAD = ("side", "what", "campaign", "run", "host", "block", "position")


@needs(Role.VIEWER)
def compare_page(request: HttpRequest) -> HttpResponse:
    """Show the comparison. Without sides, show how to choose them; for sides that cannot be compared, the reason."""
    context: dict[str, Any] = {"kinds": KINDS.values(), "as_table": request.GET.get("view") == "table"}
    sides = request.GET.getlist("of")
    if not sides:
        return page(request, "results/compare/page.html", context)
    try:
        compared = read(request.GET)
    except PlanError as error:
        context |= {"refusal": spoken(error), "sides": sides}
        answer = page(request, "results/compare/page.html", context)
        answer.status_code = UNPROCESSABLE
        return answer
    changes = comparison_changes(compared)
    context |= _runs(request, compared)
    context |= {
        "comparison": compared,
        "shared": shared_cells.shared(compared, _start(request)),
        **_addresses(compared),
    }
    context |= {"changes": changes, "first": changes.levels[:1], "others": changes.levels[1:]}
    context |= {"is_running": compared.unplanned_analysis == RUNNING}
    return page(request, "results/compare/page.html", context)


def _runs(request: HttpRequest, compared: Compared) -> dict[str, Any]:
    """Return, for sides of one run each, all figures of the runs, and the URL of their samples on one time axis."""
    keys = _single(compared)
    if not keys:
        return {}
    query = compared.query() | {name: request.GET[name] for name in ("from", "to") if request.GET.get(name)}
    figure = f"{reverse('compare_figure', args=[TIME])}?{urlencode(query, doseq=True)}"
    return {"time_figure": figure, "figure_rows": side_by_side.rows_of(side_by_side.runs_of(keys))}


def _single(compared: Compared) -> list[UUID]:
    return [arm.runs[0].pk for arm in compared.arms] if all(len(arm.runs) == 1 for arm in compared.arms) else []


def _start(request: HttpRequest) -> int:
    """Return the index of the first level in ?levels=; 0 if that is not a number."""
    position = request.GET.get("levels", "")
    return whole(position, PLACE_DIGITS) or 0


def _addresses(compared: Compared) -> dict[str, Any]:
    choices = compared.query()
    query = urlencode(choices, doseq=True)
    name, first = compared.figure.partition(".")[2], compared.arms[0].runs[0].campaign
    figures = {name: f"{reverse('compare_figure', args=[name])}?{query}" for name in FIGURES}
    bounded = [comparison for comparison in compared.comparisons if comparison.interval]
    return {
        "chosen": query,
        "sides_asked": urlencode({name: value for name, value in choices.items() if name != "what"}, doseq=True),
        "margin": "" if compared.delta == margin_of(name, first) else choices["delta"],
        "usual_margin": choices["delta"],
        "runs_figure": figures["runs"],
        "interval_figure": figures["interval"] if bounded else "",
        "ecdf_figure": figures["ecdf"] if min(arm.n for arm in compared.arms) > 1 else "",
        "csv_url": f"{reverse('compare_csv')}?{query}",
        "levels_csv": f"{reverse('compare_levels')}?{query}",
        "letters": list(zip(LETTERS, compared.arms, strict=False)),
        "swapped": urlencode(choices | {"of": choices["of"][::-1]}, doseq=True),
    }


@needs(Role.VIEWER)
@cache_control(no_cache=True)
def compare_figure(request: HttpRequest, name: str) -> HttpResponse:
    """Return the figure, or 422 with the reason if the comparison is not possible."""
    if name not in (*FIGURES, TIME):
        raise Http404(f"{name} is not one of {', '.join((*FIGURES, TIME))}")
    try:
        compared = read(request.GET)
    except PlanError as error:
        return JsonResponse({"error": spoken(error)}, status=UNPROCESSABLE)
    theme = charts.theme(request.GET.get("theme", ""))
    return _over_time(request, compared, theme) if name == TIME else as_json(FIGURES[name](compared, theme))


def _over_time(request: HttpRequest, compared: Compared, theme: charts.Theme) -> HttpResponse:
    """Return samples of single runs, from second ?from= to ?to= of their measured steps."""
    keys = _single(compared)
    if not keys:
        error = (
            "Only single runs can be compared over time. Select runs instead of levels, campaigns, profiles or hosts."
        )
        return JsonResponse({"error": error}, status=UNPROCESSABLE)
    begin, end = time_axis.valid_window(request.GET)
    runs = side_by_side.runs_of(keys)
    sides = side_by_side.sides_of(runs, begin, end)
    whole = time_axis.Step("", time_axis.MEASURE, 0.0, max(side.end for side in sides))
    axis = time_axis.Axis((whole,), begin, end)
    return as_json(charts.overlay_chart(sides, axis, theme, width_of(request)) | {"steps": axis.offsets()})


@needs(Role.VIEWER)
def compare_csv(request: HttpRequest) -> HttpResponseBase:
    """Download every run of every side."""
    try:
        compared = read(request.GET)
    except PlanError as error:
        return HttpResponse(spoken(error), status=UNPROCESSABLE, content_type="text/plain")
    head = [*HEAD, f"{compared.figure} ({compared.unit})"]
    response = StreamingHttpResponse(exports.csv_lines(head, _lines(compared)), content_type=exports.CSV)
    response["Content-Disposition"] = 'attachment; filename="compare.csv"'
    return response


@needs(Role.VIEWER)
def compare_levels(request: HttpRequest) -> HttpResponseBase:
    """Download every level that all sides have, and those that only some have."""
    try:
        compared = read(request.GET)
    except PlanError as error:
        return HttpResponse(spoken(error), status=UNPROCESSABLE, content_type="text/plain")
    head = [*shared_cells.HEAD, *shared_cells.HEAD_COMPARED]
    response = StreamingHttpResponse(exports.csv_lines(head, shared_cells.lines(compared)), content_type=exports.CSV)
    response["Content-Disposition"] = 'attachment; filename="compare-levels.csv"'
    return response


def _lines(compared: Compared) -> Iterator[list[Any]]:
    for letter, arm in zip(LETTERS, compared.arms, strict=False):
        for run, value in arm.measured:
            place = [run.host.name, run.block + 1, run.position + 1]
            yield [letter, arm.title, run.campaign.name, str(run.pk), *place, value]


urlpatterns = [
    path("compare/", compare_page, name="compare"),
    path("compare/runs.csv", compare_csv, name="compare_csv"),
    path("compare/levels.csv", compare_levels, name="compare_levels"),
    path("compare/<slug:name>.json", compare_figure, name="compare_figure"),
]
