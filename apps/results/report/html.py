"""A report as one HTML file without external resources, which opens without a network and years later."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import orjson
from django.template.loader import render_to_string

from apps.campaigns.models import Campaign
from apps.results import charts
from apps.results.explore import explorer
from apps.results.pages.assets import plotly_script
from apps.results.report.content import CampaignReport, mean, relative, report_of, verdict_text
from common.errors import PlanError

LEVELS_PX = 420
DRAW = """
for (const plot of document.querySelectorAll("[data-plot]")) {
  const figure = JSON.parse(document.getElementById(plot.dataset.plot).textContent);
  Plotly.newPlot(plot, figure.data, figure.layout, {responsive: true, displaylogo: false});
}
"""


def report_html(campaign: Campaign) -> Iterator[str]:
    """Yield the file in a few pieces; most of it is the library that draws the charts."""
    report = report_of(campaign)
    figures = {name: _embedded(figure) for name, figure in _figures(report).items()}
    context: dict[str, Any] = {
        "report": report,
        "campaign": campaign,
        "table": report.table,
        "figures": figures,
        "rows": [
            (level, mean(level), relative(level, report.table.baseline), verdict_text(level))
            for level in report.table.levels
        ],
        "csv": base64.b64encode(report.csv.encode()).decode(),
    }
    body = render_to_string("results/report.html", context)
    before, after = body.split("<!-- scripts -->")
    yield before
    yield f"<script>{_plotly()}</script><script>{DRAW}</script>"
    yield after


def _figures(report: CampaignReport) -> dict[str, dict[str, Any]]:
    """Return the charts by title; with two factors, also one over the other."""
    levels = charts.level_chart(report.table, charts.LIGHT)
    levels["layout"]["height"] = LEVELS_PX
    drawn = {f"{report.table.metric} by {report.table.factor_names}": levels}
    if report.table.bounded:
        drawn["Differences"] = charts.difference_chart(report.table, charts.LIGHT)
    if len(report.campaign.factors) > 1 and report.campaign.metric:
        try:
            explored = explorer.explore(report.campaign, explorer.read(report.campaign, {}))
        except PlanError:
            return drawn
        drawn["Factors together"] = charts.explorer_chart(explored, charts.LIGHT)
    return drawn


def _embedded(figure: dict[str, Any]) -> str:
    """Return JSON that cannot end its script element."""
    encoded = orjson.dumps(figure, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    return encoded.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _plotly() -> str:
    return plotly_script().replace("</script", "<\\/script")
