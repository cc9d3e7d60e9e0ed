"""Conditions of a host that differ from those of a decision's evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from apps.decisions.evidence.conditions import Conditions, Range, conditions, read, stale_reasons
from tests.rows.factories import FACTS

ANY = Range()
STOOD = Conditions("6.1.0-28-amd64", "15.14", "a processor", 8, 2, 64 * 1024 * 1024)


def facts_that_changed(now: Conditions, *, kernel: Range = ANY, postgresql: Range = ANY) -> list[str]:
    return [reason.fact for reason in stale_reasons(STOOD, now, kernel, postgresql)]


def test_conditions_are_read_from_facts() -> None:
    current = conditions(FACTS, "18.6")

    assert current == Conditions("6.1.0", "18.6", "a processor", 4, 1, 8_000_000)
    assert read(current.as_dict()) == current


@pytest.mark.parametrize(
    "same",
    [
        {},
        {"postgresql": "15.15"},
        {"kernel": "6.1.0-31-amd64"},
        {"memory_kb": int(64 * 1024 * 1024 * 0.995)},
    ],
    ids=str,
)
def test_a_minor_release_changes_no_condition(same: dict[str, Any]) -> None:
    assert facts_that_changed(replace(STOOD, **same)) == []


@pytest.mark.parametrize(
    ("fact", "now", "reason_text"),
    [
        ("postgresql", "18.6", "PostgreSQL changed from 15.14 to 18.6."),
        ("postgresql", "", "PostgreSQL 15.14 is no longer present."),
        ("kernel", "6.12.41", "Linux changed from 6.1.0-28-amd64 to 6.12.41."),
        ("cpu", "another", "The processor changed from a processor to another."),
        ("cpus", 16, "CPUs changed from 8 to 16."),
        ("nodes", 1, "NUMA nodes changed from 2 to 1."),
        ("memory_kb", 128 * 1024 * 1024, "Memory changed from 64.0 GiB to 128.0 GiB."),
    ],
)
def test_a_changed_condition_is_a_sentence(fact: str, now: Any, reason_text: str) -> None:
    (reason,) = stale_reasons(STOOD, replace(STOOD, **{fact: now}), ANY, ANY)

    assert (reason.fact, reason.words) == (fact, reason_text)


def test_an_upgrade_inside_the_range_needs_no_review() -> None:
    upgraded = replace(STOOD, postgresql="17.2", kernel="6.6.70")

    assert facts_that_changed(upgraded, kernel=Range("6.1", "6.6"), postgresql=Range("15", "17")) == []
    assert facts_that_changed(upgraded, kernel=Range("6.1", "6.5"), postgresql=Range("", "16")) == [
        *("kernel", "postgresql"),
    ]


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [("16", "17", "16 to 17"), ("16", "16", "16"), ("16", "", "16 on"), ("", "6.6", "up to 6.6")],
)
def test_a_range_reads_as_words(low: str, high: str, text: str) -> None:
    assert str(Range(low, high)) == text


@pytest.mark.parametrize(
    ("low", "high", "wrong"),
    [("six", "", "'six' is not a version"), ("17", "16", "17 is after 16"), ("6.1", "6", ""), ("6", "6.6", "")],
)
def test_an_invalid_range_is_refused(low: str, high: str, wrong: str) -> None:
    assert Range(low, high).wrong == wrong
