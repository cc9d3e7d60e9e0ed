"""`proving export` and `proving import`."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from common.wording import counted
from proving import ids, tables
from proving.errors import Code, UsageError
from proving.session import CampaignArgument, Json, Session, of

Output = Annotated[
    str, typer.Option("--output", "-o", help="File, or - for stdout. Default: a name from the campaign.")
]


def export(
    ctx: typer.Context,
    campaign: CampaignArgument,
    file: Annotated[
        str, typer.Argument(help="File to export, such as runs.csv, campaign.json, report.html.")
    ] = "campaign.json",
    output: Output = "",
    json: Json = False,
) -> None:
    """Export a campaign, or its report, to a file."""
    session = of(ctx)
    key = ids.campaign(session.client, campaign)
    path = f"campaigns/{key}/export/{file}/"
    if output == "-":
        session.client.download(path, sys.stdout.buffer)
        return
    target = Path(output or f"campaign-{key[:8]}-{file}")
    written = _to_file(session, path, target)
    session.tell({"file": str(target), "bytes": written}, lambda: tables.lines(f"{target}, {written:,} bytes"))


def _to_file(session: Session, path: str, target: Path) -> int:
    """Write a file that gets its name only when it is complete."""
    part = target.with_name(target.name + ".part")
    try:
        with part.open("wb") as stream:
            written = session.client.download(path, stream)
        part.replace(target)
    except OSError as error:
        raise UsageError(str(error), field="--output", value=str(target), accepted="a writable file") from error
    finally:
        part.unlink(missing_ok=True)
    return written


def import_(
    ctx: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            exists=True, dir_okay=False, help="Outputs of tools, tables, or zips of them; or a recipe, NAME.yaml."
        ),
    ],
    name: Annotated[str, typer.Option(help="Name of the campaign.")] = "",
    question: Annotated[str, typer.Option(help="Question of the campaign.")] = "",
    host: Annotated[str, typer.Option(help="Host of the measurements; a new name is added.")] = "",
    pattern: Annotated[str, typer.Option(help="Pattern for levels in file names: {policy}-{n}.out")] = "",
    metric: Annotated[str, typer.Option(help="Figure to compare.")] = "",
    draft: Annotated[
        bool, typer.Option("--draft", help="Show how the files are understood, without importing them.")
    ] = False,
    json: Json = False,
) -> None:
    """Import old results as a campaign, or import a recipe. The same contents are imported only once."""
    session = of(ctx)
    if [file.suffix for file in files] in (["." + end] for end in ("yaml", "yml")):
        _recipe(session, files[0])
        return
    import_draft = _upload(session, files)
    options = {"name": name, "question": question, "host": host, "pattern": pattern, "metric": metric}
    fields = {field: each for field, each in options.items() if each}
    if fields and import_draft["campaign"]:
        options_text = ", ".join(f"--{field}" for field in fields)
        verb = "changes" if len(fields) == 1 else "change"
        session.say(f"The same contents were imported before, so {options_text} {verb} nothing: edit the campaign.")
    elif fields:
        import_draft = session.client.post(f"imports/{import_draft['id']}/say/", fields)
    if not draft:
        made = session.client.post(f"imports/{import_draft['id']}/commit/")
        summary = f"{made['id']}  {made['name']}: {counted(made['progress']['total'], 'run')}"
        session.tell(made, lambda: tables.lines(summary, f"{session.client.url}/campaigns/{made['id']}/"))
        return
    session.tell(import_draft, lambda: _understood(import_draft))
    if any(note["severity"] == "error" for note in import_draft["notes"]):
        raise typer.Exit(Code.USAGE)


def _recipe(session: Session, file: Path) -> None:
    made = session.client.post("recipes/", {"yaml": file.read_text()})
    session.tell(made, lambda: tables.lines(f"recipe {made['name']}, version {made['version']}"))


def _upload(session: Session, files: list[Path]) -> Any:
    with ExitStack() as stack:
        parts = [("files", (file.name, stack.enter_context(file.open("rb")))) for file in files]
        return session.client.post("imports/", files=parts)


def _understood(import_draft: dict[str, Any]) -> Any:
    notes = [(note["severity"], note["place"], note["message"], note["hint"]) for note in import_draft["notes"]]
    runs, metrics = counted(import_draft["count"], "run"), ", ".join(import_draft["metrics"])
    summary = f"import {import_draft['id']}: {runs}; metrics: {metrics}"
    return tables.below(tables.lines(summary), tables.table(("", "place", "message", "accepted"), notes))
