"""Errors and their exit codes.

CliError
    UsageError       the request is not possible; also the server's 4xx responses
    LoginError       no token, an unknown one, or one whose role does not include the action
    UnreachableError the server does not answer, or a host does not answer the server
    ProblemError     the server's own message, with one of the exit codes above
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any


class Code(IntEnum):
    """Exit codes. 1 and 2 have the usual meaning of shells and option parsers."""

    OK = 0
    FAILED = 1
    USAGE = 2
    REGRESSION = 3
    LOGIN = 4
    UNDECIDED = 5
    UNREACHABLE = 6
    INTERRUPTED = 130


MEANING = {
    Code.OK: "success; for `compare` and `stat`: nothing is worse by more than the minimum effect",
    Code.FAILED: "failed: a check failed, runs did not end ok, a campaign was cancelled, a file cannot be read, or the "
    "server failed or limits requests",
    Code.USAGE: "usage: a wrong option, or a value that the server refuses; the error shows what is accepted",
    Code.REGRESSION: "regression: `compare` or `stat` found a side that is worse by more than the minimum effect",
    Code.LOGIN: "not logged in, or the role does not permit it",
    Code.UNDECIDED: "`compare --strict`, `stat --strict`: the result is inconclusive or likely worse",
    Code.UNREACHABLE: "the server does not answer, or a host does not answer the server",
    Code.INTERRUPTED: "Ctrl-C; a watched campaign continues",
}


class CliError(Exception):
    """`field` and `value` are wrong. `accepted`: what to use instead, or what to do next."""

    code = Code.FAILED

    def __init__(self, message: str, *, field: str = "", value: Any = None, accepted: str = "") -> None:
        self.message, self.field, self.value, self.accepted = message, field, value, accepted
        super().__init__(message)

    def as_dict(self) -> dict[str, Any]:
        fields = {"message": self.message, "field": self.field, "value": self.value, "accepted": self.accepted}
        return {"error": fields | {"exit_code": int(self.code)}}

    def lines(self) -> list[str]:
        """Return the message, then field, value and accepted, if present."""
        fields = {"field": self.field, "value": self.value, "accepted": self.accepted}
        return [
            f"error: {self.message}",
            *(f"  {name}: {each}" for name, each in fields.items() if each not in ("", None)),
        ]


class UsageError(CliError):
    code = Code.USAGE


class LoginError(CliError):
    code = Code.LOGIN


class UnreachableError(CliError):
    code = Code.UNREACHABLE


class ProblemError(CliError):
    """application/problem+json, or any other error response. `sent`: the body that was refused."""

    def __init__(self, status: int, problem: Mapping[str, Any], sent: Any = None) -> None:
        field = str(problem.get("field", ""))
        message, hint = str(problem.get("title", f"status {status}")), str(problem.get("hint", ""))
        super().__init__(message, field=field, value=value_at(sent, field), accepted=hint)
        self.status, self.code = status, _code(status)
        self.others = [error for error in problem.get("errors", []) if error.get("field") != field]

    def lines(self) -> list[str]:
        return [*super().lines(), *(f"  {other['field']}: {other['title']}" for other in self.others)]


def _code(status: int) -> Code:
    if status in (401, 403):
        return Code.LOGIN
    if status in (502, 503, 504):
        return Code.UNREACHABLE
    return Code.FAILED if status >= 500 or status in (409, 429) else Code.USAGE


def value_at(body: Any, path: str) -> Any:
    """Return the value at factors.0.levels of a body; None if it has no such path."""
    for part in path.split("."):
        if isinstance(body, Mapping):
            body = body.get(part)
        elif isinstance(body, list) and part.isdecimal() and int(part) < len(body):
            body = body[int(part)]
        else:
            return None
    return body
