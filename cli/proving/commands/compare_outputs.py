"""`proving stat`: compare outputs of two groups of runs, without a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from proving import bundle, tables
from proving.commands.compare import passes_strict
from proving.commands.parse import content
from proving.errors import CliError, Code, UsageError
from proving.session import Json, of

SEPARATOR = "vs"
HELP_FILES = (
    "Outputs of pgbench, fio, sysbench, pg_test_fsync or pg_test_timing, one run per file, or CSV files with one run "
    "per row. Write the word vs between the old and the new ones."
)


def stat(
    ctx: typer.Context,
    files: Annotated[list[str], typer.Argument(metavar="OLD... vs NEW...", help=HELP_FILES)],
    delta: Annotated[float, typer.Option(min=0.01, max=99, help="Minimum effect, in percent.")] = 2.0,
    figure: Annotated[
        list[str] | None, typer.Option(help="Compare only this figure; repeatable. Default: the main ones.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Compare all figures.")] = False,
    higher: Annotated[list[str] | None, typer.Option(help="A CSV column for which higher is better.")] = None,
    lower: Annotated[list[str] | None, typer.Option(help="A CSV column for which lower is better.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 5 if inconclusive or likely worse.")] = False,
    json: Json = False,
) -> None:
    """Compare outputs of two groups of runs, without a server. Exits with 3 if any figure is worse."""
    session = of(ctx)
    old, new = _sides(files)
    bundle.need_statistics()
    from proving.samples import collect

    directions = dict.fromkeys(higher or (), "higher") | dict.fromkeys(lower or (), "lower")
    sides = [collect([(name, content(name)) for name in names], directions) for names in (old, new)]
    comparison = compared(sides[0], sides[1], figure or [], every, delta / 100)
    session.tell(comparison, lambda: _shown(comparison))
    raise typer.Exit(_code(comparison, strict))


def _sides(files: Sequence[str]) -> tuple[list[str], list[str]]:
    at = [place for place, name in enumerate(files) if name == SEPARATOR]
    if len(at) != 1 or at[0] in (0, len(files) - 1):
        accepted = "files, the word vs, and files: proving stat old*.out vs new*.out"
        raise UsageError("the two sides are not separated", field="OLD... vs NEW...", accepted=accepted)
    return list(files[: at[0]]), list(files[at[0] + 1 :])


def compared(old: Any, new: Any, figures: list[str], every: bool, delta: float) -> dict[str, Any]:
    """Return each figure of both sides with its comparison. `skipped`: figures without one, with reasons."""
    from proving.samples import comparable, failures, judge

    names, skipped = comparable(old, new, figures, every)
    rows, tests = [], len(names)
    for name in names:
        row = judge(name, old[name], new[name], delta, tests)
        if isinstance(row, str):
            skipped.append(f"{name}: {row}")
        else:
            rows.append(asdict(row))
    if not rows:
        raise CliError(
            "no figure can be compared", field="FILE", value="; ".join(skipped), accepted="outputs of one kind"
        )
    worse = any(row["verdict"] == "worse" for row in rows)
    comparison = {"figures": rows, "skipped": skipped, "warnings": failures(old, new), "worse": worse}
    return {"delta_percent": 100 * delta} | comparison


def _code(comparison: dict[str, Any], strict: bool) -> Code:
    if comparison["worse"]:
        return Code.REGRESSION
    if strict and not all(passes_strict(row["verdict"]) for row in comparison["figures"]):
        return Code.UNDECIDED
    return Code.OK


def _shown(comparison: dict[str, Any]) -> Any:
    head = ("figure", "old", "95 % CI", "n", "new", "95 % CI", "n", "change", "verdict")
    table = tables.table(head, [_row(row) for row in comparison["figures"]])
    notes = [
        f"Margin {comparison['delta_percent']:g} %. These intervals do not include variation between days: "
        "alternate the runs of both sides."
    ]
    intervals = [row for row in comparison["figures"] if row["relative_low"] is not None]
    if len(intervals) < len(comparison["figures"]):
        notes = ["A CI and a verdict need at least three runs on each side."]
    if len(intervals) > 1:
        notes.append("The intervals of all changes hold jointly (Bonferroni).")
    left_out = [f"not compared: {each}" for each in comparison["skipped"]]
    return tables.below(table, tables.lines(*notes, *comparison["warnings"], *left_out))


def _row(row: dict[str, Any]) -> tuple[Any, ...]:
    sides = [
        (tables.figure(side["mean"]), tables.interval(side["low"], side["high"]), side["n"])
        for side in (row["old"], row["new"])
    ]
    change = tables.change(row["relative_percent"], row["relative_low"], row["relative_high"])
    return (
        row["figure"] if row["figure"] == row["unit"] else f"{row['figure']}, {row['unit']}",
        *sides[0],
        *sides[1],
        change,
        tables.verdict(row["verdict"], row["preliminary"]),
    )
