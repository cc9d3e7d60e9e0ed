"""`proving compare`: a verdict for a pipeline."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from common.verdicts import verdict
from common.wording import ci_of_mean
from proving import ids, tables
from proving.errors import Code
from proving.session import Json, of

Sides = Annotated[
    list[str],
    typer.Argument(
        metavar="A B...",
        help="The baseline first: CAMPAIGN, CAMPAIGN:LEVEL, run:ID, profile:NAME@REVISION or host:NAME. "
        "A CAMPAIGN alone compares its first level with each of its others.",
    ),
]


def compare(
    ctx: typer.Context,
    sides: Sides,
    delta: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=99,
            help="Minimum effect in percent. Default: that of the first campaign; 5 for a p99 that is not its metric.",
        ),
    ] = None,
    figure: Annotated[str, typer.Option(help="STEP.NAME, such as measure.tps. Default: the metric.")] = "",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 5 if inconclusive or likely worse.")] = False,
    json: Json = False,
) -> None:
    """Compare two or more sides with the first. Exits with 3 if one is worse by more than the minimum effect."""
    session = of(ctx)
    keys = [ids.side(session.client, side) for side in sides]
    if len(keys) == 1 and keys[0].startswith("campaign:"):
        keys = _levels(session.client.get(f"{keys[0].replace('campaign:', 'campaigns/')}/results/"), keys[0])
    params = {"of": keys, "delta": delta, "figure": figure}
    comparison = session.client.get("compare/", **{name: each for name, each in params.items() if each})
    session.tell(comparison, lambda: _shown(comparison))
    raise typer.Exit(_code(comparison, strict))


def _levels(results: dict[str, Any], key: str) -> list[str]:
    campaign = key.partition(":")[2]
    return [f"level:{campaign}:{row['label']}" for row in results["levels"]]


def _code(comparison: dict[str, Any], strict: bool) -> Code:
    if comparison["worse"]:
        return Code.REGRESSION
    verdicts = [one["verdict"] for one in comparison["comparisons"]]
    if strict and not (verdicts and all(passes_strict(each) for each in verdicts)):
        return Code.UNDECIDED
    return Code.OK


def passes_strict(name: str) -> bool:
    """Whether `--strict` accepts the verdict: it is certain or likely better."""
    shown = verdict(name)
    return shown.is_certain or shown.is_better


def _shown(comparison: dict[str, Any]) -> Any:
    against = {one["b"]: one for one in comparison["comparisons"]}
    rows = [_row(side, against.get(side["title"])) for side in comparison["sides"]]
    ci = ci_of_mean(comparison.get("within_blocks", False))
    head = ("side", "n", f"{comparison['figure']}, {comparison['unit']}", ci, "change", "verdict")
    differ = [
        f"also differs: {each['what']}: {', '.join(map(str, each['values']))}" for each in comparison["unplanned"]
    ]
    sentences = [one["sentence"] for one in comparison["comparisons"]]
    sentences += [
        each for change in comparison.get("changes", []) for each in [*change["mechanisms"], change["sentence"]]
    ]
    sentences += [plan["sentence"] for plan in comparison.get("plans", [])]
    return tables.below(
        tables.table(head, rows), tables.lines(*sentences, *comparison["more"], *differ, *comparison["warnings"])
    )


def _row(side: dict[str, Any], one: dict[str, Any] | None) -> tuple[Any, ...]:
    mean = (side["title"], side["n"], tables.figure(side["mean"]), tables.interval(side["low"], side["high"]))
    if one is None:
        return (*mean, "", "baseline")
    change = tables.change(one["relative_percent"], one["relative_low"], one["relative_high"])
    verdict = tables.verdict(one["verdict"], one["preliminary"])
    return (*mean, change, f"{verdict} ({one['twin']})" if one.get("twin") else verdict)
