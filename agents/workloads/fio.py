"""fio: I/O on files and devices that the host's owner allows, from typed fields or a job file of any shape."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from ..errors import Unplannable
from ..host import owned
from ..host.paths import Named
from ..wire.columns import Columns, columns
from . import fio_jobs, fio_logs
from .base import DAY_S, Context, Metric, Options, Workload
from .fio_jobs import ENGINES, JobFile, Section

if TYPE_CHECKING:
    from .base import Stage

_SIZE = r"^\d+[kKmMgGtT]?[iI]?[bB]?$"
_PATH = r"^/[^\x00-\x20:$`\\;#\"'*?]*$"
# Typed fields, and fio's own names for them.
_FIELDS = {
    "filename": "filename", "rw": "rw", "bs": "bs", "size": "size", "iodepth": "iodepth", "numjobs": "numjobs",
    "ioengine": "ioengine", "direct": "direct", "runtime_s": "runtime", "ramp_s": "ramp_time",
    "rwmixread": "rwmixread", "fsync": "fsync", "fdatasync": "fdatasync", "group_reporting": "group_reporting",
}  # fmt: skip
_DEFAULTS = {"rw": "randread", "bs": "8k", "size": "1g", "ioengine": "psync"}
_WAYS = ("read", "write", "trim")
# [r=153MiB/s,w=81.1MiB/s][r=19.6k,w=10.4k IOPS]
_ETA = re.compile(r"\[((?:[rwt]=[^\],]+,?)+)\]\[((?:[rwt]=[^\], ]+,?)+) IOPS\]")
_FIGURE = re.compile(r"([rwt])=([\d.]+)([kKMGT]i?)?")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


SAMPLES: dict[str, Columns] = {
    "fio": {
        **columns(
            "bandwidth", "kB/s", {f"{way}_bw": f"of {way}s, all jobs" for way in _WAYS}, better="higher", shown=True
        ),
        **columns(
            "IOPS", "IOPS", {f"{way}_iops": f"of {way}s, all jobs" for way in _WAYS}, better="higher", shown=True
        ),
        **columns(
            "latency", "ms", {f"{way}_lat": f"of {way}s, mean of the jobs" for way in _WAYS}, better="lower", shown=True
        ),
    }
}


class Fio(Workload):
    kind = "fio"
    title = "fio"
    help = "Storage without PostgreSQL: typed fields for one job, or a job file"
    tools = ("fio",)
    metrics = {
        "iops": Metric("IOPS", "higher"),
        **{f"{way} iops": Metric("IOPS", "higher") for way in _WAYS},
        **{f"{way} bw": Metric("KiB/s", "higher") for way in _WAYS},
        **{f"{way} clat_mean": Metric("ns", "lower") for way in _WAYS},
        **{f"{way} clat_p99": Metric("ns", "lower") for way in _WAYS},
    }
    main = ("iops", "read bw", "write bw", "read clat_mean", "write clat_mean", "read clat_p99", "write clat_p99")
    samples = SAMPLES
    rates = tuple(f"{way}_iops" for way in _WAYS)
    needs_directory = True
    schema = {
        "type": "object",
        "title": "fio",
        "properties": {
            "job_file": {
                "type": "string",
                "maxLength": 100000,
                "title": "Job file",
                "description": "Instead of the fields. Its files and devices must be allowed on the host; keys that "
                "run programs are refused",
            },
            "directory": {
                "type": "string",
                "pattern": _PATH,
                "title": "Directory",
                "description": "An allowed directory on the storage to test, in which the step creates its own; "
                "default: the host's cluster directory",
            },
            "filename": {
                "type": "string",
                "pattern": _PATH,
                "title": "File or device (filename)",
                "description": "An allowed path, which loses its contents; default: files in the directory",
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
            "direct": {"type": "boolean", "title": "Bypass the page cache (direct)"},
            "runtime_s": {"type": "integer", "minimum": 1, "title": "Seconds (runtime, time_based)"},
            "ramp_s": {"type": "integer", "minimum": 0, "title": "Unmeasured ramp-up in seconds (ramp_time)"},
            "rwmixread": {"type": "integer", "minimum": 0, "maximum": 100, "title": "Reads of mixes in % (rwmixread)"},
            "fsync": {"type": "integer", "minimum": 0, "title": "fsync every ... writes"},
            "fdatasync": {"type": "integer", "minimum": 0, "title": "fdatasync every ... writes"},
            "group_reporting": {"type": "boolean", "title": "One result for all jobs (group_reporting)"},
        },
        "additionalProperties": False,
    }

    def named(self, name: str) -> str:
        """Sections put their own names before those of their figures: "oltp read iops"."""
        known = (each for each in self.metrics if name == each or name.endswith(f" {each}"))
        return max(known, key=len, default="")

    def check(self, options: Options) -> None:
        conflicting = sorted(set(options) & set(_FIELDS))
        if "job_file" in options and conflicting:
            raise Unplannable(f"fio.{conflicting[0]}", options[conflicting[0]], "nothing beside job_file")
        # Not whenever a job file is read: stored runs of older versions may have them.
        fio_jobs.check_priorities(job_of(options))

    def paths(self, options: Options) -> list[Named]:
        own = [Named("directory", options["directory"], "directory")] if "directory" in options else []
        kinds = {"filename": "file", "directory": "directory"}
        option = "job_file" if "job_file" in options else "filename"
        return [*own, *(Named(option, path, kinds[key]) for key, path in fio_jobs.absolute(job_of(options)))]

    def argv(self, options: Options, context: Context) -> list[str]:
        shown = ["--output-format=json+", f"--output={context.scratch}/fio.json", "--eta=always", "--eta-newline=1s"]
        return [context.program, *shown, f"{context.scratch}/job.fio"]

    def duration(self, options: Options) -> Optional[float]:
        return job_of(options).seconds()

    def for_time(self, options: Options, seconds: int) -> Optional[Options]:
        return None if "job_file" in options else {**options, "runtime_s": seconds, "ramp_s": 0}

    def measure(self, options: Options, stage: Stage) -> None:
        job, scratch = job_of(options), stage.scratch
        written = scratch / "job.fio"
        owned.create(written, _rendered(job, stage).encode(), mode=0o644)
        seconds, first = job.seconds(), stage.clock()

        def on_line(line: str) -> None:
            values = rates(line)
            if values:
                stage.sample("fio", stage.clock() - first, values)

        try:
            stage.measure(
                self.argv(options, Context(stage.tool("fio"), str(stage.out), str(scratch))),
                # Files are laid out before the clock starts: the limit leaves room for that.
                limit_s=DAY_S if seconds is None else seconds * 2 + 3600.0,
                total_s=seconds,
                on_line=on_line,
                watched="stdout",
            )
        finally:
            stage.keep(scratch / "fio.json")
            stage.keep(written)
            _keep_logs(stage, [section.name for section in job.jobs])


def job_of(options: Options) -> JobFile:
    """The options as a job file of fio. Unplannable with the line that is not accepted."""
    if "job_file" in options:
        return fio_jobs.read(options["job_file"])
    values = {**_DEFAULTS, **options}
    lines = [f"{word}={_spell(values[name])}" for name, word in _FIELDS.items() if name in values]
    timed = ["time_based=1"] if "runtime_s" in options else []
    return fio_jobs.read("\n".join(["[measure]", *lines, *timed]))


def _spell(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _rendered(job: JobFile, stage: Stage) -> str:
    """Return the text for fio. Unplannable for phases that find what an earlier one left in a device's page cache: fio
    empties it only as root, and the agent does so before the step."""
    cached: set[str] = set()
    for phase in job.phases():
        buffered = [
            section for section in phase if not section.on("direct") and section.resolved.get("buffered") != "0"
        ]
        for section in buffered if cached else []:
            for path in cached.intersection(section.paths("filename")):
                if section.resolved.get("invalidate") != "0" and Path(path).is_block_device():
                    accepted = "direct=1, invalidate=0, or a step for each phase: only root can empty its page cache"
                    raise Unplannable(fio_jobs.FIELD, f"[{section.name}] filename={path}", accepted)
        cached.update(path for section in buffered for path in section.paths("filename"))
    return job.rendered(lambda number, section: _ours(number, section, stage))


def _ours(number: int, section: Section, stage: Stage) -> list[str]:
    """Return the options for a section's files and logs. Files that fio creates are removed with the run, never by fio,
    so that existing files stay."""
    lines = [f"write_{log}_log={stage.scratch}/{number}" for log in fio_logs.LOGS]
    lines += [f"log_avg_msec={fio_logs.EVERY_MS}", "per_job_logs=0", "log_unix_epoch=1", "unlink=0"]
    names = section.paths("filename")
    if names and names[0].startswith("/"):
        return [*lines, f"filename={':'.join(stage.claim(name) for name in names)}"]
    places = [str(stage.room(path)) for path in section.paths("directory")] or [str(stage.scratch)]
    lines.append(f"directory={':'.join(places)}")
    return [*lines, f"filename={':'.join(names)}"] if names else lines


def _keep_logs(stage: Stage, names: list[str]) -> None:
    """The logs compressed, and what they come to on one time axis."""
    out = stage.out
    paths = [out / f"{number}_{log}.log" for number in range(len(names)) for log in fio_logs.LOGS]
    for path in paths:
        stage.keep(stage.scratch / path.name)
    existing = [path for path in paths if path.is_file()]
    if any(path.stat().st_size for path in existing):
        series = fio_logs.fold(out, names, microseconds=_is_old(out / "fio.json"))
        (out / "series.json").write_text(json.dumps(series, separators=(",", ":")))
    for path in existing:
        if path.stat().st_size:
            with path.open("rb") as plain, gzip.open(out / f"{path.name}.gz", "wb", compresslevel=6) as packed:
                shutil.copyfileobj(plain, packed)
        path.unlink()


def _is_old(report: Path) -> bool:
    """Return whether fio is older than 3.0, whose latencies are in microseconds."""
    if not report.is_file():
        return False
    with report.open(errors="replace") as text:
        return '"fio-2.' in text.read(4096)


def rates(line: str) -> dict[str, float]:
    """The rates of fio's ETA line, which is rewritten every second: {"read_bw": KiB/s, "read_iops": ...}."""
    match = _ETA.search(line)
    if not match:
        return {}
    ways = dict(zip("rwt", _WAYS))
    values = {}
    for name, text in zip(("bw", "iops"), match.groups()):
        for way, figure, unit in _FIGURE.findall(text):
            base = 1024.0 if unit.endswith("i") else 1000.0
            value = float(figure) * base ** _POWERS[unit.rstrip("i").upper()]
            values[f"{ways[way]}_{name}"] = value / 1024 if name == "bw" else value
    return values
