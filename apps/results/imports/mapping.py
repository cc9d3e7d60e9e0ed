"""The mapping of an import, as JSON of SCHEMA: columns, names of files, and fields of the campaign. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.results.imports.columns import USES
from apps.tuning import rules
from common.errors import PlanError

_TEXT = {"type": "string", "maxLength": 120}
_USE = {
    "type": "object",
    "properties": {
        "as": {"type": "string", "enum": list(USES)},
        "name": {"type": "string", "maxLength": 60},
        "unit": {"type": "string", "maxLength": 20},
        "better": {"type": "string", "enum": ["", "higher", "lower"]},
        "step": {"type": "string", "pattern": "^[a-z0-9_-]{0,40}$"},
        "levels": {
            "type": "object",
            "additionalProperties": _TEXT,
            "description": 'cell -> level, "*" for all others: {"0": "none", "*": "huge pages"}',
        },
    },
    "required": ["as"],
    "additionalProperties": False,
}
SCHEMA = {
    "type": "object",
    "properties": {
        "pattern": {
            "type": "string",
            "maxLength": 200,
            "description": "pattern of levels in file names: {policy}-{n}.out",
        },
        "columns": {"type": "object", "additionalProperties": _USE, "description": "column -> its use"},
        "order": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": _TEXT, "maxItems": 1000},
            "description": "factor -> its levels, the baseline first; unnamed levels follow",
        },
        "host": {"type": "string", "maxLength": 63, "description": "the host of the measurements"},
        "name": {"type": "string", "maxLength": 120},
        "question": {"type": "string", "maxLength": 2000},
        "metric": {"type": "string", "maxLength": 40},
        "delta": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "description": "0.02 is 2 %"},
    },
    "additionalProperties": False,
}
# Fields of the campaign.
NEEDED = {
    "name": "name of the campaign",
    "question": "the question that the results answer",
    "host": "accepted: a known host, or a new name",
    "metric": "one of the figures",
}
DELTA = 0.02


def check(mapping: Any) -> None:
    """Raise PlanError at the invalid field."""
    rules.check_schema("mapping", mapping, SCHEMA)


def complete(mapping: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    """Complete the mapping from the manifest. PlanError at the first required field that neither has."""
    completed: dict[str, Any] = {"delta": DELTA, **about, **{k: v for k, v in mapping.items() if v not in ("", None)}}
    check({key: value for key, value in completed.items() if key in SCHEMA["properties"]})  # type: ignore[operator]
    for field, hint in NEEDED.items():
        if not str(completed.get(field) or "").strip():
            raise PlanError(field, "is missing", hint=hint)
    return completed
