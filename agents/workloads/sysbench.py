"""sysbench: its own oltp_* scripts, or a directory of scripts in Lua that a host's owner allowed, such as TPC-C."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Optional

from ..errors import Unplannable
from ..host.paths import PATH, Named
from ..measure import tracer
from ..wire.columns import Columns, columns
from .base import DAY_S, OF_TRANSACTIONS, TRACED, Context, Metric, Options, Trace, Workload

if TYPE_CHECKING:
    from .base import Stage

BUILTIN = (
    "oltp_read_only", "oltp_read_write", "oltp_write_only", "oltp_point_select", "oltp_insert", "oltp_delete",
    "oltp_update_index", "oltp_update_non_index", "select_random_points", "select_random_ranges",
)  # fmt: skip
# Ours and sysbench's names of what `prepare` and `run` both take.
_BOTH = {"threads": "threads", "tables": "tables", "table_size": "table_size"}
_RUN = {
    "events": "events", "rate": "rate", "percentile": "percentile", "rand_type": "rand-type", "rand_seed": "rand-seed",
    "report_interval_s": "report-interval",
}  # fmt: skip
# Script options that would change sysbench itself: its connection and its files.
_RESERVED = re.compile(r"^(pgsql|mysql|db|config|luajit|help|version|verbosity)(-|$)")
_PLAIN = re.compile(r"[A-Za-z0-9_.+-]*")
_INTERVAL = re.compile(
    r"^\[ ([\d.]+)s \] thds: (\d+) tps: ([\d.]+) qps: ([\d.]+) .*lat \(ms,\d+%\): ([\d.]+) err/s:? ([\d.]+)"
)


SAMPLES: dict[str, Columns] = {
    "sysbench": {
        **columns("tps", "tps", {"tps": "transactions"}, better="higher", shown=True),
        **columns("qps", "qps", {"qps": "queries"}, better="higher"),
        **columns(
            "latency", "ms", {"latency_ms": "the requested percentile, of the interval"}, better="lower", shown=True
        ),
        **columns("errors", "errors/s", {"errors_per_s": "ignored errors"}, better="lower"),
        **columns("threads", "threads", {"threads": "client threads"}, gauge=True),
    }
}


class Sysbench(Workload):
    kind = "sysbench"
    title = "sysbench"
    help = "oltp_* of sysbench, or your own Lua, such as TPC-C; a closed loop unless a rate is set"
    tools = ("sysbench",)
    needs_postgres = True
    metrics = {
        "tps": Metric("tps", "higher"),
        "qps": Metric("qps", "higher"),
        "tpmC": Metric("tpmC", "higher"),
        **{f"latency_{name}": Metric("ms", "lower") for name in ("avg", "min", "max", "p95")},
        "ignored_errors_per_s": Metric("errors/s", "lower"),
        "ignored_errors": Metric("errors", "lower"),
        "reconnects": Metric("reconnects", "lower"),
        **OF_TRANSACTIONS,
        **TRACED,
    }
    main = ("tps", "tpmC", "latency_avg", "latency_p95", "ignored_errors_per_s")
    samples = SAMPLES
    rates = ("tps",)
    ends_when_steady = True
    schema = {
        "type": "object",
        "title": "sysbench",
        "properties": {
            "action": {
                "type": "string",
                "enum": ["run", "prepare", "cleanup"],
                "title": "Command",
                "description": "prepare creates the tables again: it first removes what cleanup would remove",
                "default": "run",
            },
            "test": {"type": "string", "enum": list(BUILTIN), "title": "Test", "default": "oltp_read_only"},
            "directory": {
                "type": "string",
                "pattern": PATH,
                "title": "Directory of your Lua scripts",
                "description": "An allowed directory of the host, in which the script is started",
            },
            "script": {
                "type": "string",
                "pattern": r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\.lua$",
                "title": "Your own script",
                "description": "Instead of a test: a file of that directory, such as tpcc.lua",
            },
            "threads": {"type": "integer", "minimum": 1, "maximum": 10000, "title": "Threads", "default": 1},
            "time_s": {"type": "integer", "minimum": 1, "title": "Seconds", "default": 10},
            "events": {"type": "integer", "minimum": 1, "title": "Total events", "description": "Instead of seconds"},
            "rate": {"type": "integer", "minimum": 1, "title": "Transactions per second (rate)"},
            "tables": {"type": "integer", "minimum": 1, "maximum": 10000, "title": "Tables", "default": 1},
            "table_size": {"type": "integer", "minimum": 1, "title": "Rows of each table", "default": 10000},
            "report_interval_s": {"type": "integer", "minimum": 0, "title": "Report interval (s)", "default": 1},
            "percentile": {"type": "integer", "minimum": 0, "maximum": 100, "title": "Percentile", "default": 95},
            "histogram": {"type": "boolean", "title": "Latency histogram", "default": False},
            "rand_type": {
                "type": "string",
                "enum": ["uniform", "gaussian", "special", "pareto", "zipfian"],
                "title": "Random numbers (rand-type)",
            },
            "rand_seed": {"type": "integer", "minimum": 0, "title": "Seed of random numbers"},
            "more": {
                "type": "object",
                "title": "Options of the script",
                "description": "Such as range_size = 100, or scale = 10 of TPC-C",
                "propertyNames": {"type": "string", "pattern": r"^[A-Za-z0-9_-]{1,60}$"},
                "additionalProperties": {"type": ["number", "string", "boolean"], "maxLength": 1000},
            },
            "new_order_percent": {
                "type": "number",
                "minimum": 0.1,
                "maximum": 100,
                "title": "New orders, % of the script's transactions",
                "description": "For TPC-C: tpmC is 60 x their rate. 100 if the script counts only new orders",
            },
            "tracer": tracer.SCHEMA,
        },
        "additionalProperties": False,
    }

    def figures(self, options: Options) -> dict[str, Metric]:
        """Return the figures with the requested percentile; 0 has none."""
        percentile = options.get("percentile", 95)
        named = {f"latency_p{percentile}": self.metrics["latency_p95"]} if percentile else {}
        rest = {name: metric for name, metric in self.metrics.items() if name != "latency_p95"}
        return {**rest, **named}

    def connections(self, options: Options) -> int:
        return int(options.get("threads", 1))

    def check(self, options: Options) -> None:
        tracer.check(self.kind, options)
        if ("directory" in options) != ("script" in options):
            missing = "script" if "directory" in options else "directory"
            raise Unplannable(f"sysbench.{missing}", None, "both a directory and a script in it, or neither")
        for one, other in (("script", "test"), ("events", "time_s")):
            if one in options and other in options:
                raise Unplannable(f"sysbench.{one}", options[one], f"either {one} or {other}")
        for name in options.get("more", {}):
            # sysbench takes a-b for a_b.
            plain = name.replace("_", "-").lower()
            if _RESERVED.match(plain) or plain in {*_BOTH.values(), *_RUN.values(), "table-size", "time", "histogram"}:
                raise Unplannable(f"sysbench.more.{name}", options["more"][name], "options defined by the script")

    def code(self, options: Options) -> dict[str, str]:
        """Return the user's Lua, and options that scripts put into SQL, such as create_table_options."""
        lua = {"script": f"{options.get('directory', '')}/{options['script']}"} if "script" in options else {}
        texts = {f"more.{name}": each for name, each in options.get("more", {}).items() if isinstance(each, str)}
        return {**super().code(options), **lua, **{n: each for n, each in texts.items() if not _PLAIN.fullmatch(each)}}

    def paths(self, options: Options) -> list[Named]:
        return [Named("directory", options["directory"], "directory")] if "directory" in options else []

    def argv(self, options: Options, context: Context, action: str = "") -> list[str]:
        """`context.scratch` is the directory of an own script."""
        script = f"{context.scratch}/{options['script']}" if "script" in options else options.get("test", BUILTIN[0])
        action = action or options.get("action", "run")
        values = {"threads": 1, "report_interval_s": 1, "percentile": 95, **options}
        if "script" not in options:
            values = {"tables": 1, "table_size": 10000, **values}
        names = _BOTH if action != "run" else {**_BOTH, **_RUN}
        arguments = [f"--{word}={values[name]}" for name, word in names.items() if name in values]
        if action == "run":
            arguments.append(f"--time={0 if 'events' in options else options.get('time_s', 10)}")
            arguments += ["--histogram=on"] if options.get("histogram") else []
        arguments += [f"--{name}={_spell(value)}" for name, value in sorted(options.get("more", {}).items())]
        return [context.program, script, "--db-driver=pgsql", *arguments, action]

    def duration(self, options: Options) -> Optional[float]:
        timed = options.get("action", "run") == "run" and "events" not in options
        return float(options.get("time_s", 10)) if timed else None

    def for_time(self, options: Options, seconds: int) -> Optional[Options]:
        if options.get("action", "run") != "run":
            return None
        rest = {name: value for name, value in options.items() if name not in ("events", "histogram", "tracer")}
        return {**rest, "time_s": seconds}

    def measure(self, options: Options, stage: Stage) -> None:
        own = stage.allowed(options["directory"]) if "directory" in options else ""
        context, seconds = Context(stage.tool("sysbench"), str(stage.out), own), self.duration(options)
        connection = [f"--pgsql-{name}={value}" for name, value in _connection(stage.cluster.load_env).items()]

        def line(action: str) -> list[str]:
            program, *rest = self.argv(options, context, action)
            return [program, *rest[:-1], *connection, rest[-1]]

        def on_line(text: str) -> None:
            sample = interval(text)
            if sample:
                stage.sample("sysbench", *sample)

        action = options.get("action", "run")
        if action == "prepare":
            stage.execute(line("cleanup"), purpose="cleanup", limit_s=DAY_S, directory=own)
        stage.measure(
            line(action),
            limit_s=7 * DAY_S if seconds is None else seconds * 1.5 + 120.0,
            total_s=seconds,
            on_line=on_line,
            watched="stdout",
            directory=own,
            trace=Trace(tracer.requested(options), APPLICATION, options.get("threads", 1)),
        )


APPLICATION = "sysbench"


def _connection(env: dict[str, str]) -> dict[str, Any]:
    """Options for what other clients, and its backends, read from their environment."""
    database = env["PGDATABASE"].replace("\\", "\\\\").replace("'", "\\'")
    named = f"dbname='{database}' application_name={APPLICATION}"
    return {"host": env["PGHOST"], "port": env["PGPORT"], "user": env["PGUSER"], "db": named}


def _spell(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def interval(line: str) -> Optional[tuple[float, dict[str, float]]]:
    """Pure. A line of --report-interval: (seconds since the start, figures); None for any other line."""
    match = _INTERVAL.match(line)
    if not match:
        return None
    t, threads, tps, qps, latency, errors = map(float, match.groups())
    return t, {"threads": threads, "tps": tps, "qps": qps, "latency_ms": latency, "errors_per_s": errors}
