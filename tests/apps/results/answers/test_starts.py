"""The order fewest restarts: every comparison of levels in different starts includes the variation between starts."""

from __future__ import annotations

import math
from typing import Any

import pytest

import stats
from apps.accounts.models import User
from apps.campaigns.design import orders
from apps.campaigns.design.factors import Level
from apps.campaigns.models import Campaign
from apps.decisions.evidence import replay
from apps.results.answers.comparison.compare import compare
from apps.results.answers.judgements import judgements
from apps.results.answers.observations import starts_of
from apps.results.explore import explorer
from apps.results.queries import campaign_table, evidence
from tests.apps.results.answers.judgements.test_judgements import ended_badly, factor, measured, of

pytestmark = pytest.mark.django_db

METHOD = "max-t on logs, variation between starts included"
# Within a start levels hardly differ by chance; starts differ by 2 %.
SHIFTS = (1.02, 0.98, 1.01, 0.97, 1.03)
VALUES = {
    "1GB, off": (10000, 10020, 9990, 10010, 9980),
    "1GB, on": (10010, 10000, 10000, 10020, 9990),
    "2GB, off": tuple(round(9990 * shift) for shift in SHIFTS),
    "2GB, on": tuple(round(9950 * shift) + noise for shift, noise in zip(SHIFTS, (10, -15, 5, 0, -10), strict=True)),
}


REMOTE = {"remote": "managed"}


def made(admin: User, order: str, target: dict[str, str] = REMOTE, **fields: Any) -> Campaign:
    memory = factor("shared_buffers", "1GB", "2GB", path="settings.postgresql.shared_buffers")
    compression = factor("wal_compression", "off", "on", path="settings.postgresql.wal_compression")
    return on(target, measured(VALUES, admin, memory, compression, order=order), **fields)


def on(target: dict[str, str], campaign: Campaign, **fields: Any) -> Campaign:
    """The campaign as if it had measured this PostgreSQL."""
    Campaign.objects.filter(pk=campaign.pk).update(target=target, **fields)
    campaign.refresh_from_db()
    return campaign


def test_levels_of_another_start_have_wider_intervals(admin: User) -> None:
    table = campaign_table(made(admin, "fewest_restarts"))
    same, other = table.levels[1], table.levels[2]

    assert same.method == other.method == METHOD
    assert (other.relative_high or 0) - (other.relative_low or 0) > 4 * (
        (same.relative_high or 0) - (same.relative_low or 0)
    )


def test_other_orders_share_no_starts(admin: User) -> None:
    campaign = made(admin, "randomised")

    assert starts_of(campaign) == {} and campaign_table(campaign).levels[1].method != METHOD


def test_runs_of_a_private_cluster_share_no_starts(admin: User) -> None:
    campaign = made(admin, "fewest_restarts", target={})

    assert starts_of(campaign) == {}
    assert {level.method for level in campaign_table(campaign).levels[1:]} == {"Dunnett on logs, within blocks"}


def test_runs_of_private_clusters_share_boots_but_no_starts_of_the_server() -> None:
    boots = {name: {"settings.kernel_command_line.skew_tick": number} for number, name in enumerate(("0", "1"))}
    memory = {size: {"settings.postgresql.shared_buffers": size} for size in ("1GB", "2GB")}
    both = [{"boot": Level(a, boots[a]), "memory": Level(b, memory[b])} for a in boots for b in memory]
    alone = [{"boot": Level(a, boots[a])} for a in boots]

    starts = orders.start_numbers(both, {})

    assert starts == {"0, 1GB": [0], "0, 2GB": [0], "1, 1GB": [1], "1, 2GB": [1]}
    assert orders.start_numbers(alone, {}) == {}


def test_runs_share_nothing_across_levels_of_a_factor_with_its_own_order() -> None:
    boots = {name: {"settings.kernel_command_line.skew_tick": number} for number, name in enumerate(("0", "1"))}
    cells = [{"boot": Level(a, boots[a]), "clients": Level(b, {})} for a in boots for b in ("1", "2")]

    shared, own_order = orders.start_numbers(cells, {}), orders.start_numbers(cells, {}, ordered=["clients"])

    assert len(set(map(tuple, shared.values()))) == 2 and own_order == {}
    assert orders.start_numbers([{"clients": cell["clients"]} for cell in cells[:2]], {}, ordered=["clients"]) == {}


def test_levels_of_an_existing_cluster_share_a_start_only_if_they_need_no_restart() -> None:
    memory = {"default": {}, "2GB": {"settings.postgresql.shared_buffers": "2GB"}}
    live = {"off": {}, "on": {"settings.postgresql.wal_compression": "on"}}
    cells = [{"memory": Level(a, memory[a]), "wal": Level(b, live[b])} for a in memory for b in live]

    starts = orders.start_numbers(cells, {"data_dir": "/srv/pg"})

    assert starts["default, off"] == starts["default, on"]
    assert len({tuple(path) for path in starts.values()}) == 3


