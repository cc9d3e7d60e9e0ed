"""Parses JSON and YAML from users and hosts, with a limit on nesting. Pure.

Invalid input raises a ValueError that says where, or a yaml.MarkedYAMLError with line and column.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

DEEPEST = 50


def read_json(text: str | bytes, deepest: int = DEEPEST) -> Any:
    """Parse JSON. ValueError if it is invalid, or nested deeper than `deepest` levels."""
    try:
        read = json.loads(text)
    except RecursionError as error:
        raise _too_deep(deepest) from error
    check_depth(read, deepest)
    return read


def check_depth(value: Any, deepest: int = DEEPEST) -> None:
    """Raise ValueError if lists and mappings are nested deeper than `deepest` levels."""
    level = [value]
    for _ in range(deepest + 1):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return
    raise _too_deep(deepest)


def _inside(value: Any) -> list[Any]:
    held = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [each for each in held if isinstance(each, dict | list)]


def _too_deep(deepest: int) -> ValueError:
    return ValueError(f"it is nested deeper than {deepest} levels")


class StrictLoader(yaml.SafeLoader):
    """Refuses aliases (which turn a small text into a huge tree), deep nesting and duplicate keys. Loading stops at the
    first of them, so a text of brackets is cheap."""

    deepest = DEEPEST
    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="aliases (*name) are not supported: repeat the value", problem_mark=mark)
        if self.depth == self.deepest:
            raise yaml.MarkedYAMLError(problem=f"it is nested deeper than {self.deepest} levels", problem_mark=mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys: set[str] = set()
        for key, _ in node.value:
            self.accept_key(key)
            if key.value in keys:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r:.60} appears twice", problem_mark=key.start_mark)
            keys.add(key.value)
        return super().construct_mapping(node, deep=deep)

    def accept_key(self, key: Any) -> None:
        """Raise MarkedYAMLError if the key is not a scalar."""
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.MarkedYAMLError(problem="a key is a list or a mapping: use text", problem_mark=key.start_mark)


def read_yaml(text: str, loader: type[StrictLoader] = StrictLoader) -> Any:
    """Parse YAML. yaml.YAMLError or ValueError if it is invalid or refused by `loader`."""
    try:
        return yaml.load(text, Loader=loader)  # noqa: S506 - a safe loader, and stricter
    except RecursionError as error:
        raise _too_deep(loader.deepest) from error
