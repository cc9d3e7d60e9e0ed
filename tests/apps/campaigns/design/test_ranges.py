"""Several levels in one row of the form: lists, ranges of numbers, and errors."""

from __future__ import annotations

import pytest

from apps.campaigns.design.ranges import expanded
from apps.campaigns.design.steps import single
from apps.campaigns.pages import factor_rows


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1, 4, 16", ["1", "4", "16"]),
        ("128MB,1GB", ["128MB", "1GB"]),
        ("128MB..1GB x2", ["128MB", "256MB", "512MB", "1GB"]),
        ("1..16 x4", ["1", "4", "16"]),
        ("10..50 +20", ["10", "30", "50"]),
        ("0.5..1.5 +0.5", ["0.5", "1", "1.5"]),
        ("500ms..2s +500ms", ["500ms", "1s", "1500ms", "2s"]),
        ("4, 4", ["4"]),
        ("16", ["16"]),
        ("on", ["on"]),
        ("1..16", ["1..16"]),
        ("1..16 x1", ["1..16 x1"]),
        ("8..1 x2", ["8..1 x2"]),
        ("1MB..8s x2", ["1MB..8s x2"]),
        ("1..1000 +1", ["1..1000 +1"]),
        ("", [""]),
    ],
)
def test_a_value_is_one_level_or_several(text: str, values: list[str]) -> None:
    assert expanded(text) == values


@pytest.mark.parametrize(
    ("path", "value", "count"),
    [
        ("settings.postgresql.shared_buffers", "1GB..4GB x2", 3),
        ("workload.clients", "1, 4, 16", 3),
        ("settings.cpu_affinity.server", "0,1", 1),
        ("settings.postgresql.shared_preload_libraries", "a, b", 1),
    ],
)
def test_only_numeric_values_are_expanded_to_levels(path: str, value: str, count: int) -> None:
    rows = factor_rows.spread([factor_rows.FactorRow("factor", "", path, value)], single("pgbench", {}))

    (factor,) = factor_rows.factors_of(rows, single("pgbench", {}))

    assert len(factor["levels"]) == count


@pytest.mark.parametrize(
    ("path", "value", "values"),
    [
        ("settings.postgresql.jit", "on, off", ["on", "off"]),
        ("settings.postgresql.wal_level", "minimal, replica, minimal", ["minimal", "replica"]),
        ("settings.postgresql.wal_level", "minimal, much", ["minimal, much"]),
        ("settings.transparent_huge_pages.enabled", "always, never", ["always", "never"]),
        ("settings.initdb.data_checksums", "on, off", ["on", "off"]),
        ("settings.cpu_affinity.server", "0,1", ["0,1"]),
        ("settings.postgresql.search_path", "a, b", ["a, b"]),
    ],
)
def test_a_choice_of_words_names_several_levels_in_one_row(path: str, value: str, values: list[str]) -> None:
    rows = factor_rows.spread([factor_rows.FactorRow("factor", "", path, value)], single("pgbench", {}))

    assert [row.value for row in rows] == values


def test_a_row_with_a_label_stays_one_level() -> None:
    row = factor_rows.FactorRow("clients", "few", "workload.clients", "1, 4")

    assert factor_rows.spread([row], single("pgbench", {})) == [row]
