"""command: a program of the team, with declared figures in its output. It needs a permission and uses no shell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Optional

from ..errors import Unplannable
from .base import DAY_S, FIGURES, Context, Metric, Options, Workload, declared

if TYPE_CHECKING:
    from .base import Stage

_LINES = {"type": "string", "maxLength": 100000}


class Command(Workload):
    kind = "command"
    title = "Command"
    help = "Your own program; regular expressions read its output. Requires the permission to run commands"
    metrics: dict[str, Metric] = {}
    schema = {
        "type": "object",
        "title": "Command",
        "properties": {
            "program": {
                "type": "string",
                "pattern": r"^[^\s\x00-\x1f-][^\x00-\x1f]{0,1000}$",
                "title": "Program",
                "description": "An absolute path, or a name on the PATH of the host. It runs without a shell",
            },
            "arguments": {
                **_LINES,
                "title": "Arguments",
                "description": "One per line, passed unchanged: no quotes, no expansion",
            },
            "patterns": {
                **_LINES,
                "title": "Figures in its output",
                "description": "One regular expression per line; each named group is a figure, such as "
                "(?P<tps>[0-9.]+) transactions. The last match counts",
            },
            "figures": {**FIGURES, "title": "Units and directions of the figures"},
            "limit_s": {
                "type": "integer",
                "minimum": 1,
                "maximum": int(7 * DAY_S),
                "title": "Time limit (s)",
                "default": 3600,
            },
        },
        "required": ["program"],
        "additionalProperties": False,
    }

    def check(self, options: Options) -> None:
        named = {name for line in patterns(options) for name in _groups(line)}
        declared = set(options.get("figures", {}))
        for name in sorted(named - declared):
            accepted = f"unit and better of {name}, a figure of a pattern"
            raise Unplannable(f"command.figures.{name}", None, accepted)
        for name in sorted(declared - named):
            raise Unplannable(f"command.figures.{name}", options["figures"][name], "figures of a pattern")

    def figures(self, options: Options) -> dict[str, Metric]:
        return declared(options)

    def code(self, options: Options) -> dict[str, str]:
        return {"program": " ".join([str(options.get("program", "")), *options.get("arguments", "").splitlines()])}

    def argv(self, options: Options, context: Context) -> list[str]:
        return [context.program, *(line for line in options.get("arguments", "").splitlines() if line)]

    def measure(self, options: Options, stage: Stage) -> None:
        argv = self.argv(options, Context(stage.tool(options["program"]), str(stage.out), ""))
        stage.measure(argv, limit_s=float(options.get("limit_s", 3600)), total_s=None, on_line=lambda line: None)


def patterns(options: dict[str, Any]) -> list[str]:
    return [line for line in options.get("patterns", "").splitlines() if line.strip()]


def _groups(line: str) -> list[str]:
    try:
        compiled: Optional[re.Pattern[str]] = re.compile(line)
    except re.error as error:
        raise Unplannable("command.patterns", line, f"a regular expression of Python ({error})") from error
    if not compiled or not compiled.groupindex:
        raise Unplannable("command.patterns", line, "a pattern with a named group, such as (?P<tps>[0-9.]+)")
    return list(compiled.groupindex)
