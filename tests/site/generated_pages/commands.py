"""Reference of the two command lines: `proving`, and manage.py on the server."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.core.management import find_commands, load_command_class
from django.core.management.base import BaseCommand
from typer.testing import CliRunner

from proving.__main__ import app
from tests.cli import reference
from tests.site import markdown

PLAIN = {"COLUMNS": "88", "TERMINAL_WIDTH": "88", "NO_COLOR": "1", "TERM": "dumb"}
COMMAND_LINE_HEAD = """\
# The help of proving

The output of `--help` of each command, and the exit codes. [The command line](../docs/reference/cli.md) explains
installation, login, and use in a pipeline.

## Exit codes

"""
MANAGEMENT_HEAD = """\
# Commands of the server

Proving Ground's commands of `manage.py`, for operators of the server. With compose, put `docker compose exec web`
before `python manage.py`. [In production](../docs/operations/production.md) says when to use each. All accept Django's
options as well. Django's own commands, such as `migrate` and `clearsessions`, are also available.

"""


def command_line() -> str:
    names = [
        "",
        *(command.name or command.callback.__name__ for command in app.registered_commands if command.callback),
    ]
    return COMMAND_LINE_HEAD + reference.codes() + "\n\n" + "\n".join(map(_help, names))


def _help(name: str) -> str:
    done = CliRunner().invoke(app, [name, "--help"] if name else ["--help"], env=PLAIN, prog_name="proving")
    if done.exit_code:
        raise RuntimeError(f"proving {name} --help: status {done.exit_code}: {done.output}")
    return f"## {f'proving {name}'.strip()}\n\n" + markdown.fenced(_trimmed(done.output))


def _trimmed(text: str) -> str:
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    return "\n".join(lines).strip("\n")


def management() -> str:
    return MANAGEMENT_HEAD + "\n".join(_command(name, command) for name, command in sorted(ours()))


def ours() -> Iterator[tuple[str, BaseCommand]]:
    """Name and command of each command of the server's apps."""
    for config in apps.get_app_configs():
        if config.name.startswith("apps."):
            for name in find_commands(f"{config.path}/management"):
                yield name, load_command_class(config.name, name)


def _command(name: str, command: BaseCommand) -> str:
    usual = {action.dest for action in BaseCommand().create_parser("manage.py", name)._actions}
    own = [action for action in command.create_parser("manage.py", name)._actions if action.dest not in usual]
    usage = " ".join(["python manage.py", name, *map(_usage, own)])
    rows = [(f"`{_name(action)}`", action.help or "") for action in own]
    lines = [f"## {name}\n", f"{command.help}\n", markdown.fenced(usage)]
    return "\n".join([*lines, *([markdown.table(("argument", "means"), rows)] if rows else [])])


def _name(action: argparse.Action) -> str:
    if action.nargs == 0:
        return action.option_strings[-1]
    value: Any = action.metavar or action.dest.upper()
    many = "..." if action.nargs in ("+", "*") else ""
    return " ".join([*action.option_strings[-1:], f"{value}{many}"])


def _usage(action: argparse.Action) -> str:
    return f"[{_name(action)}]" if not action.required else _name(action)
