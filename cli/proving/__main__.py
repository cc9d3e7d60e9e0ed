"""The commands, in the order of the help."""

from __future__ import annotations

from typing import Annotated

import typer

from proving import version
from proving.commands import (
    compare,
    compare_outputs,
    decide,
    lists,
    login,
    parse,
    remote,
    run,
    schedule,
    search,
    token,
    transfer,
    twin,
    watch,
)
from proving.session import Command

HELP = "Start and watch PostgreSQL benchmark campaigns from the command line, and fail a pipeline on a regression."
app = typer.Typer(name="proving", cls=Command, help=HELP, no_args_is_help=True, pretty_exceptions_enable=False)
schedules = typer.Typer(name="schedule", help=schedule.HELP, no_args_is_help=True)
for each in (schedule.create, schedule.show, schedule.pause, schedule.resume, schedule.delete):
    schedules.command()(each)
twins = typer.Typer(name="twin", help=twin.HELP, no_args_is_help=True)
for each_twin in (twin.capture, twin.script, twin.show, twin.create):
    twins.command()(each_twin)
searches = typer.Typer(name="search", help=search.HELP, no_args_is_help=True)
for command in (
    search.create,
    search.show,
    search.importance,
    search.pause,
    search.resume,
    search.extend,
    search.change,
    search.pick,
    search.stop,
):
    searches.command()(command)
tokens = typer.Typer(name="token", help=token.HELP, no_args_is_help=True)
for each_token in (token.create, token.ls, token.rotate, token.revoke):
    tokens.command()(each_token)
remotes = typer.Typer(name="remote", help=remote.HELP, no_args_is_help=True)
remotes.command()(remote.add)
remotes.command()(remote.ls)
remotes.command()(remote.check)
remotes.command()(remote.rm)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(version.line())
        raise typer.Exit


@app.callback()
def options(
    show: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    pass


app.command()(login.login)
app.command()(login.whoami)
app.command()(lists.hosts)
app.command()(run.run)
app.command()(watch.watch)
app.command()(lists.check)
app.command()(run.start)
app.command()(run.cancel)
app.command()(run.archive)
app.command()(run.unarchive)
app.add_typer(schedules)
app.add_typer(searches)
app.add_typer(remotes)
app.command()(lists.ls)
app.command()(lists.show)
app.command()(compare.compare)
app.command()(decide.decide)
app.command()(transfer.export)
app.command("import")(transfer.import_)
app.add_typer(twins)
app.add_typer(tokens)
app.command()(parse.parse)
app.command()(compare_outputs.stat)

if __name__ == "__main__":
    app()
