"""Charts: functions from rows to a Plotly figure (a dict)."""

from apps.results.charts.baselines import baseline_chart
from apps.results.charts.compare import ecdf_chart, forest_chart, interval_chart, runs_chart
from apps.results.charts.explorer import NARROW_PX, explorer_chart
from apps.results.charts.latency import heat_chart, nines_chart, statement_chart
from apps.results.charts.levels import difference_chart, level_chart
from apps.results.charts.overlay import overlay_chart
from apps.results.charts.runs import run_chart
from apps.results.charts.spreads import spread_chart
from apps.results.charts.themes import DARK, LIGHT, Figure, Theme, theme
from apps.results.charts.trend import trend_chart

__all__ = [
    "DARK",
    "LIGHT",
    "NARROW_PX",
    "Figure",
    "Theme",
    "baseline_chart",
    "difference_chart",
    "ecdf_chart",
    "explorer_chart",
    "forest_chart",
    "heat_chart",
    "interval_chart",
    "level_chart",
    "nines_chart",
    "overlay_chart",
    "run_chart",
    "runs_chart",
    "spread_chart",
    "statement_chart",
    "theme",
    "trend_chart",
]
