"""Follow a campaign to its end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from proving import ids, tables
from proving.errors import Code
from proving.session import CampaignArgument, Json, Session, of

ENDED = ("finished", "cancelled", "failed")
POLL_S = 2.0
PATIENCE_S = 600.0  # a server that is upgraded meanwhile comes back


def watch(ctx: typer.Context, campaign: CampaignArgument, json: Json = False) -> None:
    """Follow a campaign to its results, with progress and ETA. Ctrl-C does not end the campaign."""
    session = of(ctx)
    finish(session, ids.campaign(session.client, campaign))


def finish(session: Session, campaign: str) -> None:
    """Follow the campaign and print its results. Exits with 1 if runs failed."""
    found = _follow_or_leave(session, campaign)
    found = {"campaign": found, "results": session.client.get(f"campaigns/{campaign}/results/")}
    session.tell(found, lambda: shown(session, found))
    if not succeeded(found["campaign"]):
        raise typer.Exit(Code.FAILED)


def shown(session: Session, found: dict[str, Any]) -> Any:
    told = found["campaign"]
    words = f"{told['name']}: {told['state']}, {tables.progress(told['progress'])}"
    ways = (words, told["state_reason"], f"{session.client.url}/campaigns/{told['id']}/")
    return tables.below(tables.lines(*ways), tables.results(found["results"]))


def succeeded(campaign: dict[str, Any]) -> bool:
    return bool(campaign["state"] == "finished" and not campaign["progress"]["failed"])


def _follow_or_leave(session: Session, campaign: str) -> dict[str, Any]:
    try:
        return follow(session, campaign)
    except KeyboardInterrupt:
        short = campaign[:8]
        session.say(
            f"campaign {campaign} continues. To follow it: proving watch {short}; to end it: proving cancel {short}"
        )
        raise typer.Exit(Code.INTERRUPTED) from None


def follow(session: Session, campaign: str) -> dict[str, Any]:
    """The campaign after its results are processed. Draws a bar on a terminal, else prints a line per change."""
    session.client.patience_s = PATIENCE_S
    with _Bar(session) as show:
        while True:
            found: dict[str, Any] = session.client.get(f"campaigns/{campaign}/")
            show(found)
            if found["state"] in ENDED and (found["results_ready"] or found["state"] != "finished"):
                return found
            time.sleep(POLL_S)


class _Bar:
    """Draws the progress of the campaign on stderr when called with it."""

    def __init__(self, session: Session) -> None:
        self.session, self.last = session, ""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[eta]}"),
        )
        self.progress = Progress(*columns, console=session.err, transient=True)
        self.task = self.progress.add_task("runs", total=None, eta="")

    def __enter__(self) -> Callable[[dict[str, Any]], None]:
        if sys.stderr.isatty():
            self.progress.start()
            return self._draw
        return self._line

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

    def _draw(self, found: dict[str, Any]) -> None:
        told = found["progress"]
        words, total = f"{found['state']}{_failed(told)}", told["total"] or None
        self.progress.update(self.task, completed=told["done"], total=total, description=words, eta=_eta(told))

    def _line(self, found: dict[str, Any]) -> None:
        told = found["progress"]
        words = f"{found['state']}: {tables.progress(told)}"
        if words != self.last:
            self.session.say(f"{words}{', ' if _eta(told) else ''}{_eta(told)}")
        self.last = words


def _failed(told: dict[str, Any]) -> str:
    return f", {told['failed']} failed" if told["failed"] else ""


def _eta(told: dict[str, Any]) -> str:
    return f"ETA {tables.seconds(told['eta_s'])}" if told["eta_s"] else ""
