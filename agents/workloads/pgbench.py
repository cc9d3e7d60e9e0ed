"""pgbench: builtin scripts or a custom one."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Iterable, Optional

from ..errors import PlanFailure, WorkloadFailure
from ..measure import tracer
from ..sql.scan import may_write
from ..wire.columns import Columns, columns
from . import pgbench_options, pgbench_scripts
from .base import DAY_S, OF_TRANSACTIONS, TRACED, Context, Options, Trace, Workload
from .pgbench_options import BUILTINS, METRICS, SINCE
from .transaction_log import LogFiles, Reduction

if TYPE_CHECKING:
    from ..run.bench import Bench
    from .base import Stage

# Options that a warm-up of the same load leaves out: number of transactions, logs, tracer.
NOT_WARM = ("transactions", "log", "sampling_rate", "aggregate_interval_s", "report_per_command", "tracer")
LONGEST_SCRIPT = 100_000
_SCRIPT, _NUMBERED = re.compile(r"^script:\d+ "), re.compile(r"^statement:\d+ latency$")
_RATE = re.compile(r"^tps = ([\d.]+) \((?:excluding|without|including reconnection)", re.MULTILINE)
# progress: 1.0 s, 1234.5 tps, lat 0.810 ms stddev 0.102[, lag 0.1 ms][, 0 failed]
_PROGRESS = re.compile(
    r"^progress: ([\d.]+) s, ([\d.]+) tps, lat ([\d.]+|NaN|-nan|nan) ms stddev ([\d.]+|NaN|-nan|nan)"
)


SAMPLES: dict[str, Columns] = {
    "pgbench": {
        **columns("tps", "tps", {"tps": "transactions"}, better="higher", shown=True),
        **columns(
            "latency",
            "ms",
            {"latency_ms": "mean of the interval", "stddev_ms": "its standard deviation"},
            better="lower",
            shown=True,
        ),
    },
    "latency": columns(
        "latency percentiles",
        "ms",
        {f"p{each}_ms": f"{each} % of the transactions of the interval were faster" for each in (50, 95, 99)},
        better="lower",
        shown=True,
    ),
}


class PgBench(Workload):
    kind = "pgbench"
    title = "pgbench"
    help = "PostgreSQL's own load generator: TPC-B like, read-only, or your script"
    tools = ("pgbench",)
    metrics = {**METRICS, **OF_TRANSACTIONS, **TRACED}
    since = SINCE
    main = ("tps", "latency_avg")
    samples = SAMPLES
    rates = ("tps",)
    ends_when_steady = True
    needs_postgres = True
    schema = {
        "type": "object",
        "title": "pgbench",
        "properties": {
            "builtin": {
                "type": "string",
                "enum": list(BUILTINS),
                "title": "Builtin script (-b)",
                "default": "tpcb-like",
            },
            "builtins": {
                "type": "object",
                "title": "Several builtins (-b)",
                "description": f"Their weights, such as select-only = 9. Accepted: {', '.join(BUILTINS)}",
                "propertyNames": {"type": "string", "enum": list(BUILTINS)},
                "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 1000000},
            },
            "script": {
                "type": "string",
                "maxLength": LONGEST_SCRIPT,
                "format": "pgbench",
                "title": "Custom script (-f)",
                "description": "Instead of a builtin; requires the permission to run commands; \\shell is refused",
            },
            "scripts": {
                "type": "array",
                "title": "Several custom scripts (-f)",
                "format": "pgbench",
                "description": "Alone or with several builtins",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {
                            "type": "string",
                            "pattern": r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$",
                            "description": "letters, digits, _, . and -",
                        },
                        "weight": {"type": "integer", "minimum": 0, "maximum": 1000000, "default": 1},
                        "text": {"type": "string", "maxLength": LONGEST_SCRIPT},
                    },
                    "required": ["name", "text"],
                    "additionalProperties": False,
                },
            },
            "mode": {
                "type": "string",
                "enum": ["simple", "extended", "prepared"],
                "title": "Query mode (-M)",
                "default": "simple",
            },
            "clients": {"type": "integer", "minimum": 1, "maximum": 10000, "title": "Clients (-c)", "default": 1},
            "jobs": {"type": "integer", "minimum": 1, "maximum": 1024, "title": "Threads (-j)", "default": 1},
            "time_s": {"type": "integer", "minimum": 1, "title": "Seconds (-T)", "default": 10},
            "transactions": {
                "type": "integer",
                "minimum": 1,
                "title": "Transactions per client (-t)",
                "description": "Instead of a duration",
            },
            "connect": {"type": "boolean", "title": "Reconnect for each transaction (-C)", "default": False},
            "rate": {
                "type": "number",
                "minimum": 0.001,
                "maximum": 100000000,
                "title": "Transactions per second (-R)",
                "description": "Open loop: transactions start at random times, whether or not the last one has ended",
            },
            "rate_share": {
                "type": "number",
                "minimum": 0.001,
                "maximum": 2,
                "title": "Share of an earlier step's rate (-R)",
                "description": "Such as 0.5 of the rate that the step below reached in the same run",
            },
            "rate_of": {
                "type": "string",
                "pattern": r"^[a-z0-9][a-z0-9_-]{0,39}$",
                "title": "Step with the reference rate",
            },
            "latency_limit_ms": {
                "type": "number",
                "minimum": 0.001,
                "title": "Latency limit (-L)",
                "unit": "ms",
                "description": (
                    "Slower transactions count as late; with a rate, transactions that are already late are skipped"
                ),
            },
            "max_tries": {
                "type": "integer",
                "minimum": 0,
                "title": "Attempts per transaction (--max-tries)",
                "description": "After serialization failures and deadlocks; 0 for no limit. From PostgreSQL 15 on",
                "default": 1,
            },
            "failures_detailed": {
                "type": "boolean",
                "title": "Failures by their kind (--failures-detailed)",
                "description": "From PostgreSQL 15 on",
                "default": False,
            },
            "exit_on_abort": {
                "type": "boolean",
                "title": "End when a client is aborted (--exit-on-abort)",
                "description": "From PostgreSQL 17 on",
                "default": False,
            },
            "report_per_command": {"type": "boolean", "title": "Latency per statement (-r)", "default": False},
            "log": {
                "type": "string",
                "enum": ["none", "reduced"],
                "title": "Log of each transaction (-l)",
                "description": "reduced: histograms created on the host, with percentiles exact to 1 %",
                "default": "none",
            },
            "sampling_rate": {
                "type": "number",
                "minimum": 0.0001,
                "maximum": 1,
                "title": "Share of the transactions to log (--sampling-rate)",
            },
            "aggregate_interval_s": {
                "type": "integer",
                "minimum": 1,
                "title": "Interval of aggregated logs, seconds (--aggregate-interval)",
                "description": "Instead of a log of each transaction; kept unchanged",
                "unit": "s",
            },
            "progress_s": {"type": "integer", "minimum": 0, "title": "Progress every ... s (-P)", "default": 1},
            "random_seed": {
                "type": "integer",
                "minimum": 0,
                "maximum": 2**64 - 1,
                "title": "Random seed (--random-seed)",
                "description": "Default: the agent draws one for each run and records it",
            },
            "define": {
                "type": "object",
                "title": "Variables (-D)",
                "propertyNames": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
                "additionalProperties": {"type": ["number", "string"], "maxLength": 1000},
            },
            "scale": {"type": "integer", "minimum": 1, "maximum": 1000000, "title": "Scale (-s)", "default": 1},
            "tracer": tracer.SCHEMA,
        },
        "additionalProperties": False,
    }

    def named(self, name: str) -> str:
        """pgbench numbers its scripts and their statements: "script:1 tps", "script:2 statement:3 latency"."""
        return _NUMBERED.sub("latency_avg", _SCRIPT.sub("", name))

    def connections(self, options: Options) -> int:
        return int(options.get("clients", 1))

    def check(self, options: Options) -> None:
        tracer.check(self.kind, options)
        pgbench_options.check(options)

    def follows(self, options: Options) -> Optional[str]:
        return options.get("rate_of")

    def loop(self, options: Options) -> str:
        return pgbench_options.loop(options)

    def argv(self, options: Options, context: Context) -> list[str]:
        return pgbench_options.argv(options, context)

    def duration(self, options: Options) -> Optional[float]:
        return None if "transactions" in options else float(options.get("time_s", 10))

    def for_time(self, options: Options, seconds: int) -> Optional[Options]:
        rest = {name: value for name, value in options.items() if name not in NOT_WARM}
        return {**rest, "time_s": seconds, "progress_s": 1}

    def scripts(self, options: Options) -> list[tuple[str, str]]:
        return [(name, text) for name, text, _ in pgbench_options.texts(options)]

    def code(self, options: Options) -> dict[str, str]:
        return {**super().code(options), **pgbench_options.code(options)}

    def parse(self, options: Options, bench: Bench) -> Iterable[PlanFailure]:
        program = bench.tool("pgbench")
        if SINCE.keys() & options.keys():
            self.check_version(options, pgbench_scripts.version(program, bench))
        return pgbench_scripts.complaints(options, program, bench)

    def writes(self, options: Options) -> bool:
        own = [name for name, _ in pgbench_options.builtins(options)]
        scripts = [text for _, text, _ in pgbench_options.texts(options)]
        return any(name != "select-only" for name in own) or any(map(may_write, scripts))

    def measure(self, options: Options, stage: Stage, spare_s: float = 120.0) -> None:
        options = self._resolved(options, stage)
        context = self._context(options, stage)
        logs = self._logs(options, stage)
        seconds = self.duration(options)

        def on_line(line: str) -> None:
            sample = progress(line)
            if sample:
                stage.sample("pgbench", *sample)

        stage.measure(
            self.argv(options, context),
            limit_s=7 * DAY_S if seconds is None else seconds * 1.5 + spare_s,
            total_s=seconds,
            on_line=on_line,
            poll=logs.poll if logs else None,
            trace=Trace(tracer.requested(options), "pgbench", options.get("clients", 1)),
        )
        if logs:
            self._reduce(options, stage, logs)
        for path in sorted(stage.scratch.glob("transactions.*")) if "aggregate_interval_s" in options else []:
            stage.keep(path)

    def _resolved(self, options: Options, stage: Stage) -> Options:
        """Return the options with the random seed and the rate of this run, which are in load.json."""
        resolved: Options = {}
        if stage.cluster.major >= SINCE["random_seed"]:
            resolved["random_seed"] = options.get("random_seed", stage.seed)
        if "rate_share" in options:
            resolved["rate"] = self._rate(options, stage)
        (stage.out / "load.json").write_text(json.dumps({"loop": self.loop(options), **resolved}))
        return {**options, **resolved}

    def _rate(self, options: Options, stage: Stage) -> float:
        share, step = options["rate_share"], options["rate_of"]
        reached = rate_in((stage.earlier(step) / "stdout").read_text(errors="replace"))
        if reached is None:
            raise WorkloadFailure(f"step {step} reported no tps to derive a rate of {share:g} from", "see its stdout")
        rate: float = round(reached * share, 3)
        stage.log("info", f"the rate is {rate:g} tps: {share:g} of the {reached:g} tps of step {step}")
        return rate

    def _logs(self, options: Options, stage: Stage) -> Optional[LogFiles]:
        if options.get("log") != "reduced":
            return None
        reduction = Reduction(rate=self.loop(options) == "open", tries=options.get("max_tries", 1) != 1)
        return LogFiles(stage.scratch / "transactions", reduction, lambda message: stage.log("warning", message))

    def _reduce(self, options: Options, stage: Stage, logs: LogFiles) -> None:
        """Read the rest of the logs, then write the histograms: as samples for charts, otherwise as latency.json."""

        def report(share: float) -> None:
            stage.check()
            stage.progress(share, "reducing the log of transactions")

        logs.finish(report)
        names = pgbench_options.names(options)
        summary = logs.reduction.as_json(names, loop=self.loop(options), sampling_rate=options.get("sampling_rate", 1))
        (stage.out / "latency.json").write_text(json.dumps(summary, separators=(",", ":")))
        stage.log("info", logs.summary)
        slots = logs.reduction.slots
        for second, percentiles in slots.percentiles():
            stage.sample("latency", second + slots.width_s - stage.began, percentiles)

    def _context(self, options: Options, stage: Stage) -> Context:
        context = Context(stage.tool("pgbench"), str(stage.out), str(stage.scratch))
        pgbench_scripts.write(options, stage.scratch)
        return context


def progress(line: str) -> Optional[tuple[float, dict[str, float]]]:
    """A line of -P: (seconds since the start, {"tps", "latency_ms", "stddev_ms"}); None for any other line.

    Without a transaction in the interval pgbench writes NaN, and the latency columns are left out.
    """
    match = _PROGRESS.match(line)
    if not match:
        return None
    names = ("tps", "latency_ms", "stddev_ms")
    values = {name: text for name, text in zip(names, match.groups()[1:]) if "nan" not in text.lower()}
    return float(match.group(1)), {name: float(text) for name, text in values.items()}


def rate_in(stdout: str) -> Optional[float]:
    """The rate of a report: up to version 13, the one without connecting."""
    match = _RATE.search(stdout)
    return float(match.group(1)) if match else None
