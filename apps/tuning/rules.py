"""Rules for profiles: validation against the catalogue, patches by path, and differences. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match

from agents.settings import SETTINGS
from apps.tuning import gucs
from common.errors import PlanError

Settings = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class RevisionDifference:
    """A path with different values in two revisions; None if one lacks it."""

    path: str
    before: Any
    after: Any


def validate(settings: Mapping[str, Any]) -> None:
    """Raise PlanError with the first setting that the catalogue does not know or accept, and what it accepts."""
    if not isinstance(settings, Mapping):
        raise PlanError(
            "settings", f"{settings!r} is not an object", hint='for example {"cpu_affinity": {"server": "0"}}'
        )
    for name, requested in settings.items():
        if name not in SETTINGS:
            raise PlanError(f"settings.{name}", "is not in the catalogue", hint=f"known are: {', '.join(SETTINGS)}")
        check_schema(f"settings.{name}", requested, SETTINGS[name].schema)
    for name, value in settings.get("postgresql", {}).items():
        gucs.check(f"settings.postgresql.{name}", name, value)


def check_schema(path: str, value: Any, schema: Mapping[str, Any]) -> None:
    """Raise PlanError with the deepest field of `value` that `schema` refuses."""
    error = best_match(Draft202012Validator(schema).iter_errors(value))
    if error is None:
        return
    field = ".".join([path, *map(str, error.absolute_path)])
    raise PlanError(field, error.message, hint=_accepted(error))


def _accepted(error: ValidationError) -> str:
    schema = error.schema if isinstance(error.schema, Mapping) else {}
    if "enum" in schema:
        return "one of " + ", ".join(map(str, schema["enum"]))
    if error.validator == "additionalProperties":
        return "known are: " + ", ".join(schema.get("properties", {}))
    return str(schema.get("description", ""))


def patch(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `base` with each dotted path of `changes` set. A value of None removes the key."""
    patched = copy.deepcopy(dict(base))
    for path, value in changes.items():
        *parents, last = path.split(".")
        here = patched
        for key in parents:
            here = here.setdefault(key, {})
            if not isinstance(here, dict):
                raise PlanError(path, f"{key} is a value, not a group", hint="shorten the path")
        if value is None:
            here.pop(last, None)
        else:
            here[last] = value
    return patched


def diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[RevisionDifference]:
    """Return every path at which the two differ, sorted."""
    old, new = flatten(before), flatten(after)
    return [
        RevisionDifference(path, old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    ]


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Convert {"a": {"b": 1}} to {"a.b": 1}."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
