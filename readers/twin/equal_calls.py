"""Statements that may belong to one transaction, because they have about the same number of calls.

This is a hint for the user, not a fact: pg_stat_statements does not count transactions. Two statements with equal calls
may also be in two transactions, or outside of explicit ones.
"""

from __future__ import annotations

from readers.twin.model import Capture, Statement

TOLERANCE = 0.002  # of the calls: a snapshot may be taken in the middle of some transactions
LEAST_CALLS = 500  # fewer calls are equal by chance
COMMITS = ("commit", "end")
WRITES = ("insert", "update", "delete", "merge")


def equal_calls(capture: Capture) -> list[list[Statement]]:
    """Groups of two or more statements with equal calls, of which one writes. None without as many COMMITs."""
    commits = sum(each.counts.calls for each in capture.statements if _command(each) in COMMITS)
    groups: list[list[Statement]] = []
    candidates = [each for each in capture.statements if " " in each.text and each.counts.calls >= LEAST_CALLS]
    for each in sorted(candidates, key=lambda one: -one.counts.calls):
        first = groups[-1][0].counts.calls if groups else 0
        if first and first - each.counts.calls <= max(1, TOLERANCE * first):
            groups[-1].append(each)
        else:
            groups.append([each])
    return [
        group
        for group in groups
        if len(group) > 1
        and any(_command(each) in WRITES for each in group)
        and commits >= (1 - TOLERANCE) * group[-1].counts.calls
    ]


def _command(statement: Statement) -> str:
    return statement.text.split(" ")[0].lower() if statement.text else ""
