"""pg_test_fsync and pg_test_timing: what a file system's syncs and the machine's clock cost, by PostgreSQL's own
programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..host.paths import PATH, Named
from .base import Context, Metric, Options, Workload

if TYPE_CHECKING:
    from .base import Stage

BIN_DIR = {
    "type": "string",
    "pattern": r"^/[^\x00-\x1f]*$",
    "title": "PostgreSQL's programs",
    "description": "The bin directory of an installed PostgreSQL; default: the newest",
}
SYNC = ("open_datasync", "fdatasync", "fsync", "fsync_writethrough", "open_sync")
# Lines of its report by table, as the server's parser names them.
LINES = (
    *((table, method) for table in ("one_write", "two_writes") for method in SYNC),
    *(("open_sync_sizes", size) for size in ("1 * 16kB", "2 * 8kB", "4 * 4kB", "8 * 2kB", "16 * 1kB")),
    ("non_write_fd", "write, fsync, close"),
    ("non_write_fd", "write, close, fsync"),
    ("non_synced_write", "write"),
)


class PgTestFsync(Workload):
    kind = "pg_test_fsync"
    title = "pg_test_fsync"
    help = "Duration of each way to make a write durable on a file system"
    tools = ("pg_test_fsync",)
    bundled = True
    needs_directory = True
    metrics = {
        **{f"{table} {method} ops": Metric("ops/s", "higher") for table, method in LINES},
        **{f"{table} {method} us": Metric("us", "lower") for table, method in LINES},
    }
    main = (
        "one_write fdatasync ops",
        *(f"one_write {method} us" for method in SYNC),
        "two_writes fdatasync us",
        "non_synced_write write us",
    )
    schema = {
        "type": "object",
        "title": "pg_test_fsync",
        "properties": {
            "directory": {
                "type": "string",
                "pattern": PATH,
                "title": "Directory",
                "description": "An allowed directory on the storage to test, in which the step creates its own; "
                "default: the host's cluster directory",
            },
            "secs_per_test": {
                "type": "integer",
                "minimum": 1,
                "maximum": 3600,
                "title": "Seconds of each test (-s)",
                "default": 5,
            },
            "bin_dir": BIN_DIR,
        },
        "additionalProperties": False,
    }

    def paths(self, options: Options) -> list[Named]:
        return [Named("directory", options["directory"], "directory")] if "directory" in options else []

    def argv(self, options: Options, context: Context) -> list[str]:
        seconds = str(options.get("secs_per_test", 5))
        return [context.program, "-s", seconds, "-f", f"{context.scratch}/pg_test_fsync.out"]

    def duration(self, options: Options) -> float:
        """Return an upper limit: Linux has no fsync_writethrough, so that line takes no time."""
        tests = sum(method != "fsync_writethrough" for _, method in LINES)
        return float(tests * options.get("secs_per_test", 5))

    def measure(self, options: Options, stage: Stage) -> None:
        context = Context(program(self, options, stage), str(stage.out), str(stage.scratch))
        _measure(self, self.argv(options, context), self.duration(options), stage)


class PgTestTiming(Workload):
    kind = "pg_test_timing"
    title = "pg_test_timing"
    help = "Cost of one clock reading, which EXPLAIN ANALYZE and track_io_timing need often"
    tools = ("pg_test_timing",)
    bundled = True
    metrics = {
        "per_loop": Metric("ns", "lower"),
        "below_1us": Metric("%", "higher"),
        "longest": Metric("ns", "lower"),
    }
    schema = {
        "type": "object",
        "title": "pg_test_timing",
        "properties": {
            "duration_s": {"type": "integer", "minimum": 1, "maximum": 3600, "title": "Seconds (-d)", "default": 3},
            "bin_dir": BIN_DIR,
        },
        "additionalProperties": False,
    }

    def argv(self, options: Options, context: Context) -> list[str]:
        return [context.program, "-d", str(options.get("duration_s", 3))]

    def duration(self, options: Options) -> float:
        return float(options.get("duration_s", 3))

    def measure(self, options: Options, stage: Stage) -> None:
        argv = self.argv(options, Context(program(self, options, stage), str(stage.out), ""))
        _measure(self, argv, self.duration(options), stage)


def program(workload: Workload, options: dict[str, Any], stage: Stage) -> str:
    """Return the path of the tool, from the requested PostgreSQL or that of the run."""
    (name,) = workload.tools
    return f"{options['bin_dir']}/{name}" if "bin_dir" in options else stage.tool(name)


def _measure(workload: Workload, argv: list[str], seconds: float, stage: Stage) -> None:
    # Slow storage lets a test end late: after the write that its time is over in.
    stage.measure(argv, limit_s=seconds * 2 + 600.0, total_s=seconds, on_line=lambda line: None)