def test_runs_that_restart_the_host_share_no_start_of_an_existing_cluster(admin: User) -> None:
    existing = {"data_dir": "/srv/pg"}

    never, each_run = (
        starts_of(made(admin, "fewest_restarts", existing, reboot=name)) for name in ("never", "each_run")
    )

    assert never and not each_run


def test_compare_has_the_intervals_of_the_table(admin: User) -> None:
    campaign = made(admin, "fewest_restarts")
    levels = campaign_table(campaign).levels

    compared = compare([f"level:{campaign.pk}:{level.label}" for level in levels])

    for level, one in zip(levels[1:], compared.comparisons, strict=True):
        assert one.interval == pytest.approx((level.relative_low, level.relative_high))


def test_a_decision_s_evidence_has_the_starts(admin: User) -> None:
    frozen = evidence(made(admin, "fewest_restarts"))

    assert frozen["table"]["starts"] and all(row.same for row in replay.replay(frozen))


def test_the_best_level_is_ahead_by_own_differences(admin: User) -> None:
    (best,) = of("best", judgements(made(admin, "fewest_restarts")))

    assert "not clearly ahead" in best.sentence


def test_the_noise_floor_includes_the_variation_between_starts(admin: User) -> None:
    shared, single = (campaign_table(made(admin, order)) for order in ("fewest_restarts", "randomised"))

    halves = [stats.half_width_percent((row.relative_low or 0, row.relative_high or 0)) for row in shared.levels[1:]]

    assert shared.noise_floor_percent == pytest.approx(max(halves))
    assert max(halves) > 1.5 * (single.noise_floor_percent or 0)


def interval(campaign: Campaign, x: str, level: str) -> tuple[float | None, float | None]:
    """Of a level in the explorer, which combines those of the other factors."""
    view = explorer.read(campaign, {"x": x, "scale": "relative"})
    return next((group.low, group.high) for group in explorer.explore(campaign, view).groups if group.x == level)


def test_the_explorer_compares_means_of_starts(admin: User) -> None:
    campaign = made(admin, "fewest_restarts")
    one, two = (
        [math.sqrt(off * on) for off, on in zip(VALUES[f"{size}, off"], VALUES[f"{size}, on"], strict=True)]
        for size in ("1GB", "2GB")
    )
    metric = stats.Metric("tps", "tps", "higher")

    expected = stats.compare(one, two, metric=metric, delta=0.02, blocked=True).interval

    assert interval(campaign, "shared_buffers", "2GB") == pytest.approx(expected)


def test_the_explorer_shows_no_interval_if_levels_combine_different_starts(admin: User) -> None:
    campaign = made(admin, "fewest_restarts")
    same_starts = interval(campaign, "wal_compression", "on")
    ended_badly(next(run for run in campaign.runs.all() if run.label == "2GB, on"))

    assert None not in same_starts
    assert interval(campaign, "wal_compression", "on") == (None, None)


def test_levels_that_share_a_start_have_the_intervals_of_the_table_in_the_explorer(admin: User) -> None:
    settings = [
        {"settings.postgresql.shared_buffers": size, "settings.postgresql.wal_compression": use}
        for size in ("1GB", "2GB")
        for use in ("off", "on")
    ]
    levels = [{"label": label, "set": changes} for label, changes in zip("abcd", settings, strict=True)]
    values = dict(zip("abcd", VALUES.values(), strict=True))
    campaign = on(REMOTE, measured(values, admin, {"name": "mode", "levels": levels}, order="fewest_restarts"))

    for level in campaign_table(campaign).levels[1:]:
        assert level.method == METHOD
        assert interval(campaign, "mode", level.label) == pytest.approx((level.relative_low, level.relative_high))


def test_intervals_of_blocks_with_gaps_hold_jointly_by_bonferroni(admin: User) -> None:
    campaign = made(admin, "fewest_restarts")
    ended_badly(next(run for run in campaign.runs.all() if run.label == "2GB, on"))

    (many,) = of("many comparisons", judgements(campaign))

    assert "at 95 % (Bonferroni)" in many.sentence


def test_starts_are_within_clusters_and_boots() -> None:
    cells = [
        {
            "boot": Level("a", {}),
            "memory": Level(size, {"settings.postgresql.shared_buffers": size}),
            "live": Level(live, {}),
        }
        for size in ("1GB", "2GB")
        for live in ("x", "y")
    ]

    starts = orders.start_numbers(cells, REMOTE)

    assert starts["a, 1GB, x"] == starts["a, 1GB, y"] and starts["a, 1GB, x"] != starts["a, 2GB, x"]
    assert starts["a, 1GB, x"][:2] == starts["a, 2GB, x"][:2]
