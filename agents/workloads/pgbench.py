"""pgbench: its own data, builtin scripts or a custom one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from .. import protocol
from ..errors import Unplannable
from .base import DAY_S, Context, Metric, Options, Workload

if TYPE_CHECKING:
    from .base import Stage

BUILTINS = ("tpcb-like", "simple-update", "select-only")
_SHELL = re.compile(r"^\s*\\(shell|setshell)\b", re.MULTILINE)
# progress: 1.0 s, 1234.5 tps, lat 0.810 ms stddev 0.102[, lag 0.1 ms][, 0 failed]
_PROGRESS = re.compile(
    r"^progress: ([\d.]+) s, ([\d.]+) tps, lat ([\d.]+|NaN|-nan|nan) ms stddev ([\d.]+|NaN|-nan|nan)"
)


class PgBench(Workload):
    kind = "pgbench"
    title = "pgbench"
    help = "PostgreSQL's own load generator: TPC-B like, read-only, or your script"
    tools = ("pgbench",)
    metrics = {
        "tps": Metric("tps", "higher"),
        "tps_including": Metric("tps", "higher"),
        **{name: Metric("ms", "lower") for name in ("latency_avg", "latency_stddev", "lag_avg", "lag_max")},
        **{name: Metric("ms", "lower") for name in ("initial_connection", "avg_connection")},
        **{name: Metric("transactions", "lower") for name in ("failed", "skipped", "late")},
    }
    main = ("tps", "latency_avg")
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
            "script": {
                "type": "string",
                "maxLength": 100000,
                "title": "Custom script (-f)",
                "description": "Used instead of a builtin; scripts with \\shell or \\setshell are refused",
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
            "progress_s": {"type": "integer", "minimum": 0, "title": "Progress every ... s (-P)", "default": 1},
            "report_per_command": {"type": "boolean", "title": "Latency per statement (-r)", "default": False},
            "define": {
                "type": "object",
                "title": "Variables (-D)",
                "propertyNames": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
                "additionalProperties": {"type": ["number", "string"], "maxLength": 1000},
            },
            "scale": {"type": "integer", "minimum": 1, "maximum": 1000000, "title": "Scale (-s)", "default": 1},
            "prepare": {
                "type": "string",
                "enum": ["once", "each"],
                "title": "Initialise the data",
                "description": "once: reuse what an earlier run left unchanged; each: anew for every run. "
                "Without it: once for select-only, each for all others",
            },
        },
        "additionalProperties": False,
    }

    def check(self, options: Options) -> None:
        if "builtin" in options and "script" in options:
            raise Unplannable("pgbench.script", "(given with builtin)", "either builtin or script")
        if "time_s" in options and "transactions" in options:
            raise Unplannable("pgbench.transactions", options["transactions"], "either time_s or transactions")
        shell = _SHELL.search(options.get("script", ""))
        if shell:
            raise Unplannable("pgbench.script", shell.group(0).strip(), "scripts without \\shell and \\setshell")

    def argv(self, options: Options, context: Context) -> list[str]:
        argv = [context.program, "-n", "-M", options.get("mode", "simple")]
        argv += ["-c", str(options.get("clients", 1)), "-j", str(options.get("jobs", 1))]
        if "transactions" in options:
            argv += ["-t", str(options["transactions"])]
        else:
            argv += ["-T", str(options.get("time_s", 10))]
        if options.get("progress_s", 1):
            argv += ["-P", str(options.get("progress_s", 1))]
        if options.get("report_per_command"):
            argv.append("-r")
        for name, value in sorted(options.get("define", {}).items()):
            argv += ["-D", f"{name}={value}"]
        if "script" in options:
            return [*argv, "-s", str(options.get("scale", 1)), "-f", f"{context.scratch}/script.sql"]
        return [*argv, "-b", options.get("builtin", "tpcb-like")]

    def duration(self, options: Options) -> Optional[float]:
        return None if "transactions" in options else float(options.get("time_s", 10))

    def prepare(self, options: Options, stage: Stage) -> None:
        reads_only = options.get("builtin") == "select-only"
        once = options.get("prepare", "once" if reads_only else "each") == "once"
        cluster, scale = stage.cluster, options.get("scale", 1)
        fingerprint = protocol.digest({"tool": "pgbench", "scale": scale, "version": cluster.major})
        if once and cluster.dataset() == fingerprint:
            return stage.log("info", f"the data of scale {scale} is there already")
        cluster.forget_dataset()
        argv = [stage.tool("pgbench"), "-i", "-q", "-s", str(scale)]
        stage.execute(argv, purpose="initialise", limit_s=7 * DAY_S)
        # As after a restore: what is measured must not pay for writing the fresh data out.
        cluster.sql("checkpoint")
        if once:
            cluster.keep_dataset(fingerprint)
        return None

    def measure(self, options: Options, stage: Stage) -> None:
        seconds = self.duration(options)

        def on_line(line: str) -> None:
            sample = progress(line)
            if sample:
                stage.sample("pgbench", *sample)

        stage.measure(
            self.argv(options, self._context(options, stage)),
            limit_s=7 * DAY_S if seconds is None else seconds * 1.5 + 120.0,
            total_s=seconds,
            on_line=on_line,
        )

    def _context(self, options: Options, stage: Stage) -> Context:
        if "script" in options:
            script = Path(stage.scratch) / "script.sql"
            script.write_text(options["script"])
            script.chmod(0o644)
        return Context(stage.tool("pgbench"), str(stage.out), str(stage.scratch))


def progress(line: str) -> Optional[tuple[float, dict[str, float]]]:
    """A line of -P: (seconds since the start, {"tps", "latency_ms", "stddev_ms"}); None for any other line.

    Without a transaction in the interval pgbench writes NaN, and the latency columns are left out.
    """
    found = _PROGRESS.match(line)
    if not found:
        return None
    names = ("tps", "latency_ms", "stddev_ms")
    values = {name: text for name, text in zip(names, found.groups()[1:]) if "nan" not in text.lower()}
    return float(found.group(1)), {name: float(text) for name, text in values.items()}
