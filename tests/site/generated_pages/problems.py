"""Reference of errors: the API's problems, those of a run, and how a run may end."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from http import HTTPStatus

from agents import errors as agent_errors
from apps.web.problems import HINTS, STATUS, Problem
from common import errors
from tests.site import markdown

TOLD = re.compile(r"[├└]── (\w+)\s+(.+)")  # a line of the tree in agents/errors.py
HEAD = """\
# Errors

Every error says what is wrong, names the field or host, and says what to do next. It has one of four causes: *plan*
(the request), *host* (the machine), *agent* (the program of Proving Ground there), *workload* (the tool).
Generated from `common/errors.py`, `agents/errors.py` and the responses of the API. The exit codes of `proving` are in
[its help](command-line.md#exit-codes).

## A problem of the API

A response with a status from 400 on is `application/problem+json`:

"""


def page() -> str:
    parts = [
        markdown.table(
            ("field", "content"), [(f"`{name}`", field.help_text or "") for name, field in Problem().fields.items()]
        ),
        "## Status\n",
        markdown.table(("status", "when", "what to do"), _statuses()),
        "## Errors of the server\n",
        markdown.table(("error", "is a kind of", "cause", "meaning"), _errors(errors, errors.ProvingError)),
        "## Errors of a run\n",
        "The agent ends a run with one of these. `outcome` is the outcome of the run.\n",
        markdown.table(("error", "is a kind of", "cause", "outcome", "meaning"), _failures()),
    ]
    return HEAD + "\n".join(parts)


def _statuses() -> Iterator[tuple[str, str, str]]:
    for kind, code in STATUS.items():
        if kind is not errors.ProvingError:
            yield _status(code), f"`{kind.__name__}`: {_about(kind)}", "as `hint` says"
    yield from ((_status(code), HTTPStatus(code).phrase.lower(), hint) for code, hint in HINTS.items())
    yield _status(500), "any other error of the server", "read the log of the server"


def _status(code: int) -> str:
    return f"{code} {HTTPStatus(code).phrase}"


def _kinds(module: object, base: type[Exception]) -> list[type[Exception]]:
    """In the order of their writing."""
    return [each for each in vars(module).values() if inspect.isclass(each) and issubclass(each, base)]


def _about(kind: type[Exception]) -> str:
    own = vars(kind).get("__doc__") or ""
    return " ".join(own.split("\n\n")[0].split())


def _errors(module: object, base: type[Exception]) -> list[tuple[str, ...]]:
    return [
        (f"`{kind.__name__}`", f"`{kind.__base__.__name__}`", getattr(kind, "blame", ""), _about(kind))  # type: ignore[union-attr]
        for kind in _kinds(module, base)
    ]


def _failures() -> Iterator[tuple[str, ...]]:
    explanations = dict(TOLD.findall(agent_errors.__doc__ or ""))
    for name, above, blame, about in _errors(agent_errors, agent_errors.Failure):
        kind = getattr(agent_errors, name.strip("`"))
        yield name, above, blame, f"`{kind.outcome}`", explanations.get(kind.__name__) or about
