"""Cache expensive answers about a campaign until one of their sources changes.

No entry is invalidated: its key contains everything it was computed from, including the program's source. Other
sources have another key."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from apps.campaigns.models import Campaign
from apps.results.models import CachedAnswer


@cache
def program() -> str:
    """Return a digest of this program, because another version may compute other answers."""
    root, digest = Path(__file__).parents[3], hashlib.sha256()
    texts = (root.glob(f"{name}/**/*.py") for name in ("agents", "apps", "common", "readers", "stats"))
    for file in sorted(chain(root.glob("templates/**/*.html"), *texts)):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def cached_answer(campaign: Campaign, name: str, key: str, compute: Callable[[], Any]) -> bytes:
    """Return the answer as JSON, from the cache or computed. `key` must contain all its sources."""
    return stored_answers(campaign, [name], key).get(name) or store_answer(campaign, name, key, compute)


def stored_answers(campaign: Campaign, names: Iterable[str], key: str) -> dict[str, bytes]:
    """Return name -> answer, for those that are cached; one query."""
    rows = CachedAnswer.objects.filter(campaign=campaign, name__in=names, key=key)
    return {name: bytes(value) for name, value in rows.values_list("name", "value")}


def store_answer(campaign: Campaign, name: str, key: str, compute: Callable[[], Any]) -> bytes:
    """Store the computed answer in the place of the cached one of that name."""
    row = CachedAnswer(campaign=campaign, name=name, key=key, value=json_of(compute()))
    CachedAnswer.objects.bulk_create(
        [row], update_conflicts=True, unique_fields=["campaign", "name"], update_fields=["key", "value", "stored_at"]
    )
    return bytes(row.value)


def json_of(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
