"""Preloads pg_stat_statements in the private cluster of a twin, because its counts are compared with production."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from apps.campaigns.models import DataSet
from apps.campaigns.twins.names import OWN_SCHEMA

LIBRARY = "pg_stat_statements"
MARK = re.compile(r"/\* (s\d\d) \*/")  # in each statement of a twin: the name of the statement of production
Steps = Sequence[Mapping[str, Any]]


def settings(
    requested: dict[str, Any], dataset: DataSet | None, steps: Steps, target: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The settings of a run; with the library, if it runs a twin and its cluster is private."""
    if not runs_twin(dataset, steps) or target is None or target["kind"] != "private":
        return requested
    parameters = requested.get("postgresql", {})
    libraries = [each.strip() for each in str(parameters.get("shared_preload_libraries", "")).split(",")]
    libraries = [each for each in libraries if each]
    libraries += [LIBRARY] if LIBRARY not in libraries else []
    return {**requested, "postgresql": {**parameters, "shared_preload_libraries": ",".join(libraries)}}


def runs_twin(dataset: DataSet | None, steps: Steps) -> bool:
    """Whether a campaign with this data set and these steps may run a twin: one of them was made from a capture."""
    return dataset is not None and (is_twin(dataset) or is_marked(steps))


def is_marked(steps: Steps) -> bool:
    """Whether a script has statements of a twin."""
    scripts = [each for step in steps for each in step["options"].get("scripts") or ()]
    return any(MARK.search(each.get("text", "")) for each in scripts)


def is_twin(dataset: DataSet) -> bool:
    """Whether the data set was made from a capture."""
    steps = dataset.options.get("steps") or [{}]
    return dataset.kind == "sql" and str(steps[0].get("sql", "")).startswith(f"create schema {OWN_SCHEMA}")
