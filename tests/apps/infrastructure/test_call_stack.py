"""Loops far down the call stack do not ask the system for memory at each call."""

from __future__ import annotations

import resource
from collections.abc import Callable

from apps.infrastructure.call_stack import roomy

CALLS = 300


def descend(depth: int, function: Callable[[], int]) -> int:
    return descend(depth - 1, function) if depth else function()


def leaf(a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int) -> list[int]:
    return [a, b, c, d, e, f, g, h]


def new_pages() -> int:
    """Return how many new pages of memory the calls of a loop had."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(CALLS):
        leaf(1, 2, 3, 4, 5, 6, 7, 8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def most_new_pages(go: Callable[[int, Callable[[], int]], int]) -> int:
    """Return the most of any depth of the call stack."""
    return max(go(depth, new_pages) for depth in range(500))


def test_a_loop_needs_no_new_memory_at_any_depth() -> None:
    """Without room it fails in CPython 3.11 and 3.12."""
    assert most_new_pages(roomy(descend)) < CALLS / 2
