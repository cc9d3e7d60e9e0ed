"""`--set NAME=LEVELS`: change the factors of a recipe. Pure."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from typing import Any

from proving.errors import UsageError

ROOTS = ("settings", "workload", "steps", "dataset", "target")
Factor = dict[str, Any]
ACCEPTED = (
    "FACTOR=LABEL,LABEL with labels of the recipe, or PATH=VALUE,VALUE such as settings.postgresql.work_mem=4MB,64MB"
)


def applied(factors: Sequence[Factor], assignments: Sequence[str]) -> list[Factor]:
    """Return the factors after every --set. UsageError names an invalid one."""
    made = [dict(factor) for factor in factors]
    for assignment in assignments:
        name, equals, rest = assignment.partition("=")
        values = levels(rest)
        if not equals or not values:
            raise UsageError("no levels given", field="--set", value=assignment, accepted=ACCEPTED)
        if name in [factor["name"] for factor in made]:
            made = [_chosen(each, values) if each["name"] == name else each for each in made]
        elif name.split(".")[0] in ROOTS and "." in name:
            made = _by_path(made, name, values)
        else:
            known = ", ".join(factor["name"] for factor in made)
            accepted = f"a factor of the recipe ({known}), or a path below {', '.join(ROOTS)}"
            raise UsageError(f"{name!r} is not a factor", field="--set", value=assignment, accepted=accepted)
    return made


def levels(text: str) -> list[str]:
    """Split at commas. A level with a comma is in double quotes."""
    return [each.strip() for each in next(csv.reader([text], skipinitialspace=True), []) if each.strip()]


def value(path: str, text: str) -> Any:
    """Return a number or a boolean as in JSON. PostgreSQL's own keywords, such as on, remain text."""
    if path.startswith("settings.postgresql."):
        return text
    try:
        read = json.loads(text)
    except ValueError:
        return text
    return read if isinstance(read, int | float | bool) else text


def _chosen(factor: Factor, labels: Sequence[str]) -> Factor:
    """Return the factor with these levels: those of the recipe by label, or new ones if the factor varies a single
    path."""
    known = {level["label"]: level for level in factor["levels"]}
    paths = {path for level in known.values() for path in level["set"]}
    strange = [label for label in labels if label not in known]
    if strange and len(paths) != 1:
        accepted = "one of: " + ", ".join(known)
        raise UsageError(
            f"{factor['name']} has no level of this name", field="--set", value=strange[0], accepted=accepted
        )
    return factor | {"levels": [known.get(label) or _level(paths.copy().pop(), label) for label in labels]}


def _level(path: str, label: str) -> dict[str, Any]:
    return {"label": label, "set": {path: value(path, label)}}


def _by_path(factors: Sequence[Factor], path: str, values: Sequence[str]) -> list[Factor]:
    """Return the factors with this path. One value applies to every run; several are a factor, which replaces one
    that varies the same path or nothing."""
    if len(values) == 1:
        fixed = {path: value(path, values[0])}
        first, *rest = factors or [_factor(path, values)]
        return [first | {"levels": [{**level, "set": level["set"] | fixed} for level in first["levels"]]}, *rest]
    others = [factor for factor in factors if not _gives_way(factor, path)]
    return [*others, _factor(path, values)]


def _gives_way(factor: Factor, path: str) -> bool:
    sets = [set(level["set"]) for level in factor["levels"]]
    return sets == [set()] or all(each == {path} for each in sets)


def _factor(path: str, values: Sequence[str]) -> Factor:
    return {"name": path.rpartition(".")[2], "levels": [_level(path, each) for each in values]}
