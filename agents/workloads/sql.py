"""sql: a query several times in one session of psql, explained or timed; its row as figures; or statements, once.

The user's text is sent with \\gexec, so psql never interprets a line of it as one of its own commands, which can run
programs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Optional

from ..errors import HostFailure, Unplannable
from ..host import owned
from ..measure import tracer
from ..sql import hostaccess
from ..sql.scan import may_write
from ..sql.text import quoted, statements
from ..wire.columns import Columns, columns
from .base import DAY_S, FIGURES, TRACED, Context, Metric, Options, Trace, Workload, declared

if TYPE_CHECKING:
    from .base import Stage

APPLICATION = "proving_ground_sql"  # identifies the session's backend
# The first major version whose EXPLAIN has the option; those of 9 have the rest.
SINCE = {"summary": 10, "settings": 12, "wal": 13, "memory": 17, "serialize": 17}
ON = {"buffers": True, "settings": True, "timing": True, "costs": True, "verbose": False, "wal": False, "memory": False}
AT = "select 'at ' || extract(epoch from clock_timestamp());"
TEXTS = ("query", "statements", "before")
SPREAD = ("mean", "min", "max")
_TEXT = {"type": "string", "maxLength": 100000}


SAMPLES: dict[str, Columns] = {
    "sql": {
        **columns(
            "execution time",
            "ms",
            {
                "execution_ms": "of the statement",
                "planning_ms": "of its plan",
                "elapsed_ms": "as measured by the client",
            },
            better="lower",
            shown=True,
        ),
        **columns(
            "shared blocks", "blocks", {"shared_hit": "found in shared_buffers", "shared_read": "read"}, shown=True
        ),
    }
}


class Sql(Workload):
    kind = "sql"
    title = "SQL"
    help = "A query executed several times with EXPLAIN (ANALYZE), or statements that prepare, warm and reset"
    tools = ("psql",)
    needs_postgres = True
    metrics = {
        **{f"{name}_{of}": Metric("ms", "lower") for name in ("execution", "planning", "elapsed") for of in SPREAD},
        **{f"shared_hit_{of}": Metric("blocks", "higher") for of in SPREAD},
        **{f"shared_read_{of}": Metric("blocks", "lower") for of in SPREAD},
        "execution_total": Metric("ms", "lower"),
        "elapsed_total": Metric("ms", "lower"),
        "plan_shapes": Metric("shapes", "lower"),
        **TRACED,
    }
    samples = SAMPLES
    main = ("execution_mean", "elapsed_mean", "shared_hit_mean", "shared_read_mean", "plan_shapes")
    schema = {
        "type": "object",
        "title": "SQL",
        "properties": {
            "query": {
                **_TEXT,
                "title": "Query",
                "description": "One statement, explained and executed as often as specified below",
            },
            "statements": {
                **_TEXT,
                "title": "Statements",
                "description": "Instead of a query: executed once, each separately, such as create table, select "
                "pg_prewarm('t'), select pg_stat_reset()",
            },
            "times": {"type": "integer", "minimum": 1, "maximum": 1000, "title": "Executions", "default": 3},
            "before": {
                **_TEXT,
                "title": "Statements before the first execution",
                "description": "In the same session and not measured, such as set enable_seqscan = off",
            },
            "explain": {
                "type": "boolean",
                "title": "EXPLAIN (ANALYZE)",
                "description": "off: the query itself, timed by psql with all its rows, which are discarded",
                "default": True,
            },
            **{
                name: {"type": "boolean", "title": name.upper(), "default": on}
                | ({"description": f"PostgreSQL {SINCE[name]} or newer"} if name in SINCE else {})
                for name, on in ON.items()
            },
            "serialize": {
                "type": "string",
                "enum": ["none", "text", "binary"],
                "title": "SERIALIZE",
                "description": f"PostgreSQL {SINCE['serialize']} or newer",
            },
            "figures": {
                **FIGURES,
                "title": "Columns with figures",
                "description": "Instead of timing the query: it is executed once, and these columns of its only row "
                "are stored, such as heap_blks_read of pg_statio_user_tables",
            },
            "timeout_s": {
                "type": "number",
                "minimum": 0.001,
                "maximum": 7 * DAY_S,
                "title": "Time limit of each statement in seconds (statement_timeout)",
            },
            "tracer": tracer.SCHEMA,
        },
        "additionalProperties": False,
    }

    def check(self, options: Options) -> None:
        tracer.check(self.kind, options)
        for name in TEXTS:
            hostaccess.check(f"sql.{name}", options.get(name, ""))
        present = [name for name in ("query", "statements") if options.get(name, "").strip()]
        if len(present) != 1:
            raise Unplannable("sql.query", options.get("query"), "either a query or statements")
        if present == ["query"] and len(statements(options["query"])) != 1:
            raise Unplannable("sql.query", options["query"][:80], "one statement; use statements for several")
        if present == ["statements"]:
            _alone(options, ("statements", "timeout_s", "tracer"), "nothing beside statements, which are not explained")
        elif options.get("figures"):
            _alone(options, ("query", "figures", "before", "timeout_s"), "nothing beside figures, which are not timed")

    def code(self, options: Options) -> dict[str, str]:
        return {**super().code(options), **{name: options[name] for name in TEXTS if options.get(name, "").strip()}}

    def figures(self, options: Options) -> dict[str, Metric]:
        return declared(options) or self.metrics

    def argv(self, options: Options, context: Context) -> list[str]:
        plain = ["-X", "-A", "-t", "-q", "-w", "-v", "ON_ERROR_STOP=1"]
        return [context.program, *plain, "-d", f"application_name={APPLICATION}", "-f", "-"]

    def writes(self, options: Options) -> bool:
        return any(may_write(options.get(name, "")) for name in TEXTS)

    def measure(self, options: Options, stage: Stage) -> None:
        script = Path(stage.scratch) / "script.sql"
        owned.create(script, ("\n".join(lines(options, stage.cluster.major)) + "\n").encode(), mode=0o644)
        stage.measure(
            self.argv(options, Context(stage.tool("psql"), str(stage.out), str(stage.scratch))),
            limit_s=7 * DAY_S,
            total_s=None,
            on_line=follower(stage),
            watched="stdout",
            go=f"\\i {_argument(str(script))}\n",
            trace=Trace(tracer.requested(options), APPLICATION, 1),
        )


def _alone(options: Options, known: tuple[str, ...], accepted: str) -> None:
    beside = next((name for name in options if name not in known), None)
    if beside:
        raise Unplannable(f"sql.{beside}", options[beside], accepted)


def _argument(text: str) -> str:
    """Quote an argument of a psql command."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def lines(options: Options, major: int) -> list[str]:
    """Pure. The script, in psql's words. HostFailure for an option of EXPLAIN that this version lacks."""
    timeout = [f"set statement_timeout = {round(options['timeout_s'] * 1000)};"] if "timeout_s" in options else []
    if "statements" in options:
        return [*timeout, "\\timing on", AT, *_each(options["statements"]), "\\timing off", AT]
    before = ["\\o /dev/null", *_each(options.get("before", "")), "\\o"]
    query = statements(options["query"])[0]
    once = ["select :'query' \\gexec"]
    if options.get("figures"):
        return [*timeout, *before, f"select {quoted(_as_json(query))} \\gexec", AT]
    if options.get("explain", True):
        query = f"explain ({', '.join(explained(options, major))}) {query}"
    else:
        once = ["\\o /dev/null", "\\timing on", *once, "\\timing off", "\\o"]
    return [*timeout, *before, f"select {quoted(query)} as query \\gset", *[*once, AT] * options.get("times", 3)]


