"""Statistics of campaigns: pure functions over runs. scipy and statsmodels load on first use: they are slow."""

from apps.results.stats.levels import Cell, Interaction, against_baseline, all_pairs, interaction, level_table
from apps.results.stats.model import Better, Comparison, Level, LevelTable, Metric, Observation, Verdict, whole_blocks
from apps.results.stats.order import Drift, drift
from apps.results.stats.overhead import Overhead, Timed, overhead
from apps.results.stats.pairs import benjamini_hochberg, compare, compare_levels, holm
from apps.results.stats.power import mde_percent, noise_floor_percent, runs_needed
from apps.results.stats.sequential import CERTAIN, SPENDING, Look, Spent, look
from apps.results.stats.within import Dips, Trend, WarmUp, dip_depth, dips, mser_cut, trend, warm_up

__all__ = [
    "CERTAIN",
    "SPENDING",
    "Better",
    "Cell",
    "Comparison",
    "Dips",
    "Drift",
    "Interaction",
    "Level",
    "LevelTable",
    "Look",
    "Metric",
    "Observation",
    "Overhead",
    "Spent",
    "Timed",
    "Trend",
    "Verdict",
    "WarmUp",
    "against_baseline",
    "all_pairs",
    "benjamini_hochberg",
    "compare",
    "compare_levels",
    "dip_depth",
    "dips",
    "drift",
    "holm",
    "interaction",
    "level_table",
    "look",
    "mde_percent",
    "mser_cut",
    "noise_floor_percent",
    "overhead",
    "runs_needed",
    "trend",
    "warm_up",
    "whole_blocks",
]
