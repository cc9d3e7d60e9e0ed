"""Statistics of campaigns: pure functions over runs. scipy loads on first use: it is slow."""

from stats.across_campaigns.components import Between, Cell, between_campaigns, compare_campaigns
from stats.across_campaigns.prediction import Predicted, against_history
from stats.comparison.associations import Association, associations
from stats.comparison.factors import Crossed, Interaction, crossed, interactions, main_effects
from stats.comparison.failures import fails_more, runs_fail_more
from stats.comparison.levels import Starts, against_baseline, best_first, level_table, pair_of_all, shared_starts
from stats.comparison.modes import Modes, two_modes
from stats.comparison.overhead import Overhead, Timed, overhead
from stats.comparison.pairs import benjamini_hochberg, compare, compare_levels, holm
from stats.model import (
    Better,
    Comparison,
    Level,
    LevelTable,
    Metric,
    Observation,
    half_width_percent,
    means_of_hosts,
    of_hosts,
    whole_blocks,
)
from stats.power import mde_percent, noise_floor_percent, runs_needed
from stats.stopping.sequential import SPENDING, InterimAnalysis, Spent, interim_analysis
from stats.stopping.unplanned import at_unplanned_analysis
from stats.trends.order import OrderTrend, order_trend
from stats.trends.over_time import ChangePoint, Score, change_points, score, scores
from stats.trends.within_run import Dips, Trend, WarmUp, dip_depth, dips, mser_cut, trend, warm_up

__all__ = [
    "SPENDING",
    "Association",
    "Better",
    "Between",
    "Cell",
    "ChangePoint",
    "Comparison",
    "Crossed",
    "Dips",
    "Interaction",
    "InterimAnalysis",
    "Level",
    "LevelTable",
    "Metric",
    "Modes",
    "Observation",
    "OrderTrend",
    "Overhead",
    "Predicted",
    "Score",
    "Spent",
    "Starts",
    "Timed",
    "Trend",
    "WarmUp",
    "against_baseline",
    "against_history",
    "associations",
    "at_unplanned_analysis",
    "benjamini_hochberg",
    "best_first",
    "between_campaigns",
    "change_points",
    "compare",
    "compare_campaigns",
    "compare_levels",
    "crossed",
    "dip_depth",
    "dips",
    "fails_more",
    "half_width_percent",
    "holm",
    "interactions",
    "interim_analysis",
    "level_table",
    "main_effects",
    "mde_percent",
    "means_of_hosts",
    "mser_cut",
    "noise_floor_percent",
    "of_hosts",
    "order_trend",
    "overhead",
    "pair_of_all",
    "runs_fail_more",
    "runs_needed",
    "score",
    "scores",
    "shared_starts",
    "trend",
    "two_modes",
    "warm_up",
    "whole_blocks",
]
