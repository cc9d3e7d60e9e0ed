"""Recipes by topic, and the search in recipes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# Topics of recipes and their headings, in the order of the page. Recipes without a topic belong to the last one.
TOPICS = {
    "memory": "Memory and huge pages",
    "cpu": "CPUs and NUMA",
    "connections": "Connections and latency",
    "wal": "WAL and checkpoints",
    "replication": "Replication",
    "storage": "Storage",
    "workload": "Versions and whole workloads",
}
OTHER = "workload"
_TEXTS = ("name", "title", "question", "about", "tools")


def matches(recipe: Mapping[str, Any], query: str) -> bool:
    """Whether each word of the query occurs in its texts, or in a setting that it varies or sets."""
    text = " ".join((*(str(recipe.get(name, "")) for name in _TEXTS), *_parameters(recipe))).lower()
    return all(word in text for word in query.lower().split())


def _parameters(recipe: Mapping[str, Any]) -> Iterable[str]:
    for factor in recipe["factors"]:
        yield from (factor["name"], factor.get("path", ""), factor.get("generate", ""))
        for level in factor.get("levels", ()):
            yield from level["set"]
    for kind, options in recipe.get("settings", {}).items():
        yield kind
        yield from options


def by_topic(recipes: Iterable[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Return (heading, recipes) of each topic that has any, in the order of TOPICS. Recipes keep their order."""
    groups: dict[str, list[Mapping[str, Any]]] = {topic: [] for topic in TOPICS}
    for recipe in recipes:
        groups[recipe.get("topic", OTHER)].append(recipe)
    return [(TOPICS[topic], listed) for topic, listed in groups.items() if listed]
