"""The parts of docs/reference/cli.md that are made from the program itself: python -m tests.cli.reference"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from proving.__main__ import app
from proving.errors import MEANING

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def with_part(text: str, name: str, part: str) -> str:
    """The document with a new text between the markers of `name`."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, _, rest = text.partition(begin)
    _, marker, after = rest.partition(end)
    if not marker:
        raise ValueError(f"{DOCUMENT.name} has no markers {begin.strip()} and {end}")
    return f"{before}{begin}{part.rstrip()}\n{end}{after}"


def part_of(text: str, name: str) -> str:
    match = re.search(rf"<!-- {name} -->\n(.*?)\n?<!-- /{name} -->", text, re.DOTALL)
    return match[1] if match else ""


def codes() -> str:
    rows = [f"| {int(code)} | {meaning} |" for code, meaning in MEANING.items()]
    return "\n".join(["| code | means |", "|---|---|", *rows])


def commands() -> str:
    group: Any = typer.main.get_command(app)
    return "\n\n".join(_command(name, command) for name, command in leaves(group))


def leaves(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each command with its whole name, such as "schedule pause"."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def _command(name: str, command: Any) -> str:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option"]
    usage = " ".join(["proving", name, *map(_argument, arguments)])
    required = [f"{option.opts[0]} {_metavar(option)}" for option in options if option.required]
    rows = [f"| {_name(each)} | {_cell(each.help or '')} |" for each in [*arguments, *options] if each.help]
    lines = [f"### proving {name}\n", f"{command.help}\n", f"    {' '.join([usage, *required])} [OPTIONS]\n"]
    return "\n".join([*lines, *(["| | |", "|---|---|", *rows] if rows else [])])


def _argument(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    many = "..." if argument.nargs == -1 and not argument.metavar else ""
    return f"{name}{many}" if argument.required else f"[{name}{many}]"


def _metavar(option: Any) -> str:
    return str(option.metavar or option.name.strip("_").upper())


def _name(each: Any) -> str:
    if each.param_type_name == "argument":
        return f"`{_argument(each).strip('[].')}`"
    takes = "" if each.is_flag else f" {_metavar(each)}"
    return ", ".join(f"`{option}{takes}`" for option in reversed(each.opts))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def render(text: str) -> str:
    """The document with both parts as the program has them now."""
    return with_part(with_part(text, "codes", codes()), "commands", commands())


if __name__ == "__main__":
    DOCUMENT.write_text(render(DOCUMENT.read_text()))
    sys.stdout.write(f"{DOCUMENT.name} is written\n")
