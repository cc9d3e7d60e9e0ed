"""pgbench: stdout, stderr, initialisation, logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from readers.pgbench.aggregate import parse_aggregate
from readers.pgbench.log import Transaction, parse_log
from readers.pgbench.stderr import parse_init, parse_stderr
from readers.pgbench.summary import EXCLUDING, RECONNECTING, WITHOUT_INITIAL, Script, parse_summary
from tests.contract.readers.values import without_absent

KINDS_OF_DEFINITION = {WITHOUT_INITIAL: "without_initial_connection", RECONNECTING: "including_reconnections"}


def summary_values(raw: bytes) -> dict[str, Any]:
    parsed = parse_summary(raw)
    values = {name: value for name, value in asdict(parsed).items() if name not in ("tps", "tps_definition", "scripts")}
    if parsed.tps_definition == EXCLUDING:
        values["tps_excluding"] = parsed.tps
    else:
        values |= {"tps": parsed.tps, "tps_kind": KINDS_OF_DEFINITION[parsed.tps_definition]}
    named = [script_values(script) for script in parsed.scripts if script.name]
    lone = script_values(parsed.scripts[0]) if parsed.scripts and not named else {}
    return values | {
        "complete": True,
        "scripts": named,
        "statements": lone.pop("statements", []),
        "script_block": lone,
        "script_statistics": bool(parsed.scripts) and not named,
    }


def script_values(script: Script) -> dict[str, Any]:
    values = without_absent(asdict(script))
    if "statements" in values:
        values["statements"] = [without_absent(statement) for statement in values["statements"]]
    return values


def progress_values(raw: bytes) -> dict[str, Any]:
    parsed = parse_stderr(raw)
    return {
        "progress": [without_absent(asdict(one)) for one in parsed.progress],
        "other_lines": list(parsed.other_lines),
    }


def error_values(raw: bytes) -> dict[str, Any]:
    parsed = parse_stderr(raw)
    return {
        "aborted_clients": list(parsed.aborted_clients),
        "lines": list(parsed.other_lines),
        "run_aborted": parsed.run_aborted,
        "sql_errors": list(parsed.sql_errors),
    }


def init_values(raw: bytes) -> dict[str, Any]:
    parsed = asdict(parse_init(raw))
    steps = dict(parsed.pop("steps_s"))
    return parsed | {"steps": steps or None}


def log_values(raw: bytes) -> dict[str, Any]:
    parsed = parse_log(raw)
    return {
        "clients": list(parsed.clients),
        "columns": [parsed.columns],
        "first": words_of(parsed.first),
        "last": words_of(parsed.last),
        "first_transaction_no": parsed.first.number,
        "rows": parsed.transactions,
        "script_nos": list(parsed.scripts),
        "sum_latency_us": parsed.latency_us.sum,
        "sum_sixth": parsed.extra_sums[0] if parsed.extra_sums else None,
        "min_latency_us": parsed.latency_us.low,
        "max_latency_us": parsed.latency_us.high,
        "timed": parsed.timed,
        "words": dict(parsed.failures),
    }


def words_of(one: Transaction) -> list[str]:
    latency = one.word if one.latency_us is None else one.latency_us
    return [str(word) for word in (one.client, one.number, latency, one.script, one.ended_s, one.ended_us, *one.extra)]


AGGREGATE_NAMES = {
    "start_s": "interval_start",
    "latency_sum_us": "sum_latency_us",
    "latency_sum2_us2": "sum_latency2",
    "latency_min_us": "min_latency_us",
    "latency_max_us": "max_latency_us",
    "lag_sum_us": "sum_lag_us",
    "lag_sum2_us2": "sum_lag2",
    "lag_min_us": "min_lag_us",
    "lag_max_us": "max_lag_us",
}


def aggregate_values(raw: bytes) -> dict[str, Any]:
    parsed = parse_aggregate(raw)
    rows = [
        {AGGREGATE_NAMES.get(name, name): value for name, value in asdict(interval).items()}
        for interval in parsed.intervals
    ]
    return {"columns": [parsed.columns], "rows": rows, "transactions": parsed.transactions}


READERS: dict[str, Callable[[bytes], dict[str, Any]]] = {
    "pgbench_stdout": summary_values,
    "pgbench_progress": progress_values,
    "pgbench_error": error_values,
    "pgbench_init": init_values,
    "pgbench_log": log_values,
    "pgbench_agglog": aggregate_values,
}
