"""Statistics of campaigns: pure functions over runs. scipy and statsmodels load on first use: they are slow."""

from apps.results.stats.factors import Crossed, Interaction, crossed, interactions, main_effects
from apps.results.stats.levels import against_baseline, all_pairs, level_table, pair_of_all
from apps.results.stats.model import (
    Better,
    Comparison,
    Level,
    LevelTable,
    Metric,
    Observation,
    Verdict,
    half_width_percent,
    whole_blocks,
)
from apps.results.stats.order import Drift, drift
from apps.results.stats.over_time import Change, Score, change_points, score, scores
from apps.results.stats.overhead import Overhead, Timed, overhead
from apps.results.stats.pairs import benjamini_hochberg, compare, compare_levels, holm
from apps.results.stats.power import mde_percent, noise_floor_percent, runs_needed
from apps.results.stats.sequential import CERTAIN, SPENDING, Look, Spent, look
from apps.results.stats.within import Dips, Trend, WarmUp, dip_depth, dips, mser_cut, trend, warm_up

__all__ = [
    "CERTAIN",
    "SPENDING",
    "Better",
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
    "Score",
    "Spent",
    "Timed",
    "Trend",
    "Verdict",
    "WarmUp",
    "against_baseline",
    "all_pairs",
    "benjamini_hochberg",
    "change_points",
    "compare",
    "compare_levels",
    "crossed",
    "dip_depth",
    "dips",
    "drift",
    "half_width_percent",
    "holm",
    "interactions",
    "level_table",
    "look",
    "main_effects",
    "mde_percent",
    "mser_cut",
    "noise_floor_percent",
    "overhead",
    "pair_of_all",
    "runs_needed",
    "score",
    "scores",
    "trend",
    "warm_up",
    "whole_blocks",
]
