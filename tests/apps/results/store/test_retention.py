"""Series of old runs are thinned; the figures derived from them do not change."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from apps.accounts.models import AuditEntry, Role
from apps.campaigns.models import Run
from apps.results.exchange import exports
from apps.results.models import Block, Measurement, Series, StepStability
from apps.results.store import codec, fold, retention
from tests.rows import populate

HOUR = 3600


@pytest.fixture
def old(db: None) -> Run:
    """A run that ended 200 days ago, with samples of an hour, one outlier and a gap of 60 s."""
    campaign = populate.finished(
        populate.user(Role.OPERATOR), populate.host(), repetitions=1, failed=0, not_in_effect=0
    )
    Run.objects.update(ended_at=timezone.now() - timedelta(days=200))
    run = campaign.runs.order_by("position")[0]
    t = np.arange(HOUR, dtype=float)
    tps = np.where(t == 1805, 10.0, 1000.0)
    known = (t < 600) | (t >= 660)
    table = {"t": t[known], "tps": tps[known], "latency_ms": np.where(t[known] < 100, np.nan, 8.0)}
    fold.append(run, "again", "pgbench", table)
    return run


def whole(run: Run) -> dict[str, Any]:
    """Column to samples of the series of an hour."""
    columns: dict[str, list[Any]] = {}
    for block in Block.objects.filter(series__run=run, series__step="again").order_by("group", "first"):
        for name, values in block.unpack(block.columns).items():
            columns.setdefault(name, []).append(values)
    return {name: np.concatenate(parts) for name, parts in columns.items()}


def test_each_stretch_keeps_its_mean_and_a_hole_stays_a_hole(old: Run) -> None:
    retention.thin(180, 10.0)

    thinned = whole(old)
    assert len(thinned["t"]) == 354  # 360 intervals, six of them without samples
    assert thinned["t"][:3].tolist() == [4.5, 14.5, 24.5]
    assert thinned["tps"][thinned["t"] == 1804.5].tolist() == [901.0]
    assert np.diff(thinned["t"]).max() == 70.0
    assert np.isnan(thinned["latency_ms"][:10]).all() and (thinned["latency_ms"][10:] == 8.0).all()


def test_measurements_judgements_and_the_table_of_runs_stay(old: Run) -> None:
    def remaining() -> Any:
        campaign = exports.campaigns().get(pk=old.campaign_id)
        rows = [sorted(model.objects.values_list()) for model in (Measurement,)]
        return rows, StepStability.objects.count(), "".join(exports.runs_csv(campaign))

    before = remaining()

    retention.thin(180, 10.0)

    assert remaining() == before


def test_blocks_say_which_time_they_are_of(old: Run) -> None:
    retention.thin(180, 10.0)

    for block in Block.objects.filter(series__run=old, series__step="again"):
        assert (block.first, block.samples, block.begin, block.end) == (0, 354, 4.5, 3594.5)
    assert Series.objects.get(run=old, step="again").samples == 354


def test_thinned_series_and_new_runs_are_not_thinned(old: Run) -> None:
    young = old.campaign.runs.order_by("position")[1]
    Run.objects.filter(pk=young.pk).update(ended_at=timezone.now() - timedelta(days=10))
    retention.thin(180, 10.0)
    before = whole(old)

    again = retention.thin(180, 60.0)

    assert again.series == 0
    assert whole(old).keys() == before.keys() and np.array_equal(whole(old)["t"], before["t"])
    assert not Series.objects.filter(run=young).exclude(thinned_s=None).exists()


def test_a_dry_run_reports_the_same_and_writes_nothing(old: Run) -> None:
    rows = list(Block.objects.order_by("pk").values_list())
    out = io.StringIO()

    call_command("thin", "--days", "180", "--dry-run", stdout=out)

    dry = retention.thin(180, 10.0, dry_run=True)
    assert list(Block.objects.order_by("pk").values_list()) == rows
    assert (
        f"{dry.series} series would be thinned: {dry.samples_before} samples to {dry.samples_after}" in out.getvalue()
    )
    assert retention.thin(180, 10.0) == dry
    assert not AuditEntry.objects.filter(action="series.thin", after__series=0).exists()


def test_thinning_is_in_the_audit_log(old: Run) -> None:
    done = retention.thin(180, 10.0)

    entry = AuditEntry.objects.get(action="series.thin")
    assert (entry.actor, entry.target) == (None, "runs older than 180 days")
    assert entry.after["samples_before"] == done.samples_before > entry.after["samples_after"]
    assert done.bytes_after < done.bytes_before


@pytest.mark.parametrize(("days", "thinned"), [(0, False), (180, True)])
def test_without_a_configured_age_no_series_is_thinned(old: Run, settings: Any, days: int, thinned: bool) -> None:
    settings.RETAIN_DAYS = days

    retention.thin_due()

    assert Series.objects.exclude(thinned_s=None).exists() == thinned


def test_a_run_whose_results_are_not_read_yet_is_left_alone(old: Run) -> None:
    Run.objects.update(ingested_at=None)

    assert retention.thin(180, 10.0).series == 0


@pytest.mark.parametrize("arguments", [["--days", "0"], ["--days", "180", "--step", "0"]])
def test_nonsense_is_refused(db: None, arguments: list[str]) -> None:
    with pytest.raises(CommandError):
        call_command("thin", *arguments)


def test_means_are_compressed_like_measured_values() -> None:
    values = np.arange(1000, dtype=float) / 7
    stretch = np.arange(1000) // 10

    means = retention.mean_of(values, stretch)

    assert len(codec.pack([means])) < 8 * len(means)


def test_a_chart_of_a_thinned_run_is_drawn(old: Run, client: Any) -> None:
    client.force_login(populate.user(Role.VIEWER))
    retention.thin(180, 10.0)

    assert client.get(f"/runs/{old.pk}/chart.json").status_code == 200