def _as_json(query: str) -> str:
    """Wrap a query so that it returns JSON, one row per line. The line break ends a comment at the query's end."""
    return f"select row_to_json(figures) from ({query}\n) as figures"  # noqa: S608 - it is the author's own


def _each(text: str) -> list[str]:
    return [f"select {quoted(statement)} \\gexec" for statement in statements(text)]


def explained(options: Options, major: int) -> list[str]:
    """Pure. The options of EXPLAIN: options that the version lacks are left out, unless they were requested."""
    missing = [name for name, since in SINCE.items() if major < since]
    unavailable = next((name for name in missing if options.get(name) not in (None, False, "none")), None)
    if unavailable:
        hint = f"it requires PostgreSQL {SINCE[unavailable]}: remove it, or choose another server"
        raise HostFailure(f"EXPLAIN of PostgreSQL {major} has no {unavailable.upper()}", hint)
    chosen = {name: options.get(name, on) for name, on in ON.items() if name not in missing}
    parts = ["analyze", *(f"{name} {'on' if on else 'off'}" for name, on in chosen.items())]
    return [*parts, *([f"serialize {options['serialize']}"] if "serialize" in options else []), "format json"]


def follower(stage: Stage) -> Callable[[str], None]:
    """Return a function for each line of psql. A complete execution becomes a sample of the step."""
    block: list[str] = []

    def on_line(line: str) -> None:
        if not line.startswith("at "):
            return block.append(line)
        values = sample("\n".join(block))
        block.clear()
        if values:
            stage.sample("sql", float(line[3:]) - stage.began, values)
        return None

    return on_line


def sample(printed: str) -> Optional[dict[str, float]]:
    """Pure. Parse a printed execution: {"execution_ms", "planning_ms", "shared_hit", "shared_read"}, or {"elapsed_ms"}
    without EXPLAIN. None if it is neither, as for statements and figures."""
    if printed.startswith("["):
        plan = json.loads(printed)[0]
        figures = {
            "execution_ms": plan.get("Execution Time", plan.get("Total Runtime")),
            "planning_ms": plan.get("Planning Time"),
            "shared_hit": plan["Plan"].get("Shared Hit Blocks"),
            "shared_read": plan["Plan"].get("Shared Read Blocks"),
        }
        return {name: float(value) for name, value in figures.items() if value is not None}
    times = [line.split()[1] for line in printed.splitlines() if line.startswith("Time: ")]
    return {"elapsed_ms": float(times[0])} if times else None
