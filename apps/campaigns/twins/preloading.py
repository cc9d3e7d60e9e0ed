"""Preloads pg_stat_statements in the private cluster of a twin, because its counts are compared with production."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.campaigns.models import DataSet
from apps.campaigns.twins.names import OWN_SCHEMA

LIBRARY = "pg_stat_statements"


def settings(requested: dict[str, Any], dataset: DataSet | None, target: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings of a run; with the library, if its data set is a twin's and its cluster is private."""
    if dataset is None or not is_twin(dataset) or target is None or target["kind"] != "private":
        return requested
    parameters = requested.get("postgresql", {})
    libraries = [each.strip() for each in str(parameters.get("shared_preload_libraries", "")).split(",")]
    libraries = [each for each in libraries if each]
    libraries += [LIBRARY] if LIBRARY not in libraries else []
    return {**requested, "postgresql": {**parameters, "shared_preload_libraries": ",".join(libraries)}}


def is_twin(dataset: DataSet) -> bool:
    """Whether the data set was made from a capture."""
    steps = dataset.options.get("steps") or [{}]
    return dataset.kind == "sql" and str(steps[0].get("sql", "")).startswith(f"create schema {OWN_SCHEMA}")
