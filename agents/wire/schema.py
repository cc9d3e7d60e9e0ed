"""The part of JSON Schema that our settings and workloads use, so that a host trusts no request. Pure."""

from __future__ import annotations

import re
from typing import Any, Callable

from ..errors import Unplannable

Schema = dict[str, Any]

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
}


def check(schema: Schema, value: Any, field: str) -> None:
    """Unplannable, naming the field, when `value` breaks `schema`."""
    if "anyOf" in schema:
        _check_any(schema["anyOf"], value, field)
    _check_type(schema, value, field)
    if "enum" in schema and value not in schema["enum"]:
        raise Unplannable(field, value, ", ".join(str(v) for v in schema["enum"]))
    if isinstance(value, dict):
        _check_object(schema, value, field)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            check(schema.get("items", {}), item, f"{field}[{place}]")
    elif isinstance(value, str):
        _check_text(schema, value, field)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        _check_number(schema, value, field)


def _check_any(choices: list[Schema], value: Any, field: str) -> None:
    for choice in choices:
        try:
            return check(choice, value, field)
        except Unplannable:
            continue
    raise Unplannable(field, value, " or ".join(_describe(choice) for choice in choices))


def _check_type(schema: Schema, value: Any, field: str) -> None:
    types = schema.get("type", [])
    names = [types] if isinstance(types, str) else types
    if names and not any(_TYPES[name](value) for name in names):
        raise Unplannable(field, value, " or ".join(names))


def _check_object(schema: Schema, value: dict[str, Any], field: str) -> None:
    for name in schema.get("required", []):
        if name not in value:
            raise Unplannable(f"{field}.{name}", None, "a value; it is required")
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, item in value.items():
        if "propertyNames" in schema:
            check(schema["propertyNames"], name, f"{field}.{name} (its name)")
        if name in properties:
            check(properties[name], item, f"{field}.{name}")
        elif rest is False:
            raise Unplannable(f"{field}.{name}", item, f"only {', '.join(sorted(properties)) or 'nothing'}")
        elif isinstance(rest, dict):
            check(rest, item, f"{field}.{name}")


def _check_text(schema: Schema, value: str, field: str) -> None:
    if "pattern" in schema and not re.search(schema["pattern"], value):
        raise Unplannable(field, value, schema.get("description") or f"text that matches {schema['pattern']}")
    if len(value) > schema.get("maxLength", len(value)):
        raise Unplannable(field, value[:80] + "...", f"at most {schema['maxLength']} characters")


def _check_number(schema: Schema, value: float, field: str) -> None:
    low, high = schema.get("minimum", value), schema.get("maximum", value)
    if not low <= value <= high:
        bounds = [f">= {low}"] * ("minimum" in schema) + [f"<= {high}"] * ("maximum" in schema)
        raise Unplannable(field, value, " and ".join(bounds))


def _describe(schema: Schema) -> str:
    if "enum" in schema:
        return ", ".join(str(v) for v in schema["enum"])
    return str(schema.get("description") or schema.get("type"))
