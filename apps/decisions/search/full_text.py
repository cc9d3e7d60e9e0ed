"""Full-text search of PostgreSQL over all objects: one ranked query with snippets. Only reads (SELECT).

Points, underscores and slashes separate words here and in the query, so that shared_buffers matches
settings.postgresql.shared_buffers. The start of a word matches it, unless the query has quotes. The expressions of
INDEXED are those of the indexes in migration 0006."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.db import connection
from django.urls import reverse

from apps.accounts.models import Walled
from apps.accounts.models.walls import hidden, hidden_keys
from apps.campaigns.library import own_recipes
from apps.campaigns.models import Campaign, Workload
from apps.decisions.models import Comment, Decision
from apps.hosts.models import Host
from apps.tuning.models import Profile, Revision
from common.errors import PlanError

MOST = 50
RANKED = 500
LONGEST = 200
PARTING = '._/{}[]":,'
# Quotes in the query mean words in order.
APART = str.maketrans("._/", "   ")
START, STOP = "\x02", "\x03"
HEADLINE = f'StartSel={START}, StopSel={STOP}, MaxFragments=2, MaxWords=16, MinWords=6, FragmentDelimiter=" … "'


def vector(text: str) -> str:
    """Return the SQL for the words of a text."""
    return f"to_tsvector('english', translate({text}, '{PARTING}', '{' ' * len(PARTING)}'))"


# Texts of growing tables: table and columns as in the index.
INDEXED = {
    "decisions_decision": "title || ' ' || question || ' ' || options || ' ' || decision || ' ' || reasons || ' ' || "
    "settings::text",
    "decisions_comment": "text",
    "campaigns_campaign": "name || ' ' || question || ' ' || recipe || ' ' || factors::text",
    "tuning_revision": "note || ' ' || settings::text",
}
# Settings are JSON, whose punctuation is of no use to a reader.
READABLE = r"""regexp_replace(translate(body, '{}[]"', ''), '\s+', ' ', 'g')"""
# The factors of a campaign for users: "cpus: 1 cpu (cpu_affinity server = 0), 2 cpus (...)". Points become spaces,
# because no word inside a path would be highlighted.
_SET = (
    r"(SELECT ' (' || string_agg(translate(regexp_replace(path, '^settings\.', ''), '.', ' ') || ' = ' || "
    "(value #>> '{}'), ', ') || ')' "
    "FROM jsonb_each(CASE jsonb_typeof(level -> 'set') WHEN 'object' THEN level -> 'set' END) AS one(path, value))"
)
_LEVELS = (
    f"(SELECT string_agg(concat(level ->> 'label', {_SET}), ', ' ORDER BY place) FROM jsonb_array_elements("  # noqa: S608 - our own words
    "CASE jsonb_typeof(factor -> 'levels') WHEN 'array' THEN factor -> 'levels' END) "
    "WITH ORDINALITY AS of_factor(level, place))"
)
FACTORS = (
    f"(SELECT string_agg(concat_ws(': ', factor ->> 'name', {_LEVELS}), '; ' ORDER BY place) "  # noqa: S608 - our own words
    "FROM jsonb_array_elements(factors) WITH ORDINALITY AS of_campaign(factor, place))"
)
HOST = (
    "h.name || ' ' || h.address || ' ' || array_to_string(h.labels, ' ') || ' ' || h.state_reason || ' ' || "
    "coalesce(f.data #>> '{kernel,release}', '') || ' ' || coalesce(f.data #>> '{cpus,model}', '')"
)
# Each minus is a negation to PostgreSQL, which refuses a hundred of them before one word.
LONE_MINUS = re.compile(r'-(?![\w"])')
# Each word of at least two letters matches as a prefix, unless it is excluded or the query has quotes.
_QUERY = "websearch_to_tsquery('english', %(asked)s)"
PREFIXED = (
    f"CASE WHEN position('\"' IN %(asked)s) > 0 THEN {_QUERY} "
    f"ELSE regexp_replace({_QUERY}::text, '(?<!!)(''[^'']{{2,}}'')', '\\1:*', 'g')::tsquery END"
)
ORDER = "exact DESC, rank DESC, kind, key"
NEWEST = "{number} = (SELECT max(o.{number}) FROM {table} o WHERE o.{of} = {table}.{of})"


@dataclass(frozen=True)
class Source:
    """SQL for a kind of object: key and title of a row, its searched text, and its table.

    `shown`: text of the snippet, if it differs. `only`: condition for rows that count. `model`: the model of the
    rows, with the key `row`."""

    kind: str
    key: str
    title: str
    text: str
    table: str
    shown: str = ""
    only: str = ""
    model: type[Walled] | None = None
    row: str = "id"


SOURCES = (
    Source("decision", "id::text", "title", INDEXED["decisions_decision"], "decisions_decision", model=Decision),
    Source(
        "comment",
        "decision_id::text",
        "(SELECT d.title FROM decisions_decision d WHERE d.id = decision_id)",
        INDEXED["decisions_comment"],
        "decisions_comment",
        model=Comment,
    ),
    Source(
        "campaign",
        "id::text",
        "name",
        INDEXED["campaigns_campaign"],
        "campaigns_campaign",
        shown=f"concat_ws(' ', name, question, recipe, {FACTORS})",
        model=Campaign,
    ),
    Source(
        "profile",
        "(SELECT p.name FROM tuning_profile p WHERE p.id = profile_id)",
        "(SELECT p.name || ' r' || number FROM tuning_profile p WHERE p.id = profile_id)",
        INDEXED["tuning_revision"],
        "tuning_revision",
        only=NEWEST.format(number="number", table="tuning_revision", of="profile_id"),
        model=Revision,
    ),
    Source("profile", "name", "name", "name || ' ' || description", "tuning_profile", model=Profile),
    Source(
        "host",
        "h.name",
        "h.name",
        HOST,
        "hosts_host h LEFT JOIN LATERAL "
        "(SELECT data FROM hosts_facts WHERE host_id = h.id ORDER BY number DESC LIMIT 1) f ON true",
        model=Host,
        row="h.id",
    ),
    Source(
        "workload",
        "name",
        "name || ' r' || revision",
        "name || ' ' || description || ' ' || steps::text",
        "campaigns_workload",
        only=NEWEST.format(number="revision", table="campaigns_workload", of="name"),
        model=Workload,
    ),
    Source("recipe", "name", "name", "words", "unnest(%(names)s::text[], %(words)s::text[]) AS recipe(name, words)"),
)
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
    """A match. `parts`: the text around it, and whether each part is the match."""

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


def _branch(source: Source) -> str:
    """Return the SQL for the matches of a source. If there are many, only titles and the newest rows are ranked,
    because ranking reads the whole text."""
    only = f" AND {source.only}" if source.only else ""
    if source.model is not None and hidden():
        only += f" AND {source.row} <> ALL (%({_hidden(source.model)})s)"
    newest = "" if source.kind == "recipe" else f" ORDER BY {_exact(source.title)} DESC, created_at DESC"
    matching = (
        f"SELECT {source.key} AS key, {source.title} AS title, {source.text} AS body, "  # noqa: S608 - our own words
        f"{source.shown or 'NULL'} AS shown, query FROM {source.table}, asked "
        f"WHERE {vector(source.text)} @@ query{only}{newest} LIMIT %(ranked)s"
    )
    return (
        f"SELECT '{source.kind}' AS kind, key, title, coalesce(shown, body) AS body, "  # noqa: S608 - our own words
        f"{_exact('title')} AS exact, ts_rank({vector('body')}, query) AS rank FROM ({matching}) AS matching"
    )


def _exact(title: str) -> str:
    """Return SQL that is 2 if the title is the query, 1 if it starts with it."""
    return (
        f"(CASE WHEN lower({title}) = lower(%(typed)s) THEN 2 "
        f"WHEN starts_with(lower({title}), lower(%(typed)s)) THEN 1 ELSE 0 END)"
    )


def _hidden(model: type[Walled]) -> str:
    """Return the name of the parameter with the keys that are hidden from the reader."""
    return f"hidden_{model._meta.model_name}"


def statement(kind: str = "") -> str:
    """Return the whole query. Only matches that are shown are read again for their snippets."""
    branches = " UNION ALL ".join(_branch(source) for source in SOURCES if kind in ("", source.kind))
    return (
        f"WITH asked AS (SELECT {PREFIXED} AS query), "  # noqa: S608 - our own words
        f"found AS ({branches} ORDER BY {ORDER} LIMIT %(most)s) "
        f"SELECT kind, key, title, ts_headline('english', {READABLE}, query, %(headline)s), rank FROM found, asked "
        f"ORDER BY {ORDER}"
    )


def search(text: str, kind: str = "") -> list[Hit]:
    """Return the best MOST matches with all words, titles first. "Quoted words" are in order, -word excludes, or is OR.

    PlanError for an unknown kind."""
    if kind and kind not in kinds():
        raise PlanError(
            "kind", f"{kind!r:.40} is not a kind of object that can be searched", hint="one of " + ", ".join(kinds())
        )
    names, texts = _recipes()
    parameters: dict[str, Any] = {
        "asked": LONE_MINUS.sub(" ", text.replace("\0", "")[:LONGEST].translate(APART)),
        "most": MOST,
        "typed": text.replace("\0", "")[:LONGEST].strip(),
        "ranked": RANKED,
        "headline": HEADLINE,
    }
    if hidden():
        parameters |= {_hidden(each): hidden_keys(each) for each in {source.model for source in SOURCES} if each}
    with connection.cursor() as cursor:
        cursor.execute(statement(kind), parameters | {"names": names, "words": texts})
        return [Hit(hit_kind, key, title, _parts(snippet), rank) for hit_kind, key, title, snippet, rank in cursor]


def kinds() -> list[str]:
    return list(dict.fromkeys(source.kind for source in SOURCES))


def _recipes() -> tuple[list[str], list[str]]:
    """Return names and texts of recipes: built-in ones are files, the team's count with their newest versions."""
    recipes = own_recipes.catalogue()
    return list(recipes), [" ".join(_searchable_texts(recipe)) for recipe in recipes.values()]


def _searchable_texts(recipe: Mapping[str, Any]) -> Iterator[str]:
    yield from (str(recipe.get(each, "")) for each in ("name", "title", "question", "about"))
    for factor in recipe["factors"]:
        yield factor["name"]
        yield str(factor.get("path", ""))
        yield from (path for level in factor.get("levels", []) for path in level["set"])


def _parts(snippet: str) -> list[tuple[str, bool]]:
    first, *others = snippet.split(START)
    parts = [(first, False)]
    for part in others:
        marked, _, rest = part.partition(STOP)
        parts += [(marked, True), (rest, False)]
    return [(text, is_match) for text, is_match in parts if text]
