"""SELECT only: search over everything, by PostgreSQL's full text search: one query, ranked, with snippets.

Points, underscores and slashes part words here and in what is asked, so that shared_buffers is found within
settings.postgresql.shared_buffers. The expressions of INDEXED are those of the indexes that migration 0006 makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.db import connection
from django.urls import reverse

from apps.campaigns import own_recipes
from apps.errors import PlanError

MOST = 50
RANKED = 500
LONGEST = 200
PARTING = '._/{}[]":,'
# Quotes are words of what is asked.
APART = str.maketrans("._/", "   ")
START, STOP = "\x02", "\x03"
HEADLINE = f'StartSel={START}, StopSel={STOP}, MaxFragments=2, MaxWords=16, MinWords=6, FragmentDelimiter=" … "'


def vector(text: str) -> str:
    """SQL of the words of a text."""
    return f"to_tsvector('english', translate({text}, '{PARTING}', '{' ' * len(PARTING)}'))"


# Texts of tables that grow: table and columns as they stand in the index.
INDEXED = {
    "decisions_decision": "title || ' ' || question || ' ' || options || ' ' || decision || ' ' || reasons || ' ' || "
    "settings::text",
    "decisions_comment": "text",
    "campaigns_campaign": "name || ' ' || question || ' ' || recipe || ' ' || factors::text",
    "tuning_revision": "note || ' ' || settings::text",
}
# Settings are JSON, whose signs tell a reader nothing.
READABLE = "translate(body, '{}[]\"', '     ')"
HOST = (
    "h.name || ' ' || h.address || ' ' || array_to_string(h.labels, ' ') || ' ' || h.state_reason || ' ' || "
    "coalesce(f.data #>> '{kernel,release}', '') || ' ' || coalesce(f.data #>> '{cpus,model}', '')"
)
NEWEST = "{number} = (SELECT max(o.{number}) FROM {table} o WHERE o.{of} = {table}.{of})"
# What of it counts, where not all does.
ONLY = {
    "profile": NEWEST.format(number="number", table="tuning_revision", of="profile_id"),
    "workload": NEWEST.format(number="revision", table="campaigns_workload", of="name"),
}
# Each kind: key, title and text of what there is, and where it comes from.
KINDS = {
    "decision": ("id::text", "title", INDEXED["decisions_decision"], "decisions_decision"),
    "comment": (
        "decision_id::text",
        "(SELECT d.title FROM decisions_decision d WHERE d.id = decision_id)",
        INDEXED["decisions_comment"],
        "decisions_comment",
    ),
    "campaign": ("id::text", "name", INDEXED["campaigns_campaign"], "campaigns_campaign"),
    "profile": (
        "(SELECT p.name FROM tuning_profile p WHERE p.id = profile_id)",
        "(SELECT p.name || ' r' || number FROM tuning_profile p WHERE p.id = profile_id)",
        INDEXED["tuning_revision"],
        "tuning_revision",
    ),
    "profile ": ("name", "name", "name || ' ' || description", "tuning_profile"),
    "host": (
        "h.name",
        "h.name",
        HOST,
        "hosts_host h LEFT JOIN LATERAL "
        "(SELECT data FROM hosts_facts WHERE host_id = h.id ORDER BY number DESC LIMIT 1) f ON true",
    ),
    "workload": (
        "name",
        "name || ' r' || revision",
        "name || ' ' || description || ' ' || steps::text",
        "campaigns_workload",
    ),
    "recipe": ("name", "name", "words", "unnest(%(names)s::text[], %(words)s::text[]) AS recipe(name, words)"),
}
PAGES = {
    "decision": "decision_detail",
    "comment": "decision_detail",
    "campaign": "campaign_detail",
    "profile": "profile_detail",
    "host": "host_detail",
    "workload": "workload_detail",
}


@dataclass(frozen=True)
class Hit:
    """`parts`: the text around what was found, and whether each part is it."""

    kind: str
    key: str
    title: str
    parts: list[tuple[str, bool]]
    rank: float

    @property
    def path(self) -> str:
        if self.kind == "recipe":
            return f"{reverse('recipe_list')}#{quote(self.key)}"
        return reverse(PAGES[self.kind], args=[self.key])

    @property
    def snippet(self) -> str:
        return "".join(text for text, _ in self.parts)


def _branch(kind: str) -> str:
    """Of many that match the newest are ranked: a rank takes the whole text, a match only the index."""
    key, title, text, table = KINDS[kind]
    only = f" AND {ONLY[kind]}" if kind in ONLY else ""
    newest = "" if kind == "recipe" else " ORDER BY created_at DESC"
    matching = (
        f"SELECT {key} AS key, {title} AS title, {text} AS body, query FROM {table}, asked "  # noqa: S608 - our own words
        f"WHERE {vector(text)} @@ query{only}{newest} LIMIT %(ranked)s"
    )
    return (
        f"SELECT '{kind.strip()}' AS kind, key, title, body, ts_rank({vector('body')}, query) AS rank "  # noqa: S608
        f"FROM ({matching}) AS matching"
    )


def statement(kind: str = "") -> str:
    """The whole query: only what is shown is read once more for its snippet."""
    branches = " UNION ALL ".join(_branch(each) for each in KINDS if kind in ("", each.strip()))
    return (
        "WITH asked AS (SELECT websearch_to_tsquery('english', %(asked)s) AS query), "  # noqa: S608 - our own words
        f"found AS ({branches} ORDER BY rank DESC, kind, key LIMIT %(most)s) "
        f"SELECT kind, key, title, ts_headline('english', {READABLE}, query, %(headline)s), rank FROM found, asked "
        "ORDER BY rank DESC, kind, key"
    )


def search(text: str, kind: str = "") -> list[Hit]:
    """The best MOST of what has all the words; "quoted words" stand together, -word excludes, or is OR. PlanError for a
    kind that is none."""
    if kind and kind not in KINDS:
        raise PlanError("kind", f"{kind!r:.40} cannot be searched", hint="one of " + ", ".join(kinds()))
    names, words = _recipes()
    asked: dict[str, Any] = {
        "asked": text.replace("\0", "")[:LONGEST].translate(APART),
        "most": MOST,
        "ranked": RANKED,
        "headline": HEADLINE,
    }
    with connection.cursor() as cursor:
        cursor.execute(statement(kind), asked | {"names": names, "words": words})
        return [Hit(found, key, title, _parts(snippet), rank) for found, key, title, snippet, rank in cursor]


def kinds() -> list[str]:
    return list(dict.fromkeys(kind.strip() for kind in KINDS))


def _recipes() -> tuple[list[str], list[str]]:
    """Those that come with us are files, and the team's own count in their newest versions: names, and words."""
    found = own_recipes.catalogue()
    return list(found), [" ".join(_words(recipe)) for recipe in found.values()]


def _words(recipe: Mapping[str, Any]) -> Iterator[str]:
    yield from (str(recipe.get(each, "")) for each in ("name", "title", "question", "about"))
    for factor in recipe["factors"]:
        yield factor["name"]
        yield str(factor.get("path", ""))
        yield from (path for level in factor.get("levels", []) for path in level["set"])


def _parts(snippet: str) -> list[tuple[str, bool]]:
    first, *others = snippet.split(START)
    parts = [(first, False)]
    for each in others:
        marked, _, rest = each.partition(STOP)
        parts += [(marked, True), (rest, False)]
    return [(text, found) for text, found in parts if text]
