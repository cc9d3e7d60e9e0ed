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
PATIENCE_S = 600.0  # a server may be unavailable during an upgrade


def watch(ctx: typer.Context, campaign: CampaignArgument, json: Json = False) -> None:
    """Follow a campaign to its results, with progress and ETA. Ctrl-C does not end the campaign."""
    session = of(ctx)
    finish(session, ids.campaign(session.client, campaign))


def finish(session: Session, campaign: str) -> None:
    """Follow the campaign and print its results. Exits with 1 if runs failed."""
    ended = _follow_or_leave(session, campaign)
    overview = {"campaign": ended, "results": session.client.get(f"campaigns/{campaign}/results/")}
    session.tell(overview, lambda: shown(session, overview))
    if not succeeded(overview["campaign"]):
        raise typer.Exit(Code.FAILED)


def shown(session: Session, overview: dict[str, Any]) -> Any:
    campaign = overview["campaign"]
    summary = f"{campaign['name']}: {campaign['state']}, {tables.progress(campaign['progress'])}"
    ways = (summary, campaign["state_reason"], f"{session.client.url}/campaigns/{campaign['id']}/")
    return tables.below(tables.lines(*ways), tables.results(overview["results"]))


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
            current: dict[str, Any] = session.client.get(f"campaigns/{campaign}/")
            show(current)
            if current["state"] in ENDED and (current["results_ready"] or current["state"] != "finished"):
                return current
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

    def _draw(self, campaign: dict[str, Any]) -> None:
        progress = campaign["progress"]
        description, total = f"{campaign['state']}{_failed(progress)}", progress["total"] or None
        self.progress.update(
            self.task, completed=progress["done"], total=total, description=description, eta=_eta(progress)
        )

    def _line(self, campaign: dict[str, Any]) -> None:
        progress = campaign["progress"]
        line = f"{campaign['state']}: {tables.progress(progress)}"
        if line != self.last:
            self.session.say(f"{line}{', ' if _eta(progress) else ''}{_eta(progress)}")
        self.last = line


def _failed(progress: dict[str, Any]) -> str:
    return f", {progress['failed']} failed" if progress["failed"] else ""


def _eta(progress: dict[str, Any]) -> str:
    return f"ETA {tables.seconds(progress['eta_s'])}" if progress["eta_s"] else ""
