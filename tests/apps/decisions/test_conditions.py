"""What makes a decision doubtful on a host: other conditions than those that it stands on, outside of what it says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from apps.decisions.evidence.conditions import Conditions, Range, conditions, read, stale
from tests.factories import FACTS

ANY = Range()
STOOD = Conditions("6.1.0-28-amd64", "15.14", "a processor", 8, 2, 64 * 1024 * 1024)


def facts_that_changed(now: Conditions, *, kernel: Range = ANY, postgresql: Range = ANY) -> list[str]:
    return [reason.fact for reason in stale(STOOD, now, kernel, postgresql)]


def test_conditions_are_read_from_facts() -> None:
    found = conditions(FACTS, "18.6")

    assert found == Conditions("6.1.0", "18.6", "a processor", 4, 1, 8_000_000)
    assert read(found.as_dict()) == found


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
def test_what_only_mends_changes_nothing(same: dict[str, Any]) -> None:
    assert facts_that_changed(replace(STOOD, **same)) == []


@pytest.mark.parametrize(
    ("fact", "now", "words"),
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
def test_what_changed_is_told_in_words(fact: str, now: Any, words: str) -> None:
    (reason,) = stale(STOOD, replace(STOOD, **{fact: now}), ANY, ANY)

    assert (reason.fact, reason.words) == (fact, words)


def test_inside_the_range_an_upgrade_needs_no_new_look() -> None:
    upgraded = replace(STOOD, postgresql="17.2", kernel="6.6.70")

    assert facts_that_changed(upgraded, kernel=Range("6.1", "6.6"), postgresql=Range("15", "17")) == []
    assert facts_that_changed(upgraded, kernel=Range("6.1", "6.5"), postgresql=Range("", "16")) == [
        *("kernel", "postgresql"),
    ]


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [("16", "17", "16 to 17"), ("16", "16", "16"), ("16", "", "16 on"), ("", "6.6", "up to 6.6")],
)
def test_a_range_is_told_in_words(low: str, high: str, words: str) -> None:
    assert str(Range(low, high)) == words


@pytest.mark.parametrize(
    ("low", "high", "wrong"),
    [("six", "", "'six' is not a version"), ("17", "16", "17 is after 16"), ("6.1", "6", ""), ("6", "6.6", "")],
)
def test_what_is_no_range_is_told(low: str, high: str, wrong: str) -> None:
    assert Range(low, high).wrong == wrong
