"""Cache expensive answers about a campaign until one of their sources changes.

No entry is invalidated: its key contains everything it was computed from, including the program's source. Other
sources have another key."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

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


_hints = cache(get_type_hints)
PLAIN = (str, int, float, bool, Any)


def revived(kind: Any, stored: Any) -> Any:
    """Restore a dataclass and all that it contains from JSON."""
    if stored is None or kind in PLAIN:
        return stored
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        arguments = {field.name: revived(hints[field.name], stored[field.name]) for field in fields(kind) if field.init}
        return kind(**arguments)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return revived(next(each for each in inner if each is not NoneType), stored)
    if origin is list:
        return [revived(inner[0], each) for each in stored]
    if origin is tuple:
        kinds = [inner[0]] * len(stored) if inner[-1] is Ellipsis else inner
        return tuple(revived(each, value) for each, value in zip(kinds, stored, strict=True))
    if origin is dict:
        return {key: revived(inner[1], value) for key, value in stored.items()}
    return UUID(stored) if kind is UUID else stored
