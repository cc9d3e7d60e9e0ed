"""Loops far down the call stack do not ask the system for memory at each call."""

from __future__ import annotations

import resource

from apps.infrastructure.call_stack import roomy

CALLS = 300


def leaf() -> None: ...


def new_pages(depth: int) -> int:
    """Return how many new pages of memory the calls of a loop had at this depth of the call stack."""
    if depth:
        return new_pages(depth - 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(CALLS):
        leaf()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_a_loop_needs_no_new_memory_at_any_depth() -> None:
    most = max(roomy(new_pages)(depth) for depth in range(600))

    assert most < CALLS / 2
