"""Reference of the API: every operation of the OpenAPI schema with the least role that it answers."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

from drf_spectacular.generators import SchemaGenerator

from tests.apps.accounts.test_api_roles import ALL
from tests.documents.permissions import OPEN, endpoints
from tests.site import markdown

METHODS = ("get", "post", "put", "patch", "delete")
ACTS = {"POST": "add", "PATCH": "change", "DELETE": "remove"}
HEAD = """\
# Addresses of the API

Every operation of the OpenAPI schema. The server has the schema at `/api/schema/`, and shows it with all fields at
`/api/docs/`. *From* is the lowest role with access. [The tour](../docs/reference/api.md) runs a campaign with these
operations; [errors](errors.md) have one format.

"""


def page() -> str:
    listed = sorted(operations(), key=lambda each: each[0])
    parts = [f"## {tag}\n\n{_table(list(rows))}" for tag, rows in groupby(listed, key=lambda each: each[0])]
    return HEAD + "\n".join(parts)


def _table(rows: list[tuple[str, str, str, str, str]]) -> str:
    summaries = [summary for *_, summary, _ in rows]
    cells = [
        (method, f"`{path}`", summary if summaries.count(summary) == 1 else f"{_act(method, path)}: {summary}", role)
        for _, method, path, summary, role in rows
    ]
    return markdown.table(("method", "address", "what", "from"), cells)


def _act(method: str, path: str) -> str:
    """What it does with things of its kind, where it says no more than what they are."""
    return ACTS.get(method) or ("one" if path.endswith("}/") else "all")


def operations() -> list[tuple[str, str, str, str, str]]:
    """Yield (tag, method, path, description, least role) of each operation; KeyError without a role."""
    schema: Any = SchemaGenerator().get_schema(request=None, public=True)
    roles = _roles()
    return [
        (one["tags"][0], method.upper(), path, _summary(one, schema), roles[method, _bare(path)])
        for path, item in schema["paths"].items()
        for method, one in item.items()
        if method in METHODS
    ]


def _roles() -> dict[tuple[str, str], str]:
    """(method, path without the names of its keys) -> role."""
    addresses = {endpoint.name: endpoint.pattern for endpoint in endpoints()}
    without_login = {(method, _bare(addresses[name])): "anonymous" for name in OPEN for method in METHODS}
    return {(each.method, _bare(addresses[each.url_name])): str(each.needs.value) for each in ALL} | without_login


def _bare(path: str) -> str:
    """/api/v1/^hosts/(?P<pk>[^/.]+)/$ and /api/v1/hosts/{id}/ -> /api/v1/hosts/{}/"""
    plain = re.sub(r"\(\?P<\w+>(?:[^()]|\([^()]*\))*\)", "{}", path)
    plain = re.sub(r"<[^>]*>|\{\w+\}", "{}", plain)
    return re.sub(r"\\Z$|\$$", "", plain.replace("/^", "/")).replace("\\.", ".")


def _summary(operation: dict[str, Any], schema: dict[str, Any]) -> str:
    text = operation.get("summary") or operation.get("description", "")
    first = text.strip().split("\n\n")[0]
    return " ".join(first.split())
