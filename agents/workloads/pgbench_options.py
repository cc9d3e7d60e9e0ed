"""pgbench's options: the accepted values, their combinations, and the argument list. Pure."""

from __future__ import annotations

import re
from typing import Any, Iterator

from ..errors import Unplannable
from ..sql import hostaccess
from .base import Context, Metric, Options

BUILTINS = ("tpcb-like", "simple-update", "select-only")
SINCE = {"random_seed": 11, "max_tries": 15, "failures_detailed": 15, "exit_on_abort": 17}
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
# A variable becomes part of a statement's text unchanged; unless it is a number, it can be any SQL.
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")

METRICS: dict[str, Metric] = {
    "tps": Metric("tps", "higher"),
    "tps_including": Metric("tps", "higher"),
    **{name: Metric("ms", "lower") for name in ("latency_avg", "latency_stddev", "lag_avg", "lag_max")},
    **{f"latency_p{percent:g}": Metric("ms", "lower") for percent in PERCENTILES},
    **{name: Metric("ms", "lower") for name in ("latency_max", "lag_p99")},
    **{name: Metric("ms", "lower") for name in ("initial_connection", "avg_connection")},
    **{name: Metric("transactions", "lower") for name in ("failed", "skipped", "late", "retried")},
    **{name: Metric("transactions", "lower") for name in ("serialization_failures", "deadlock_failures")},
    "retries": Metric("retries", "lower"),
}


def texts(options: Options) -> list[tuple[str, str, int]]:
    """(name, text, weight) of each custom script, in the order of their -f."""
    single = [("script", options["script"], 1)] if "script" in options else []
    return single + [(each["name"], each["text"], each.get("weight", 1)) for each in options.get("scripts", [])]


def code(options: Options) -> dict[str, str]:
    """Field -> text of each script, and of each variable that could become SQL."""
    single = {"script": options["script"]} if "script" in options else {}
    several = {f"scripts.{each['name']}": each["text"] for each in options.get("scripts", [])}
    defined = {f"define.{name}": str(value) for name, value in options.get("define", {}).items()}
    return {**single, **several, **{name: text for name, text in defined.items() if not _NUMBER.fullmatch(text)}}


def builtins(options: Options) -> list[tuple[str, int]]:
    """(name, weight) of each builtin script, in the order of their -b."""
    several = sorted(options.get("builtins", {}).items())
    if several or texts(options):
        return several
    return [(options.get("builtin", "tpcb-like"), 1)]


def names(options: Options) -> list[str]:
    """Return the names of the scripts in pgbench's order, which it numbers from 0."""
    return [name for name, _ in builtins(options)] + [name for name, _, _ in texts(options)]


def loop(options: Options) -> str:
    """closed: a client begins a transaction when its last has ended; open: at the times of the rate."""
    return "open" if "rate" in options or "rate_share" in options else "closed"


def check(options: Options) -> None:
    """Unplannable for what the schema cannot say."""
    _check_scripts(options)
    for one, other in (("time_s", "transactions"), ("rate", "rate_share"), ("aggregate_interval_s", "sampling_rate")):
        _not_both(options, one, other)
    for one, other in (("rate_share", "rate_of"), ("rate_of", "rate_share")):
        if one in options and other not in options:
            raise _refused(one, options[one], f"only together with {other}")
    if options.get("max_tries") == 0 and "transactions" in options and "latency_limit_ms" not in options:
        raise _refused("max_tries", 0, "a number, because neither time_s nor latency_limit_ms ends the attempts")
    _check_log(options)


def _check_scripts(options: Options) -> None:
    for one in ("builtin", "script"):
        for other in ("script", "builtins", "scripts"):
            if one != other:
                _not_both(options, one, other)
    names: set[str] = set()
    for name, text, _ in texts(options):
        if name in names:
            raise _refused("scripts", name, "a distinct name for each script")
        names.add(name)
        _check_text(name, text)
    weights = [weight for _, weight in builtins(options)] + [weight for _, _, weight in texts(options)]
    if not sum(weights):
        raise _refused("scripts" if texts(options) else "builtins", 0, "a weight above 0 for at least one of them")


