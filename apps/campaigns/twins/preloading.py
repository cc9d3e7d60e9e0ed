"""pg_stat_statements in the private cluster of a twin: the report of a run compares its counts with production's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.campaigns.models import DataSet
from apps.campaigns.twins.names import HOME

LIBRARY = "pg_stat_statements"


def settings(given: dict[str, Any], dataset: DataSet | None, target: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings of a run, with the library preloaded if it is a twin's in a private cluster."""
    if dataset is None or not is_twin(dataset) or target is None or target["kind"] != "private":
        return given
    parameters = given.get("postgresql", {})
    libraries = [each.strip() for each in str(parameters.get("shared_preload_libraries", "")).split(",")]
    wanted = [each for each in libraries if each]
    wanted += [LIBRARY] if LIBRARY not in wanted else []
    return {**given, "postgresql": {**parameters, "shared_preload_libraries": ",".join(wanted)}}


def is_twin(dataset: DataSet) -> bool:
    """Whether the data set was made from a capture."""
    steps = dataset.options.get("steps") or [{}]
    return dataset.kind == "sql" and str(steps[0].get("sql", "")).startswith(f"create schema {HOME}")
