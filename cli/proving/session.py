"""The session of a command: its connection, and its output as text or JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, cast

import typer
import typer.core
from rich.console import Console, RenderableType

from proving import config, tables
from proving.client import Client
from proving.errors import CliError

UNLIMITED = 10_000  # columns


class Session:
    """One call of the program."""

    json = False

    @cached_property
    def client(self) -> Client:
        return Client(config.load(), config.patience_s())

    @cached_property
    def out(self) -> Console:
        is_terminal = sys.stdout.isatty()
        # Nothing wraps in a file or a pipe, unless the user gives its width.
        width = None if is_terminal or os.environ.get("COLUMNS") else UNLIMITED
        return Console(highlight=False, soft_wrap=not is_terminal, width=width)

    @cached_property
    def err(self) -> Console:
        return Console(stderr=True, highlight=False, soft_wrap=True)

    def tell(self, data: Any, shown: Callable[[], RenderableType]) -> None:
        """Print `data` with --json, else `shown`."""
        if self.json:
            sys.stdout.write(tables.escaped(json.dumps(data, indent=2, ensure_ascii=False)) + "\n")
        else:
            self.out.print(shown())

    def say(self, message: str) -> None:
        """Print a remark to stderr."""
        self.err.print(tables.lines(message))

    def complain(self, error: CliError) -> None:
        if self.json:
            sys.stderr.write(tables.escaped(json.dumps(error.as_dict(), ensure_ascii=False)) + "\n")
        else:
            self.say("\n".join(error.lines()))


class Command(typer.core.TyperGroup):
    """Converts errors to messages and exit codes."""

    def invoke(self, ctx: Any) -> Any:
        ctx.obj = Session()
        try:
            return super().invoke(ctx)
        except CliError as error:
            ctx.obj.complain(error)
            raise typer.Exit(error.code) from error


def of(ctx: typer.Context) -> Session:
    return cast(Session, ctx.find_root().obj)


def _as_json(ctx: typer.Context, value: bool) -> bool:
    of(ctx).json = value
    return value


Json = Annotated[
    bool, typer.Option("--json", callback=_as_json, is_eager=True, help="Print JSON; errors are JSON on stderr.")
]
CampaignArgument = Annotated[
    str,
    typer.Argument(metavar="CAMPAIGN", help="Id of the campaign, the beginning of its id, its whole name, or last."),
]