def _check_text(name: str, text: str) -> None:
    if name == "script":
        hostaccess.check("pgbench.script", text)
    else:
        hostaccess.check("pgbench.scripts", text, name)


def _check_log(options: Options) -> None:
    reduced = options.get("log") == "reduced"
    interval = options.get("aggregate_interval_s")
    if "sampling_rate" in options and not reduced:
        raise _refused("sampling_rate", options["sampling_rate"], "only with log: reduced")
    if interval and reduced:
        raise _refused("aggregate_interval_s", interval, "either a reduced log of each transaction or sums")
    if interval and "transactions" not in options and options.get("time_s", 10) % interval:
        raise _refused(
            "aggregate_interval_s", interval, f"a divisor of the {options.get('time_s', 10)} seconds of time_s"
        )


def _not_both(options: Options, one: str, other: str) -> None:
    if one in options and other in options:
        raise _refused(other, options[other], f"either {one} or {other}")


def _refused(option: str, value: Any, accepted: str) -> Unplannable:
    return Unplannable(f"pgbench.{option}", value, accepted)


def argv(options: Options, context: Context) -> list[str]:
    """The argument list; a rate_share must have become a rate by then."""
    return [
        context.program,
        "-n",
        *_load(options),
        *_pace(options),
        *_reports(options, context),
        *_what(options, context),
    ]


def _load(options: Options) -> Iterator[str]:
    yield from ("-M", options.get("mode", "simple"))
    yield from ("-c", str(options.get("clients", 1)), "-j", str(options.get("jobs", 1)))
    if "transactions" in options:
        yield from ("-t", str(options["transactions"]))
    else:
        yield from ("-T", str(options.get("time_s", 10)))
    if options.get("connect"):
        yield "-C"


def _pace(options: Options) -> Iterator[str]:
    if "rate" in options:
        yield from ("-R", _number(options["rate"]))
    if "latency_limit_ms" in options:
        yield from ("-L", _number(options["latency_limit_ms"]))
    if options.get("max_tries", 1) != 1:
        yield f"--max-tries={options['max_tries']}"
    if "random_seed" in options:
        yield f"--random-seed={options['random_seed']}"


def _reports(options: Options, context: Context) -> Iterator[str]:
    if options.get("progress_s", 1):
        yield from ("-P", str(options.get("progress_s", 1)))
    for name, switch in (("report_per_command", "-r"), ("failures_detailed", "--failures-detailed")):
        if options.get(name):
            yield switch
    if options.get("exit_on_abort"):
        yield "--exit-on-abort"
    if options.get("log") == "reduced" or "aggregate_interval_s" in options:
        yield from ("-l", f"--log-prefix={context.scratch}/transactions")
    if options.get("sampling_rate", 1) != 1:
        yield f"--sampling-rate={_number(options['sampling_rate'])}"
    if "aggregate_interval_s" in options:
        yield f"--aggregate-interval={options['aggregate_interval_s']}"


def _what(options: Options, context: Context) -> Iterator[str]:
    for name, value in sorted(options.get("define", {}).items()):
        yield from ("-D", f"{name}={value}")
    own = builtins(options)
    if not own:  # builtin scripts look the scale up
        yield from ("-s", str(options.get("scale", 1)))
    for name, weight in own:
        yield from ("-b", _weighed(name, weight))
    for name, _, weight in texts(options):
        yield from ("-f", _weighed(f"{context.scratch}/{name}.sql", weight))


def _weighed(name: str, weight: int) -> str:
    return name if weight == 1 else f"{name}@{weight}"


def _number(value: float) -> str:
    """Format a number for C, without an exponent."""
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
