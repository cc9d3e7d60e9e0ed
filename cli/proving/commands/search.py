"""`proving search`: searches for better values of settings."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from proving import ids, tables
from proving.session import CampaignArgument, Json, Session, of

HELP = (
    "Create, show, explain, pause, resume, extend, change or stop a search for better values of settings, "
    "or pick the trials to confirm. "
    "List them with: proving ls searches"
)
Name = Annotated[str, typer.Argument(metavar="SEARCH", help="Name of the search, its id, or the beginning of its id.")]


Ranges = Annotated[
    list[str],
    typer.Option(help='A setting and its range, such as "work_mem 1MB to 64MB log" or "jit on, off". Repeatable.'),
]
Constraints = Annotated[
    list[str] | None,
    typer.Option(
        help='A limit, such as "latency_p99 <= 20 ms". A candidate that breaks it is not confirmed. Repeatable.'
    ),
]


def create(
    ctx: typer.Context,
    campaign: CampaignArgument,
    vary: Ranges,
    name: Annotated[str, typer.Option(help="Name of the search. Its campaigns have this name and a number.")],
    budget: Annotated[
        int | None, typer.Option(min=1, max=10000, help="Runs in total, including those of the confirmation.")
    ] = None,
    minutes: Annotated[
        int | None,
        typer.Option(min=1, max=100000, help="Minutes in which runs execute. The limit that ends first counts."),
    ] = None,
    candidates: Annotated[int, typer.Option(min=1, max=20, help="Candidates of a round, beside the default.")] = 4,
    blocks: Annotated[int, typer.Option(min=1, max=20, help="Blocks of a round.")] = 1,
    finalists: Annotated[int, typer.Option(min=1, max=10, help="Most candidates to confirm.")] = 2,
    confirmation_blocks: Annotated[int, typer.Option(min=3, max=100, help="Blocks of the confirmation.")] = 5,
    constraint: Constraints = None,
    second_metric: Annotated[
        str, typer.Option(help="A second metric, such as latency_p99: search for the Pareto front of both.")
    ] = "",
    warm_start: Annotated[
        bool, typer.Option("--warm-start", help="Learn from comparable trials of earlier searches.")
    ] = False,
    allow_risk: Annotated[
        list[str] | None,
        typer.Option(help="A setting of --vary that risks data, such as fsync. Admins only. Repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """Search for better values than the baseline of a campaign, and confirm the best."""
    session = of(ctx)
    body = {
        "campaign": ids.campaign(session.client, campaign),
        "name": name,
        "space": vary,
        "constraints": constraint or [],
        "allowed_risks": allow_risk or [],
        "second_metric": second_metric,
        "warm_start": warm_start,
        "candidates": candidates,
        "blocks": blocks,
        "finalists": finalists,
        "confirmation_blocks": confirmation_blocks,
    }
    limits = {"budget_runs": budget, "budget_minutes": minutes}
    _show(session, session.client.post("searches/", body | {key: each for key, each in limits.items() if each}))


def show(ctx: typer.Context, search: Name, json: Json = False) -> None:
    """Show a search, the verdict of its confirmation, and its trials, best first."""
    session = of(ctx)
    key = ids.search(session.client, search)
    detail = session.client.get(f"searches/{key}/")
    trials = list(session.client.rows(f"searches/{key}/trials/"))
    trials.sort(key=_order)
    second = detail.get("second_metric")
    columns = [f"{detail['metric']} (95 % CI)", *([f"{second} (95 % CI)", "Pareto front"] if second else [])]
    head = ("trial", "state", "blocks", *columns, "values")
    rows = [tuple(map(str, _cells(row))) for row in trials]
    table = [tables.table(head, rows)] if rows else []
    session.tell(detail | {"trials": trials}, lambda: tables.below(tables.lines(*_lines(detail)), *table))


def _order(trial: dict[str, Any]) -> tuple[bool, float]:
    """Measured trials first, best first."""
    ratio = trial["log_ratio"]
    return trial["state"] != "measured", math.inf if ratio is None else -ratio


def importance(ctx: typer.Context, search: Name, json: Json = False) -> None:
    """Show which settings matter, by the trials of a search."""
    session = of(ctx)
    answer = session.client.get(f"searches/{ids.search(session.client, search)}/importance/")
    session.tell(answer, lambda: _importance(answer))


def _importance(answer: dict[str, Any]) -> Any:
    if answer["reason"]:
        return tables.lines(answer["reason"])
    rows = [
        (setting["name"], f"{setting['percent']:.0f} %", f"{setting['low']:.0f} to {setting['high']:.0f} %")
        for setting in answer["settings"]
    ]
    lines = f"by {answer['trials']} trials, whose settings predict {answer['predicted']:.0f} % of the variance"
    return tables.below(
        tables.lines(lines), tables.table(("setting", "share of the variance", "95 % credible interval"), rows)
    )


def pause(ctx: typer.Context, search: Name, json: Json = False) -> None:
    """Pause a search. The campaign of its round continues to its end."""
    _act(of(ctx), search, "pause")


def resume(ctx: typer.Context, search: Name, json: Json = False) -> None:
    """Resume a paused search. You own it from then on."""
    _act(of(ctx), search, "resume")


def extend(
    ctx: typer.Context,
    search: Name,
    runs: Annotated[int | None, typer.Option(min=1, max=10000, help="Runs to add to the budget.")] = None,
    minutes: Annotated[int | None, typer.Option(min=1, max=100000, help="Minutes to add to the budget.")] = None,
    json: Json = False,
) -> None:
    """Add runs or minutes to the budget. A finished search continues, and ends with another confirmation."""
    _act(of(ctx), search, "extend", {key: each for key, each in (("runs", runs), ("minutes", minutes)) if each})


def change(
    ctx: typer.Context,
    search: Name,
    vary: Annotated[list[str] | None, typer.Option(help="A setting to add, with its range. Repeatable.")] = None,
    fix: Annotated[list[str] | None, typer.Option(help='A setting to fix, such as "jit=off". Repeatable.')] = None,
    free: Annotated[list[str] | None, typer.Option(help="A fixed setting to vary again. Repeatable.")] = None,
    json: Json = False,
) -> None:
    """Add settings or fix them at a value, from the next round on."""
    fixed = dict(each.partition("=")[::2] for each in fix or [])
    _act(of(ctx), search, "change", {"add": vary or [], "fix": fixed, "free": free or []})


def pick(
    ctx: typer.Context,
    search: Name,
    trials: Annotated[list[int] | None, typer.Argument(help="Numbers of trials. None: the search chooses.")] = None,
    json: Json = False,
) -> None:
    """Choose the trials that the confirmation runs."""
    _act(of(ctx), search, "pick", {"trials": trials or []})


def stop(ctx: typer.Context, search: Name, json: Json = False) -> None:
    """Stop a search without a confirmation. The campaign of its round is cancelled. This cannot be undone."""
    _act(of(ctx), search, "stop")


def _act(session: Session, search: str, verb: str, body: dict[str, Any] | None = None) -> None:
    _show(session, session.client.post(f"searches/{ids.search(session.client, search)}/{verb}/", body))


def _show(session: Session, detail: dict[str, Any]) -> None:
    session.tell(detail, lambda: tables.lines(*_lines(detail)))


def _lines(detail: dict[str, Any]) -> list[str]:
    """The state, the space, and the verdict of the confirmation."""
    confirmation = detail["confirmation"]
    default = f"campaign {detail['campaign'][:8]} on {detail['host_name']}"
    lines = [
        f"{detail['name']}: {detail['state']}, {_budget(detail)}",
        detail["state_reason"],
        f"searches for better values than {default}; owner {detail['owner']}",
        *detail["space"],
        *_earlier(detail),
        *(f"fixed: {name} = {value}" for name, value in detail["fixed"].items()),
        *(f"constraint: {constraint}" for constraint in detail["constraints"]),
        *([f"Pareto front of {detail['metric']} and {second}"] if (second := detail.get("second_metric")) else []),
        *([f"picked to confirm: trial {', '.join(map(str, picked))}"] if (picked := detail.get("picked")) else []),
    ]
    if confirmation:
        lines += [f"confirmation: campaign {confirmation['campaign'][:8]}", *confirmation["findings"]]
        lines += [confirmation["twin"]] if confirmation.get("twin") else []
    return lines


def _earlier(detail: dict[str, Any]) -> list[str]:
    """ "learns from 12 trials of earlier searches; left out: 3 (another default)"."""
    left_out = ", ".join(f"{count} ({reason})" for reason, count in detail.get("earlier_left_out", {}).items())
    if not detail["earlier_trials"] and not left_out:
        return []
    learns = f"learns from {detail['earlier_trials']} trials of earlier searches"
    return [f"{learns}; left out: {left_out}" if left_out else learns]


def _budget(detail: dict[str, Any]) -> str:
    """ "8 of 75 runs, 12 of 30 minutes"."""
    runs, minutes = detail["budget_runs"], detail["budget_minutes"]
    limits = [f"{detail['spent_runs']}{f' of {runs}' if runs else ''} runs"]
    limits += [f"{detail['spent_minutes']:.0f} of {minutes} minutes"] if minutes else []
    left_s = detail["remaining_s"]
    limits += [] if left_s is None else [f"at most about {math.ceil(left_s / 60)} minutes left"]
    return ", ".join(limits)


def _cells(trial: dict[str, Any]) -> tuple[Any, ...]:
    values = ", ".join(f"{name}={text}" for name, text in trial["settings"].items())
    states = {"asked": "waiting", "breaks_limit": "breaks a constraint"}
    state = states.get(trial["state"], trial["state"].replace("_", " "))
    values = f"{values}; {trial['reason']}" if trial["state"] == "breaks_limit" else values
    second = trial.get("second_change")
    pareto = [tables.change(**second), trial["front"] or "–"] if second else []
    return trial["number"], state, trial["blocks"], tables.change(**trial["change"]), *pareto, values
