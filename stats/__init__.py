"""Statistics of campaigns: pure functions over runs. scipy and statsmodels load on first use: they are slow."""

from stats.associations import Association, associations
from stats.components import Between, Cell, between_campaigns, compare_campaigns
from stats.factors import Crossed, Interaction, crossed, interactions, main_effects
from stats.failures import fails_more
from stats.levels import against_baseline, all_pairs, level_table, pair_of_all
from stats.model import (
    Better,
    Comparison,
    Level,
    LevelTable,
    Metric,
    Observation,
    Verdict,
    half_width_percent,
    means_of_hosts,
    of_hosts,
    whole_blocks,
)
from stats.order import Drift, drift
from stats.over_time import Change, Score, change_points, score, scores
from stats.overhead import Overhead, Timed, overhead
from stats.pairs import benjamini_hochberg, compare, compare_levels, holm
from stats.power import mde_percent, noise_floor_percent, runs_needed
from stats.prediction import Predicted, against_history
from stats.sequential import CERTAIN, SPENDING, Look, Spent, look
from stats.unplanned import at_unplanned_look
from stats.within import Dips, Trend, WarmUp, dip_depth, dips, mser_cut, trend, warm_up

__all__ = [
    "CERTAIN",
    "SPENDING",
    "Association",
    "Better",
    "Between",
    "Cell",
    "Change",
    "Comparison",
    "Crossed",
    "Dips",
    "Drift",
    "Interaction",
    "Level",
    "LevelTable",
    "Look",
    "Metric",
    "Observation",
    "Overhead",
    "Predicted",
    "Score",
    "Spent",
    "Timed",
    "Trend",
    "Verdict",
    "WarmUp",
    "against_baseline",
    "against_history",
    "all_pairs",
    "associations",
    "at_unplanned_look",
    "benjamini_hochberg",
    "between_campaigns",
    "change_points",
    "compare",
    "compare_campaigns",
    "compare_levels",
    "crossed",
    "dip_depth",
    "dips",
    "drift",
    "fails_more",
    "half_width_percent",
    "holm",
    "interactions",
    "level_table",
    "look",
    "main_effects",
    "mde_percent",
    "means_of_hosts",
    "mser_cut",
    "noise_floor_percent",
    "of_hosts",
    "overhead",
    "pair_of_all",
    "runs_needed",
    "score",
    "scores",
    "trend",
    "warm_up",
    "whole_blocks",
]
