"""Statements that the user knows to belong to one transaction: one script for them. Pure.

pg_stat_statements counts each statement alone, so which ones share a transaction is not in a capture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from common.errors import PlanError
from readers.twin.model import Statement

FIELD = "transactions"
MOST_REPEATS = 50
TOLERANCE = 0.1  # of the number of calls per transaction
Script = dict[str, Any]


def grouped(
    scripts: Sequence[Script],
    statements: Sequence[Statement],
    transactions: Sequence[Sequence[str]],
    reasons: Mapping[str, str],
) -> list[Script]:
    """The scripts, with one script t1, t2, ... for each transaction, which is a list of query ids in order.

    `statements` are those of `scripts`. A transaction is called as often as its rarest statement; statements with
    multiples of its calls run several times. `reasons`: why other statements are left out.

    PlanError names a query id that cannot be part of a transaction."""
    by_id = {each.queryid: (script, each) for script, each in zip(scripts, statements, strict=True)}
    _check_ids(transactions, by_id, reasons)
    members = {queryid for transaction in transactions for queryid in transaction}
    alone = [script for queryid, (script, _) in by_id.items() if queryid not in members]
    return [
        *alone,
        *(_transaction(f"t{n}", [by_id[queryid] for queryid in each]) for n, each in enumerate(transactions, start=1)),
    ]


def _check_ids(transactions: Sequence[Sequence[str]], known: Mapping[str, Any], reasons: Mapping[str, str]) -> None:
    ids = [queryid for transaction in transactions for queryid in transaction]
    for each in transactions:
        if len(each) < 2:
            raise PlanError(FIELD, f"{','.join(each)!r} has fewer than two statements", hint="query ids in their order")
    for queryid in ids:
        if queryid not in known:
            hint = f"query ids of statements in the twin: {', '.join(known)}"
            reason = reasons.get(queryid, "it is not in the capture")
            raise PlanError(FIELD, f"the twin has no statement {queryid}: {reason}", hint=hint)
        if ids.count(queryid) > 1:
            raise PlanError(FIELD, f"{queryid} appears twice", hint="use each statement once")


def _transaction(name: str, members: Sequence[tuple[Script, Statement]]) -> Script:
    rarest = min((statement for _, statement in members), key=lambda each: each.counts.calls)
    texts = []
    for script, statement in members:
        texts += [script["text"]] * _repeats(statement, rarest)
    return {"name": name, "weight": rarest.counts.calls, "text": f"begin;\n{''.join(texts)}commit;\n"}


def _repeats(statement: Statement, rarest: Statement) -> int:
    ratio = statement.counts.calls / rarest.counts.calls
    if abs(ratio - round(ratio)) > TOLERANCE or ratio > MOST_REPEATS:
        message = f"{statement.queryid} has {ratio:.3g} calls per call of {rarest.queryid}"
        hint = f"a transaction has 1 to {MOST_REPEATS} calls of each statement, and a whole number of them"
        raise PlanError(FIELD, message, hint=hint)
    return round(ratio)
