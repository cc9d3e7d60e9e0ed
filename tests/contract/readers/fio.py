"""fio: JSON, text, job files, failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps.results.formats.fio import Direction, Latency, parse_fio, parse_fio_stderr


def fio_values(raw: bytes) -> dict[str, Any]:
    found = parse_fio(raw)
    jobs = [
        {"err": job.error, "groupid": job.groupid, "name": job.name}
        | {name: direction_values(one) for name, one in job.directions.items()}
        for job in found.jobs
    ]
    return {"version": found.version, "disks": list(found.disks), "jobs": jobs, "text_before": bool(found.other_lines)}


def direction_values(one: Direction) -> dict[str, Any]:
    percentiles = {f"{percentage:.2f}": ns for percentage, ns in one.clat.percentiles_ns} if one.clat else {}
    latencies = {f"{name}_ns": latency_values(getattr(one, name)) for name in ("slat", "clat", "lat")}
    names = ("bw_kib_s", "io_bytes", "iops", "runtime_ms", "total_ios")
    return {name: getattr(one, name) for name in names} | latencies | {"percentiles_ns": percentiles}


def latency_values(one: Latency | None) -> dict[str, Any]:
    # The corpus keeps the zeros that fio prints for a latency it did not measure.
    return {name: getattr(one, f"{name}_ns") if one else 0 for name in ("max", "mean", "min")}


def failure_values(raw: bytes) -> dict[str, Any]:
    found = parse_fio(raw)
    jobs = [{"err": job.error, "has_figures": bool(job.directions), "name": job.name} for job in found.jobs]
    return {"jobs": jobs, "json": True, "errors": [], "empty": False}


READERS: dict[str, Callable[[bytes], dict[str, Any]]] = {
    "fio_json": fio_values,
    "fio_error": failure_values,
    "fio_stderr": lambda raw: {"lines": list(parse_fio_stderr(raw))},
}
