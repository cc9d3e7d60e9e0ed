"""pgbench: stdout, stderr, initialisation, logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from readers.pgbench.aggregate import parse_aggregate
from readers.pgbench.log import Transaction, parse_log
from readers.pgbench.stderr import parse_init, parse_stderr
from readers.pgbench.summary import EXCLUDING, RECONNECTING, WITHOUT_INITIAL, Script, parse_summary
from tests.contract.readers.values import told

KINDS_OF_DEFINITION = {WITHOUT_INITIAL: "without_initial_connection", RECONNECTING: "including_reconnections"}


def summary_values(raw: bytes) -> dict[str, Any]:
    found = parse_summary(raw)
    values = {name: value for name, value in asdict(found).items() if name not in ("tps", "tps_definition", "scripts")}
    if found.tps_definition == EXCLUDING:
        values["tps_excluding"] = found.tps
    else:
        values |= {"tps": found.tps, "tps_kind": KINDS_OF_DEFINITION[found.tps_definition]}
    named = [script_values(one) for one in found.scripts if one.name]
    lone = script_values(found.scripts[0]) if found.scripts and not named else {}
    return values | {
        "complete": True,
        "scripts": named,
        "statements": lone.pop("statements", []),
        "script_block": lone,
        "script_statistics": bool(found.scripts) and not named,
    }


def script_values(script: Script) -> dict[str, Any]:
    values = told(asdict(script))
    if "statements" in values:
        values["statements"] = [told(statement) for statement in values["statements"]]
    return values


def progress_values(raw: bytes) -> dict[str, Any]:
    found = parse_stderr(raw)
    return {"progress": [told(asdict(one)) for one in found.progress], "other_lines": list(found.other_lines)}


def error_values(raw: bytes) -> dict[str, Any]:
    found = parse_stderr(raw)
    return {
        "aborted_clients": list(found.aborted_clients),
        "lines": list(found.other_lines),
        "run_aborted": found.run_aborted,
        "sql_errors": list(found.sql_errors),
    }


def init_values(raw: bytes) -> dict[str, Any]:
    found = asdict(parse_init(raw))
    steps = dict(found.pop("steps_s"))
    return found | {"steps": steps or None}


def log_values(raw: bytes) -> dict[str, Any]:
    found = parse_log(raw)
    return {
        "clients": list(found.clients),
        "columns": [found.columns],
        "first": words_of(found.first),
        "last": words_of(found.last),
        "first_transaction_no": found.first.number,
        "rows": found.transactions,
        "script_nos": list(found.scripts),
        "sum_latency_us": found.latency_us.sum,
        "sum_sixth": found.extra_sums[0] if found.extra_sums else None,
        "min_latency_us": found.latency_us.low,
        "max_latency_us": found.latency_us.high,
        "timed": found.timed,
        "words": dict(found.words),
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
    found = parse_aggregate(raw)
    rows = [{AGGREGATE_NAMES.get(name, name): value for name, value in asdict(one).items()} for one in found.intervals]
    return {"columns": [found.columns], "rows": rows, "transactions": found.transactions}


READERS: dict[str, Callable[[bytes], dict[str, Any]]] = {
    "pgbench_stdout": summary_values,
    "pgbench_progress": progress_values,
    "pgbench_error": error_values,
    "pgbench_init": init_values,
    "pgbench_log": log_values,
    "pgbench_agglog": aggregate_values,
}
