"""tpcc: five transactions derived from TPC-C, run by pgbench as statements or as functions in the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Optional

from ...errors import PlanFailure, Unplannable
from ..base import DAY_S, OF_TRANSACTIONS, TRACED, Context, Metric, Options, Workload
from ..pgbench import SAMPLES, PgBench
from ..pgbench_options import METRICS
from .functions import CREATE
from .rules import LONGEST_THINKING, OLDEST, TRANSACTIONS
from .scripts import scripts, weights

if TYPE_CHECKING:
    from ...run.bench import Bench
    from ..base import Stage

DETAILED = 15  # PostgreSQL: the first pgbench that continues after a failure and counts failures by type
PGBENCH = PgBench()
SHARED = (
    *("mode", "clients", "jobs", "time_s", "transactions", "connect", "rate", "rate_share", "rate_of"),
    *("latency_limit_ms", "max_tries", "exit_on_abort", "sampling_rate", "progress_s", "random_seed", "tracer"),
)
# When the time is over, each client ends its transaction, which includes the waits of its terminal.
SPARE_S = 120.0 + max(each.keying_s + LONGEST_THINKING * each.thinking_s for each in TRANSACTIONS)
READS = ("order_status", "stock_level")
OF_TYPE = ("latency_avg", "latency_p50", "latency_p90", "latency_p95", "latency_p99", "latency_max")
_SHARED = {name: PGBENCH.schema["properties"][name] for name in SHARED}


def _percent(title: str, default: float) -> Options:
    return {"type": "number", "minimum": 0, "maximum": 100, "title": title, "default": default}


class Tpcc(Workload):
    kind = "tpcc"
    title = "tpcc"
    help = "Five transactions derived from TPC-C, by pgbench; not comparable with TPC-C results"
    tools = ("pgbench", "psql")
    dataset = "tpcc"
    metrics = {
        "nopm": Metric("new orders/min", "higher"),
        "tpm": Metric("transactions/min", "higher"),
        **METRICS,
        **{f"{each.name} {name}": METRICS[name] for each in TRANSACTIONS for name in OF_TYPE},
        **OF_TRANSACTIONS,
        **TRACED,
    }
    main = ("nopm", "tpm", "latency_avg")
    since = {name: first for name, first in PGBENCH.since.items() if name in _SHARED}
    samples = SAMPLES
    rates = PGBENCH.rates
    ends_when_steady = True
    needs_postgres = True
    schema = {
        "type": "object",
        "title": "tpcc",
        "properties": {
            "calls": {
                "type": "string",
                "enum": ["sql", "functions"],
                "title": "How transactions are executed",
                "description": "sql: one round trip per statement. functions: one call of a server function per "
                "transaction",
                "default": "sql",
            },
            **_SHARED,
            "log": {**PGBENCH.schema["properties"]["log"], "default": "reduced"},
            "weights": {
                "type": "object",
                "title": "Weights of the transactions",
                "description": ", ".join(f"{each.name} {each.weight}" for each in TRANSACTIONS) + " by default",
                "propertyNames": {"type": "string", "enum": [each.name for each in TRANSACTIONS]},
                "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 1000000},
            },
            "home": {
                "type": "string",
                "enum": ["transaction", "client"],
                "title": "Home warehouse",
                "description": "transaction: a random warehouse each time. client: one fixed warehouse per client",
                "default": "transaction",
            },
            "terminals": {
                "type": "boolean",
                "title": "Keying and think times",
                "description": "Each transaction waits 21 s on average; use ten clients per warehouse",
                "default": False,
            },
            "remote_lines": _percent("Order lines from another warehouse, percent", 1),
            "remote_payments": _percent("Payments of another warehouse's customers, percent", 15),
            "rollback": _percent("New orders that are rolled back, percent", 1),
        },
        "additionalProperties": False,
    }

    def named(self, name: str) -> str:
        """The name without its type of transaction: latency_p99.9 for "payment latency_p99.9"."""
        prefix, _, rest = name.partition(" ")
        return rest if name not in self.metrics and prefix in {each.name for each in TRANSACTIONS} else name

    def is_main(self, name: str) -> bool:
        return name in self.main

    def check(self, options: Options) -> None:
        if not weights(options):
            raise Unplannable("tpcc.weights", options["weights"], "a weight above 0 for at least one transaction")
        try:
            PGBENCH.check(load(options))
        except Unplannable as error:
            field = error.field.replace(f"{PGBENCH.kind}.", f"{self.kind}.", 1)
            raise Unplannable(field, error.value, error.details["accepted"], error.hint) from error

    def check_version(self, options: Options, major: int) -> None:
        if major < OLDEST:
            raise Unplannable("tpcc.calls", options.get("calls", "sql"), f"PostgreSQL {OLDEST} or later, not {major}")
        super().check_version(options, major)

    def follows(self, options: Options) -> Optional[str]:
        return PGBENCH.follows(options)

    def loop(self, options: Options) -> str:
        return PGBENCH.loop(options)

    def argv(self, options: Options, context: Context) -> list[str]:
        return PGBENCH.argv(load(options), context)

    def duration(self, options: Options) -> Optional[float]:
        return PGBENCH.duration(options)

    def connections(self, options: Options) -> int:
        return PGBENCH.connections(options)

    def for_time(self, options: Options, seconds: int) -> Optional[Options]:
        shorter = PGBENCH.for_time(options, seconds)
        return None if shorter is None else {**shorter, "log": "none"}

    def parse(self, options: Options, bench: Bench) -> Iterable[PlanFailure]:
        return PGBENCH.parse({**load(options), "define": {"warehouses": 1}}, bench)

    def writes(self, options: Options) -> bool:
        return any(name not in READS for name in weights(options))

    def measure(self, options: Options, stage: Stage) -> None:
        count = stage.cluster.load_sql("select count(*) from warehouse")
        if options.get("calls") == "functions":
            self._create_functions(stage)
        detailed = {"failures_detailed": True} if stage.cluster.major >= DETAILED else {}
        PGBENCH.measure({**load(options), **detailed, "define": {"warehouses": count}}, stage, SPARE_S)

    def _create_functions(self, stage: Stage) -> None:
        """A data set may be older than the agent, so each step creates the functions again."""
        argv = [stage.tool("psql"), "-X", "-q", "-w", "-v", "ON_ERROR_STOP=1", "-c", CREATE]
        stage.execute(argv, purpose="functions", limit_s=DAY_S)


def load(options: Options) -> Options:
    """Pure. The options of the workload pgbench for these options, without the variable `warehouses`."""
    shared: dict[str, Any] = {name: options[name] for name in SHARED if name in options}
    waits = {"report_per_command": True} if options.get("terminals") else {}
    return {**shared, "log": options.get("log", "reduced"), **waits, "scripts": scripts(options)}
