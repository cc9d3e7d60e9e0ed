"""fio: I/O on files in a directory of the step's own, from typed fields or a job file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from ..errors import Unplannable
from .base import DAY_S, Context, Metric, Options, Workload

if TYPE_CHECKING:
    from .base import Stage

_SIZE = r"^\d+[kKmMgGtT]?[iI]?[bB]?$"
# Typed fields and fio's own names for them; each is also allowed in a job file.
_FIELDS = {
    "rw": "rw", "bs": "bs", "size": "size", "iodepth": "iodepth", "numjobs": "numjobs", "ioengine": "ioengine",
    "direct": "direct", "runtime_s": "runtime", "ramp_s": "ramp_time", "rwmixread": "rwmixread", "fsync": "fsync",
    "fdatasync": "fdatasync", "group_reporting": "group_reporting",
}  # fmt: skip
# What a job file may hold besides. No key here names a program, a path, or a device.
_MORE = {
    "name", "description", "readwrite", "blocksize", "bsrange", "rwmixwrite", "time_based", "stonewall",
    "wait_for_previous", "startdelay", "loops", "nrfiles", "filesize", "file_service_type", "fallocate", "end_fsync",
    "fsync_on_close", "sync", "buffered", "invalidate", "iodepth_batch", "iodepth_low", "iodepth_batch_submit",
    "iodepth_batch_complete", "thinktime", "rate", "rate_iops", "random_distribution", "randrepeat", "randseed",
    "norandommap", "refill_buffers", "buffer_compress_percentage", "percentage_random", "thread", "new_group",
    "percentile_list", "clat_percentiles", "lat_percentiles", "unified_rw_reporting", "cpus_allowed",
    "cpus_allowed_policy", "latency_target", "latency_window", "latency_percentile", "unlink", "offset", "io_size",
    "filename", "prio", "nice", "hipri", "sqthread_poll", "fixedbufs", "registerfiles",
}  # fmt: skip
ENGINES = ("libaio", "io_uring", "psync", "sync", "pvsync", "pvsync2", "posixaio", "mmap")


class Fio(Workload):
    kind = "fio"
    title = "fio"
    help = "Storage without PostgreSQL: typed fields for one job, or a job file"
    tools = ("fio",)
    metrics = {
        "iops": Metric("IOPS", "higher"),
        **{f"{way} iops": Metric("IOPS", "higher") for way in ("read", "write", "trim")},
        **{f"{way} bw": Metric("KiB/s", "higher") for way in ("read", "write", "trim")},
        **{f"{way} clat_mean": Metric("ns", "lower") for way in ("read", "write", "trim")},
        **{f"{way} clat_p99": Metric("ns", "lower") for way in ("read", "write", "trim")},
    }
    needs_directory = True
    schema = {
        "type": "object",
        "title": "fio",
        "properties": {
            "job_file": {
                "type": "string",
                "maxLength": 100000,
                "title": "Job file",
                "description": "Instead of the fields. Paths, devices and keys that run programs are refused",
            },
            "directory": {
                "type": "string",
                "pattern": r"^/[^\x00-\x1f:]*$",
                "title": "Directory",
                "description": "An absolute directory on the storage to test; without it, the target's data_dir",
            },
            "rw": {
                "type": "string",
                "enum": ["read", "write", "randread", "randwrite", "rw", "randrw"],
                "title": "Pattern (rw)",
                "default": "randread",
            },
            "bs": {"type": "string", "pattern": _SIZE, "title": "Block size (bs)", "default": "8k"},
            "size": {"type": "string", "pattern": _SIZE, "title": "Size of each job's file (size)", "default": "1g"},
            "iodepth": {"type": "integer", "minimum": 1, "maximum": 65536, "title": "Queue depth (iodepth)"},
            "numjobs": {"type": "integer", "minimum": 1, "maximum": 4096, "title": "Jobs (numjobs)"},
            "ioengine": {"type": "string", "enum": list(ENGINES), "title": "Engine (ioengine)", "default": "psync"},
            "direct": {"type": "boolean", "title": "Past the page cache (direct)"},
            "runtime_s": {"type": "integer", "minimum": 1, "title": "Seconds (runtime, time_based)"},
            "ramp_s": {"type": "integer", "minimum": 0, "title": "Unmeasured seconds before (ramp_time)"},
            "rwmixread": {"type": "integer", "minimum": 0, "maximum": 100, "title": "% reads of mixes (rwmixread)"},
            "fsync": {"type": "integer", "minimum": 0, "title": "fsync every ... writes"},
            "fdatasync": {"type": "integer", "minimum": 0, "title": "fdatasync every ... writes"},
            "group_reporting": {"type": "boolean", "title": "One result for all jobs (group_reporting)"},
        },
        "additionalProperties": False,
    }

    def metric(self, name: str) -> Optional[Metric]:
        """Several jobs put their own names before those of their figures: "oltp read iops"."""
        known = (each for each in self.metrics if name == each or name.endswith(f" {each}"))
        return self.metrics.get(max(known, key=len, default=""))

    def check(self, options: Options) -> None:
        given = sorted(set(options) & set(_FIELDS))
        if "job_file" in options:
            if given:
                raise Unplannable(f"fio.{given[0]}", options[given[0]], "nothing beside job_file")
            check_job_file(options["job_file"])

    def argv(self, options: Options, context: Context) -> list[str]:
        argv = [context.program, "--output-format=json+", f"--output={context.scratch}/fio.json", "--eta=never"]
        if "job_file" in options:
            return [*argv, f"{context.scratch}/job.fio"]
        argv += [f"--directory={context.scratch}", "--name=measure"]
        values = {"rw": "randread", "bs": "8k", "size": "1g", "ioengine": "psync", **options}
        argv += [f"--{word}={_spell(values[name])}" for name, word in _FIELDS.items() if name in values]
        return [*argv, "--time_based=1"] if "runtime_s" in options else argv

    def duration(self, options: Options) -> Optional[float]:
        if "runtime_s" not in options:
            return None
        return float(options["runtime_s"] + options.get("ramp_s", 0))

    def measure(self, options: Options, stage: Stage) -> None:
        context = Context(stage.tool("fio"), str(stage.out), str(stage.scratch))
        if "job_file" in options:
            # A leading [global] section holds for every job; the directory is ours to say.
            text = f"[global]\ndirectory={context.scratch}\n\n{options['job_file']}"
            job = Path(context.scratch) / "job.fio"
            job.write_text(text)
            job.chmod(0o644)
        seconds = self.duration(options)
        # Files are laid out before the clock starts: the limit leaves room for that.
        limit_s = DAY_S if seconds is None else seconds * 2 + 3600.0
        argv = self.argv(options, context)
        try:
            stage.measure(argv, limit_s=limit_s, total_s=seconds, on_line=lambda line: None)
        finally:
            stage.keep(stage.scratch / "fio.json")


def _spell(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def check_job_file(text: str) -> None:
    """Unplannable for a key that is not on the list, or a file name that leaves the directory."""
    for line in text.splitlines():
        line = line.strip()
        if not line or line[0] in "#;" or re.fullmatch(r"\[[^\]/]+\]", line):
            continue
        key, _, value = (part.strip() for part in line.partition("="))
        if key not in _MORE and key not in _FIELDS.values():
            raise Unplannable("fio.job_file", line, "sections, comments and keys that run no program and name no path")
        if key in ("filename", "name") and re.search(r"[/:\\$]", value):
            raise Unplannable("fio.job_file", line, "a plain name, for the files lie in the step's own directory")
        if key == "ioengine" and value not in ENGINES:
            raise Unplannable("fio.job_file", line, f"engines: {', '.join(ENGINES)}")
