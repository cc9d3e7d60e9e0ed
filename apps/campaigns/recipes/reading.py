"""Parse a recipe from untrusted YAML, strictly, and write it as YAML. Pure.

Text can only become text, numbers, booleans, lists and mappings. Aliases are refused, so that a few lines cannot
expand. Errors name the field, its value and what is accepted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import yaml

from apps.campaigns.design.cells import DESIGNS
from apps.campaigns.design.orders import ORDERS
from apps.campaigns.design.plan import REBOOTS
from apps.campaigns.recipes.levels import GENERATORS
from apps.campaigns.recipes.topics import TOPICS
from apps.documents import StrictLoader, read_yaml
from apps.tuning import rules
from common.errors import PlanError

Recipe = dict[str, Any]
LARGEST = 64 * 1024  # bytes of a file
DEEPEST = 20
WHOLE = "recipe"  # subject of errors that concern no field
NAME = {
    "type": "string",
    "pattern": r"^[a-z][a-z0-9-]{0,39}\Z",
    "description": "accepted: 1 to 40 of a-z, 0-9 and -, starting with a letter",
}
_NOTED = 'accepted: text; quote words that YAML converts: "off", "on", "1.5"'
_LINE = {"type": "string", "minLength": 1, "maxLength": 1000, "description": _NOTED}
_FACTOR = {
    "type": "object",
    "properties": {
        "name": {**_LINE, "maxLength": 80},
        "order": {"type": "string", "enum": ["ascending", "descending"]},
        "generate": {"type": "string", "enum": sorted(GENERATORS)},
        "path": {**_LINE, "description": "path that the levels set, such as settings.postgresql.shared_buffers"},
        "levels": {
            "type": "array",
            "minItems": 1,
            "description": "[{label: ..., set: {path: value}}]",
            "items": {
                "type": "object",
                "properties": {
                    "label": {**_LINE, "maxLength": 80},
                    "set": {"type": "object", "description": "{path: value}, or {} for no change"},
                    "when": {"type": "object", "description": "{factor: [labels]}"},
                },
                "required": ["label", "set"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["name"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "version": {
            "type": "integer",
            "minimum": 1,
            "maximum": 100_000,
            "description": "accepted: a whole number from 1",
        },
        "name": NAME,
        "title": {**_LINE, "maxLength": 90},
        "question": _LINE,
        "topic": {"type": "string", "enum": list(TOPICS)},
        "about": {**_LINE, "maxLength": 10_000},
        "chart": _LINE,
        "restarts": _LINE,
        "needs": {"type": "string", "enum": ["user", "root"]},
        "metric": {**_LINE, "maxLength": 80},
        "delta": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "description": "0.02 is 2 %"},
        "repetitions": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "1 to 1000"},
        "order": {"type": "string", "enum": list(ORDERS)},
        "design": {"type": "string", "enum": list(DESIGNS)},
        "cells": {"type": "array", "items": {"type": "object"}, "description": "[{factor: label}]"},
        "sample": {"type": "integer", "minimum": 1, "description": "combinations of a random sample"},
        "reboot": {"type": "string", "enum": list(REBOOTS)},
        "nuisance": {"type": "object"},
        "settings": {"type": "object"},
        "dataset": {
            "type": "object",
            "properties": {"kind": {"type": "string"}, "options": {"type": "object"}},
            "required": ["kind", "options"],
            "additionalProperties": False,
        },
        "steps": {"type": "array", "minItems": 1, "items": {"type": "object"}},
        "factors": {"type": "array", "minItems": 1, "items": _FACTOR},
    },
    "required": [
        *("version", "name", "title", "question", "about", "chart", "restarts", "metric", "delta", "repetitions"),
        *("order", "steps", "factors"),
    ],
    "additionalProperties": False,
}


class _Strict(StrictLoader):
    """Also refuses keys that are not text."""

    deepest = DEEPEST

    def accept_key(self, key: Any) -> None:
        if key.tag != "tag:yaml.org,2002:str":
            raise yaml.MarkedYAMLError(
                problem=f"{key.value!r:.60} is not text in YAML: quote the name", problem_mark=key.start_mark
            )


def parse(text: str) -> Recipe:
    """Parse a recipe. PlanError names the line that is not YAML, or the field that is not valid."""
    if len(text.encode(errors="surrogatepass")) > LARGEST:
        raise PlanError(
            "yaml", f"it is longer than {LARGEST // 1024} KiB", hint="a recipe should have one or two pages"
        )
    read = _loaded(text)
    _check_plain(WHOLE, read)
    _check_schema(read)
    for place, factor in enumerate(read["factors"]):
        _check_factor(f"factors.{place}", factor)
    return dict(read)


def _loaded(text: str) -> Any:
    try:
        return read_yaml(text, _Strict)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise PlanError(
            "yaml", f"{where}{error.problem or error.context}", hint="see docs/guides/recipes.md for an example"
        ) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise PlanError("yaml", f"{error}"[:300], hint="plain YAML in UTF-8") from error


def _check_plain(path: str, value: Any) -> None:
    """Raise PlanError for a value that JSON, and so the database, cannot store."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            _check_plain("name", name)
            _check_plain(_below(path, name), each)
    elif isinstance(value, list):
        for place, each in enumerate(value):
            _check_plain(_below(path, place), each)
    elif isinstance(value, str):
        strange = next((c for c in value if (c < " " and c not in "\n\t") or "\ud800" <= c <= "\udfff"), "")
        if strange:
            raise PlanError(path, f"the recipe contains the character {strange!r}", hint="remove control characters")
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 63:
        raise PlanError(path, "a number has more than 64 bits", hint="quote it if it is text")
    elif isinstance(value, float) and not math.isfinite(value):
        raise PlanError(path, f"{value} is not a finite number", hint="use a finite number")
    elif value is not None and not isinstance(value, int | float):
        raise PlanError(path, f"{str(value)[:60]!r} is a {type(value).__name__} in YAML", hint="quote it")


def _below(path: str, name: Any) -> str:
    return str(name) if path == WHOLE else f"{path}.{name}"


def _check_schema(read: Any) -> None:
    try:
        rules.check_schema(WHOLE, read, SCHEMA)
    except PlanError as error:
        error.subject = error.subject.removeprefix(f"{WHOLE}.")
        raise PlanError(error.subject, error.message[:300], hint=error.hint or "see docs/guides/recipes.md") from error


def _check_factor(field: str, factor: Mapping[str, Any]) -> None:
    if ("levels" in factor) == ("generate" in factor):
        problem = "both levels and generate" if "levels" in factor else "neither levels nor generate"
        raise PlanError(field, f"{factor['name']!r} has {problem}", hint="use either levels or generate")
    if ("generate" in factor) != ("path" in factor):
        hint = "use generate: NAME with path: settings.postgresql.shared_buffers; levels contain their own paths"
        raise PlanError(f"{field}.path", "generate needs a path, and a path needs generate", hint=hint)


class _Dumper(yaml.SafeDumper):
    """Writes scripts as literal blocks, and no aliases, which are hard to read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def dump(recipe: Recipe) -> str:
    """Return the recipe as YAML that `parse` accepts."""
    return str(yaml.dump(recipe, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))
