"""The state of the page cache at the start of a measurement: none of the data, or all of them."""

from __future__ import annotations

import os
from typing import Any, Iterator

from ..errors import NotApplied, Unplannable
from ..facts.memory import meminfo
from ..host.system import System
from .base import Facts, Plan, Proof, Scene, Setting

DROP = "/proc/sys/vm/drop_caches"
PAGE_CACHE_AND_SLAB = "3"
COLD = 0.01  # the share of the data that may be left
PIECE = 1 << 15  # blocks of a relation that one query loads: a longer query is given up, and cannot be cancelled
REPORT_S = 1.0
WARM = 0.99  # the share of each relation that must be there
_DROPPED, _LOADED = ("cold", "reloaded"), ("warm", "reloaded")
_NAME = r"[A-Za-z_][A-Za-z0-9_$]{0,62}(\.[A-Za-z_][A-Za-z0-9_$]{0,62})?"
_EACH = "select oid::regclass, pg_prewarm(oid) from pg_class where relkind in ('r', 'i', 'm') and oid >= 16384"
# Directories of relations. Queries do not read the server's log and WAL.
_DATA = ("base", "global", "pg_tblspc")


class Cache(Setting):
    name = "cache"
    title = "Cache state"
    help = "Starts PostgreSQL with no data in memory, or loads tables and indexes into it before the load"
    risk = "cold drops the page cache of the whole host once: all programs read from disk again"
    level = "user"
    schema = {
        "type": "object",
        "title": "Cache state",
        "properties": {
            "state": {
                "type": "string",
                "enum": ["cold", "warm", "reloaded"],
                "title": "State",
                "description": "Cold: drop the page cache while PostgreSQL is down (root). Data that the run then "
                "creates or reads are in memory again. Warm: pg_prewarm after the data are prepared. Reloaded: cold, "
                "then warm",
            },
            "relations": {
                "type": "string",
                "maxLength": 2000,
                "pattern": rf"^{_NAME}(, *{_NAME})*$",
                "title": "Relations to load",
                "description": "For warm: tables and indexes separated by commas; default: all of the user",
            },
            "before": {
                "type": "string",
                "enum": ["run", "step"],
                "title": "Before",
                "description": "run: once. step: again before each measured step while PostgreSQL runs; its shared "
                "buffers are kept",
                "default": "run",
            },
        },
        "required": ["state"],
        "additionalProperties": False,
    }

    def begins_anew(self, part: str) -> str:
        return "server"

    def plan(self, facts: Facts, requested: Any) -> Plan:
        state, relations = requested["state"], requested.get("relations", "")
        if relations and state not in _LOADED:
            raise Unplannable("cache.relations", relations, "no relations with state cold, which drops everything")
        if state in _DROPPED and facts["level"] != "root":
            raise Unplannable(
                "cache.state", state, f"warm; {state} requires level root, and the agent runs as an ordinary user here"
            )
        loads = [f"select pg_prewarm('{name}')" for name in _names(relations)] or [_EACH]
        drops = ["sync", f"echo {PAGE_CACHE_AND_SLAB} > {DROP}"]
        return Plan(acts=drops if state in _DROPPED else [], sql=loads if state in _LOADED else [])

    def act(self, scene: Scene, requested: Any, moment: str) -> list[Proof]:
        """drops the page cache while PostgreSQL is down, or runs pg_prewarm once the data are there; or at each step"""
        again = moment == "measure" and scene.measured and requested.get("before") == "step"
        dropped = drop(scene) if requested["state"] in _DROPPED and (moment == "stopped" or again) else []
        if requested["state"] in _LOADED and (moment == "warm" or again):
            return [*dropped, *prewarm(scene, _names(requested.get("relations", "")))]
        return dropped


def _names(relations: str) -> list[str]:
    return [name.strip() for name in relations.split(",") if name.strip()]


def drop(scene: Scene) -> list[Proof]:
    """Write dirty pages, drop clean ones, and count the remaining pages of the data."""
    system = scene.system
    before, drops = meminfo(system), _drops(system)
    system.sync()
    try:
        system.write(DROP, PAGE_CACHE_AND_SLAB)
    except OSError as error:
        raise NotApplied("cache", "an empty page cache", f"{DROP}: {error.strerror}") from error
    evidence = {"source": "/proc/vmstat, /proc/meminfo", "cached_kb": [_cached(before), _cached(meminfo(system))]}
    after = _drops(system)
    proofs = [Proof("times that the page cache was dropped", "more", after - drops, after > drops, evidence)]
    return [*proofs, left(system, scene.pgdata)] if scene.pgdata else proofs


def _cached(info: dict[str, int]) -> int:
    """Page cache in kB, without the shared memory that the kernel counts there."""
    return info["Cached"] - info.get("Shmem", 0)


def _drops(system: System) -> int:
    counters = dict(line.split() for line in system.text("/proc/vmstat").splitlines())
    return int(counters.get("drop_pagecache", 0))


def data_files(pgdata: str) -> list[str]:
    """The files of a cluster's relations."""
    return [file for place in _DATA for file in files_below(os.path.join(pgdata, place))]


def left(system: System, pgdata: str) -> Proof:
    """The share of a cluster's data that is in the page cache."""
    files = data_files(pgdata)
    sizes = [system.in_page_cache(file) for file in files]
    size, cached = sum(one[0] for one in sizes), sum(one[1] for one in sizes)
    share = round(cached / size, 4) if size else 0.0
    evidence = {"source": "mincore(2)", "files": len(files), "bytes": size, "in_memory": cached}
    return Proof("share of the data in the page cache", f"< {COLD}", share, share < COLD, evidence)


