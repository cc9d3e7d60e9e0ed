"""fio: JSON, text, job files, failures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from readers.fio.job import parse_fio_job
from readers.fio.report import Direction, Latency, Spread, parse_fio, parse_fio_stderr
from readers.fio.text import Disk, GroupRate, TextJob, parse_fio_text
from tests.contract.readers.values import without_absent


def fio_values(raw: bytes) -> dict[str, Any]:
    parsed = parse_fio(raw)
    jobs = [
        {"err": job.error, "groupid": job.groupid, "name": job.name}
        | {name: direction_values(one) for name, one in job.directions.items()}
        for job in parsed.jobs
    ]
    return {
        "version": parsed.version,
        "disks": list(parsed.disks),
        "jobs": jobs,
        "text_before": bool(parsed.other_lines),
    }


def direction_values(one: Direction) -> dict[str, Any]:
    percentiles = {f"{percentage:.2f}": ns for percentage, ns in one.clat.percentiles_ns} if one.clat else {}
    latencies = {f"{name}_ns": latency_values(getattr(one, name)) for name in ("slat", "clat", "lat")}
    names = ("bw_kib_s", "io_bytes", "iops", "runtime_ms", "total_ios")
    return {name: getattr(one, name) for name in names} | latencies | {"percentiles_ns": percentiles}


def latency_values(one: Latency | None) -> dict[str, Any]:
    # The corpus keeps the zeros that fio prints for a latency it did not measure.
    return {name: getattr(one, f"{name}_ns") if one else 0 for name in ("max", "mean", "min")}


class Printed:
    """A number of bytes that equals what fio printed for it, "66.7MiB/s" as well as "69.9MB/s"."""

    UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 10**3, "MB": 10**6, "GB": 10**9}

    def __init__(self, count: int) -> None:
        self.count = count

    def __eq__(self, printed: object) -> bool:
        assert isinstance(printed, str)
        figure, unit = re.fullmatch(r"([0-9.]+)([kKMG]?i?B)(?:/s)?", printed).groups()  # type: ignore[union-attr]
        # The decimal unit is rounded from the bytes, our bytes are from the binary one, which is rounded too.
        return abs(self.count / (float(figure) * self.UNITS[unit]) - 1) < (1e-5 if "i" in unit else 0.01)


def text_values(raw: bytes) -> dict[str, Any]:
    parsed = parse_fio_text(raw)
    # The corpus has a unit for each line; the reader has one for all. The lines follow one another as the values do.
    units = (one.decode() for one in re.findall(rb"^ +(?:[sc]?lat|sync|bw) \( *(\w+)[^)]*\): min=", raw, re.MULTILINE))
    return {
        "version": parsed.version,
        "jobs": [job_values(job, units) for job in parsed.jobs],
        "groups": [
            {"group": group.number} | {name: group_values(rate) for name, rate in group.rates.items()}
            for group in parsed.groups
        ],
        "disks": [disk_values(disk) for disk in parsed.disks],
        "incomplete": parsed.missing,
    }


def job_values(job: TextJob, units: Iterator[str]) -> dict[str, Any]:
    directions = {name: text_direction_values(one, units) for name, one in job.directions.items()}
    issued = [one.total_ios if one else 0 for one in (job.read, job.write, job.trim)]
    cpu = {"usr_pct": job.usr_cpu_pct, "sys_pct": job.sys_cpu_pct, "ctx": job.context_switches}
    named = {"name": job.name, "groupid": job.groupid, "jobs": job.jobs, "err": job.error, "pid": job.pid}
    sync = {}
    if job.sync:
        sync = {"sync_ns": text_latency_values(job.sync, units), "percentiles_ns": percentile_values(job.sync)}
    return {**named, **directions, "issued": issued, "cpu": cpu, "depth": job.depth, "sync": sync or None}


def text_direction_values(one: Direction, units: Iterator[str]) -> dict[str, Any]:
    latencies = {f"{name}_ns": text_latency_values(getattr(one, name), units) for name in ("slat", "clat", "lat")}
    return without_absent(latencies) | {
        "bw": Printed(one.bw_kib_s * 1024),
        "bw_si": Printed(one.bw_kib_s * 1024),
        "io": Printed(one.io_bytes),
        "iops": one.iops,
        "runtime_ms": one.runtime_ms,
        "percentiles_ns": percentile_values(one.clat),
        "bw_samples": bandwidth_values(one, units),
        "iops_samples": spread_values(one.iops_spread),
    }


def percentile_values(one: Latency | None) -> dict[str, int]:
    return {f"{percentage:.2f}": ns for percentage, ns in one.percentiles_ns} if one else {}


def text_latency_values(one: Latency | None, units: Iterator[str]) -> dict[str, Any] | None:
    return {**latency_values(one), "stddev": one.stddev_ns, "unit": next(units)} if one else None


def spread_values(one: Spread | None, divisor: int = 1) -> dict[str, Any]:
    if one is None:
        return {}
    figures = {"min": one.min, "max": one.max, "avg": one.mean, "stdev": one.stddev}
    return {name: round(value / divisor, 2) for name, value in figures.items()} | {"samples": one.samples}


def bandwidth_values(one: Direction, units: Iterator[str]) -> dict[str, Any]:
    if one.bw_kib_s_spread is None:
        return {}
    unit = next(units)
    spread = spread_values(one.bw_kib_s_spread, {"KiB": 1, "MiB": 1024}[unit])
    return {**spread, "unit": f"{unit}/s", "per_pct": one.bw_share_pct}


def group_values(rate: GroupRate) -> dict[str, Any]:
    values = asdict(rate)
    bandwidth, io = Printed(values.pop("bw_kib_s") * 1024), Printed(values.pop("io_bytes"))
    return {**values, "bw": bandwidth, "bw_si": bandwidth, "io": io, "io_si": io}


def disk_values(disk: Disk) -> dict[str, Any]:
    names = {"read_merges": "read_merge", "write_merges": "write_merge"}
    return {names.get(name, name.removesuffix("_ms")): value for name, value in asdict(disk).items()}


def failure_values(raw: bytes) -> dict[str, Any]:
    parsed = parse_fio(raw)
    jobs = [{"err": job.error, "has_figures": bool(job.directions), "name": job.name} for job in parsed.jobs]
    return {"jobs": jobs, "json": True, "errors": [], "empty": False}


def job_file_values(raw: bytes) -> dict[str, Any]:
    parsed = parse_fio_job(raw)
    return {
        "sections": [section.name for section in parsed.sections],
        "options": {section.name: dict(section.options) for section in parsed.sections},
        "runs": [risk.option for risk in parsed.risks],
    }


READERS: dict[str, Callable[[bytes], dict[str, Any]]] = {
    "fio_json": fio_values,
    "fio_text": text_values,
    # The JSON stands in the midst of the text on purpose.
    "fio_mixed": lambda raw: {"json": fio_values(raw) | {"text_before": False}, "text": text_values(raw)},
    "fio_job": job_file_values,
    "fio_error": failure_values,
    "fio_stderr": lambda raw: {"lines": list(parse_fio_stderr(raw))},
}
