"""Pages of comparisons: the URL names the sides; the page has their figures and rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.urls import path, reverse
from django.utils.safestring import SafeString
from django.views.decorators.cache import cache_control

from apps.accounts.models import Role
from apps.campaigns.models import Campaign
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
from apps.results.store.answer_cache import json_of
from apps.results.store.campaign_cache import CampaignCache
from apps.web.pages import UNPROCESSABLE, needs, page, spoken
from apps.web.requester import user_of
from common.errors import PlanError

TIME = "time"
FIGURES = {"runs": charts.runs_chart, "interval": charts.interval_chart, "ecdf": charts.ecdf_chart}
PLACE_DIGITS = 5
# On which a comparison depends, in its address.
ASKED = ("of", "what", "figure", "delta", "view", "levels", "from", "to")
HEAD = ("side", "what", "campaign", "run", "host", "block", "position")


@needs(Role.VIEWER)
def compare_page(request: HttpRequest) -> HttpResponse:
    """Show the comparison. Without sides, show how to choose them; for sides that cannot be compared, the reason."""
    context: dict[str, Any] = {"kinds": KINDS.values(), "as_table": _is_table(request)}
    sides = request.GET.getlist("of")
    if not sides:
        return page(request, "results/compare/page.html", context)
    user = user_of(request)
    may_save = user is not None and user.may(Role.OPERATOR)
    try:
        cached = _cached(request, f"page {may_save}", lambda: _drawn(request, read(request.GET)))
    except PlanError as error:
        context |= {"refusal": spoken(error), "sides": sides}
        answer = page(request, "results/compare/page.html", context)
        answer.status_code = UNPROCESSABLE
        return answer
    html, with_panels = msgspec.json.decode(cached, type=tuple[str, bool])
    return page(
        request, "results/compare/page.html", context | {"comparison": SafeString(html), "with_panels": with_panels}
    )


def _cached(request: HttpRequest, what: str, compute: Callable[[], Any]) -> bytes:
    """Return what is computed from a comparison, as JSON. It is cached if all sides are levels of one campaign: others
    also depend on runs of other campaigns. PlanError if the sides cannot be compared."""
    campaign = _of_one_campaign(request.GET.getlist("of"))
    if campaign is None:
        return json_of(compute())
    query = sorted((name, values) for name, values in request.GET.lists() if name in ASKED)
    return CampaignCache(campaign).cached_query(f"compared {what} {campaign.name} {query}", compute)


def _of_one_campaign(sides: Sequence[str]) -> Campaign | None:
    """Return the campaign if all sides are its levels."""
    kinds, keys = {side.partition(":")[0] for side in sides}, {side.split(":")[1] for side in sides if ":" in side}
    if kinds != {"level"} or len(keys) != 1:
        return None
    try:
        return Campaign.objects.filter(pk=UUID(keys.pop())).first()
    except ValueError:
        return None


def _is_table(request: HttpRequest) -> bool:
    return request.GET.get("view") == "table"


def _drawn(request: HttpRequest, compared: Compared) -> tuple[str, bool]:
    """Return the comparison as HTML, and whether it has charts over time."""
    changes, runs = comparison_changes(compared), _runs(request, compared)
    context = {
        "as_table": _is_table(request),
        "comparison": compared,
        "shared": shared_cells.shared(compared, _start(request)),
        "changes": changes,
        "first": changes.levels[:1],
        "others": changes.levels[1:],
        "is_running": compared.unplanned_analysis == RUNNING,
        **_addresses(compared),
        **runs,
    }
    return render_to_string("results/compare/_comparison.html", context, request), "time_figure" in runs


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
    theme = charts.theme(request.GET.get("theme", ""))
    try:
        if name == TIME:
            return _over_time(request, read(request.GET), theme)
        what = f"{name} {theme is charts.DARK}"
        cached = _cached(request, what, lambda: FIGURES[name](read(request.GET), theme))
    except PlanError as error:
        return JsonResponse({"error": spoken(error)}, status=UNPROCESSABLE)
    return HttpResponse(cached, content_type="application/json")


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