def files_below(directory: str) -> list[str]:
    """Return all files below a directory, including those behind symbolic links. Each directory counts once, because a
    link can lead back up."""
    paths: list[str] = []
    seen: set[tuple[int, int]] = set()
    for place, below, names in os.walk(directory, followlinks=True):
        status = os.stat(place)
        if (status.st_dev, status.st_ino) in seen:
            below.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        paths += [os.path.join(place, name) for name in names]
    return paths


# Schemas of PostgreSQL's own begin with pg_, but for that of the standard.
_USERS = """
select json_agg(format('%I.%I', n.nspname, c.relname) order by c.oid)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'i', 'm') and c.relpersistence <> 't' and n.nspname !~ '^(pg_|information_schema$)'
"""
_AVAILABLE = "select json_agg(name) from pg_available_extensions where name in ('pg_prewarm', 'pg_buffercache')"
_SIZE = "select sum(pg_relation_size(name::regclass)) from unnest(array[{names}]::text[]) as name"
_LOAD = """
create extension if not exists pg_prewarm;
select json_build_object('loaded', case when blocks > {first} or pg_relation_filepath(c) is null
    then pg_prewarm(c, 'buffer', 'main', {first}, least({first} + {piece}, blocks) - 1) else 0 end,
  'blocks', blocks, 'block', block, 'path', pg_relation_filepath(c))
from (select c, block, pg_relation_size(c) / block as blocks
  from (select {name}::regclass as c, current_setting('block_size')::int as block) as named) as sized
"""
_BUFFERS = """
create extension if not exists pg_buffercache;
select json_build_object('blocks', count(*)) from pg_buffercache
where relfilenode = pg_relation_filenode({name}::regclass) and relforknumber = 0
  and reldatabase = (select oid from pg_database where datname = current_database())
"""


def prewarm(scene: Scene, names: list[str]) -> list[Proof]:
    """Load each relation and prove that it is in the page cache, or in shared buffers where it is there no more."""
    assert scene.sql  # noqa: S101 - for the type checker; planning asks for a target
    available = scene.sql(_AVAILABLE) or []
    if "pg_prewarm" not in available:
        actual = "a PostgreSQL without it"
        raise NotApplied("cache", "relations loaded by pg_prewarm", actual, "install PostgreSQL's contrib modules")
    relations = [_Relation(scene, name) for name in names or scene.sql(_USERS) or []]
    total = int(scene.sql(_SIZE.format(names=", ".join(relation.literal for relation in relations))) or 0)
    began = reported = scene.system.mono()
    done, proofs = 0, []
    for relation in relations:
        for piece in relation.load():
            done += piece
            now = scene.system.mono()
            if done and now >= reported + REPORT_S:
                reported, share = now, min(1.0, done / max(total, 1))
                scene.report(share, (now - began) * (1 / share - 1), f"loading {relation.name} into memory")
        proofs.append(relation.proof("pg_buffercache" in available))
    return proofs


class _Relation:
    """A table or an index, loaded piece by piece."""

    def __init__(self, scene: Scene, name: str) -> None:
        # The search_path of the agent's sessions has no user schemas.
        self.literal = "'" + (name if "." in name else f"public.{name}").replace("'", "''") + "'"
        self.name = name[len("public.") :] if name.startswith("public.") else name
        self._scene, self._loaded, self._last = scene, 0, dict[str, Any]()

    def _sql(self, query: str) -> Any:
        assert self._scene.sql  # noqa: S101 - for the type checker; planning asks for a target
        return self._scene.sql(query)

    def load(self) -> Iterator[int]:
        """Yield the bytes of each piece. The relation may grow or shrink meanwhile."""
        first = 0
        while not self._last or first < self._last["blocks"]:
            self._scene.check()
            self._last = self._sql(_LOAD.format(name=self.literal, first=first, piece=PIECE))
            self._loaded += self._last["loaded"]
            first += PIECE
            yield self._last["loaded"] * self._last["block"]

    def proof(self, can_count: bool) -> Proof:
        blocks = self._last["blocks"]
        inside = str(self._last["path"])
        if inside.startswith("/") or ".." in inside.split("/"):  # the owner of the server can answer anything
            raise NotApplied("cache", f"a file of {self.name} below {self._scene.pgdata}", inside)
        path = os.path.join(self._scene.pgdata, inside)
        cached = in_memory(self._scene.system, path) // self._last["block"]
        evidence: dict[str, Any] = {
            "source": "pg_prewarm, mincore(2)",
            "blocks": blocks,
            "loaded": self._loaded,
            "in_page_cache": cached,
        }
        if cached < blocks * WARM and can_count:
            evidence["in_shared_buffers"] = self._sql(_BUFFERS.format(name=self.literal))["blocks"]
            evidence["source"] += ", pg_buffercache"
        most = max(cached, evidence.get("in_shared_buffers", 0))
        share = round(most / blocks, 4) if blocks else 1.0
        ok = self._loaded >= blocks and share >= WARM
        return Proof(f"share of {self.name} in memory", f">= {WARM}", share, ok, evidence)


def in_memory(system: System, path: str) -> int:
    """Bytes in the page cache of a relation, which is a file and its segments: 16384, 16384.1, 16384.2, ..."""
    segments = [path]
    while system.exists(f"{path}.{len(segments)}"):
        segments.append(f"{path}.{len(segments)}")
    return sum(system.in_page_cache(segment)[1] for segment in segments)
