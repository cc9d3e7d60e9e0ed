"""fio's job files: parsed as fio does, checked for allowed keys, and written again for fio. Pure.

Source: __parse_jobs_ini() of fio's init.c, and its HOWTO. fio gets a file written from the parsed one, so that both
have the same meaning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Callable, Iterator, Optional

from ..errors import Unplannable

FIELD = "fio.job_file"
ENGINES = (
    "libaio", "io_uring", "psync", "sync", "vsync", "pvsync", "pvsync2", "posixaio", "mmap", "splice", "null",
)  # fmt: skip
# Keys without programs, paths or devices, which write nothing else than the measured data.
HARMLESS = frozenset(
    """
    name description rw readwrite rw_sequencer bs blocksize bsrange bssplit bs_unaligned blocksize_unaligned
    bs_is_seq_rand blockalign ba size io_size io_limit number_ios offset offset_increment offset_align filesize nrfiles
    openfiles file_service_type fallocate fadvise_hint write_hint overwrite end_fsync fsync_on_close fsync fdatasync
    sync_file_range sync direct buffered atomic invalidate pre_read create_serialize create_fsync create_on_open
    create_only unlink loops runtime time_based ramp_time startdelay start_delay stonewall wait_for_previous new_group
    group_reporting numjobs thread exitall exit_what exitall_on_error
    ioengine iodepth iodepth_batch iodepth_batch_submit iodepth_batch_complete iodepth_batch_complete_min
    iodepth_batch_complete_max iodepth_low io_submit_mode serialize_overlap hipri hipri_percentage sqthread_poll
    sqthread_poll_cpu fixedbufs registerfiles nonvectored uncached force_async userspace_reap nowait cmdprio
    cmdprio_class cmdprio_percentage prio prioclass nice rwmixread rwmixwrite random_distribution random_generator
    randrepeat allrandrepeat randseed norandommap softrandommap percentage_random percentage_sequential refill_buffers
    zero_buffers scramble_buffers buffer_compress_percentage buffer_compress_chunk dedupe_percentage dedupe_mode
    dedupe_working_set_percentage thinktime thinktime_blocks thinktime_blocks_type thinktime_iotime thinktime_spin rate
    rate_min rate_iops rate_iops_min rate_process rate_cycle rate_ignore_thinktime latency_target latency_window
    latency_percentile latency_run max_latency percentile_list clat_percentiles slat_percentiles lat_percentiles
    significant_figures unified_rw_reporting disable_lat disable_clat disable_slat disable_bw_measurement disable_bw
    gtod_reduce gtod_cpu clocksource cpus_allowed cpus_allowed_policy cpumask numa_cpu_nodes numa_mem_policy disk_util
    stats bwavgtime iopsavgtime ss steadystate ss_dur steadystate_duration ss_ramp steadystate_ramp_time kb_base
    unit_base continue_on_error ignore_error iomem_align flow flow_watermark flow_sleep
    zonemode zonesize zonerange zoneskip zonecapacity max_open_zones
    """.split()  # noqa: SIM905 - one a line they would take pages
)
PATHS = ("filename", "directory")
# Keys that people have in their files, and why they cannot stay.
REFUSED = {
    **dict.fromkeys(("exec_prerun", "exec_postrun"), "it runs a program"),
    "include": "it reads another file: include its lines here",
    **dict.fromkeys(("read_iolog", "write_iolog", "merge_blktrace_file"), "it replays or writes a trace"),
    **dict.fromkeys(("opendir", "filename_format", "lockfile"), "it chooses files automatically; use filename"),
    "ioscheduler": "it changes the device: use the setting block_device, which is restored",
    "allow_mounted_write": "a mounted device is never written",
    **dict.fromkeys(
        ("write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log", "log_avg_msec", "log_hist_msec",
         "per_job_logs", "log_unix_epoch", "log_max_value", "log_offset", "log_compression", "log_entries"),
        "per-second logs are always written: remove it",
    ),
}  # fmt: skip
ALIASES = {
    "readwrite": "rw", "blocksize": "bs", "wait_for_previous": "stonewall", "start_delay": "startdelay",
}  # fmt: skip
_HEADER = re.compile(r"\[([^\[\]/\x00-\x1f]{1,200})\]")
_PLAIN_NAME = re.compile(r"[^/:\\\x00-\x1f]+")
_PATH = re.compile(r"/[^:\\\s\"'*?]*")
_UNITS = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d)?(?:ec|in|our|ay)?s?", re.IGNORECASE)


@dataclass
class Section:
    """One header with its own lines in order; `resolved` adds those of the [global] sections before it."""

    name: str
    lines: list[tuple[str, str]] = field(default_factory=list)
    inherited: dict[str, str] = field(default_factory=dict)

    @property
    def is_global(self) -> bool:
        return self.name.startswith("global")

    @property
    def resolved(self) -> dict[str, str]:
        return {**self.inherited, **dict(self.lines)}

    def on(self, key: str) -> bool:
        return self.resolved.get(key, "0") not in ("0", "false")

    def seconds(self) -> Optional[float]:
        """Return the time from its start to its end, if the file determines it."""
        options = self.resolved
        if "runtime" not in options:
            return None
        return sum(_seconds(options.get(key, "0")) for key in ("startdelay", "ramp_time", "runtime"))

    def paths(self, key: str) -> list[str]:
        """Return the paths in `filename` or `directory`. fio accepts several, separated by colons."""
        value = self.resolved.get(key, "")
        return value.split(":") if value else []


@dataclass(frozen=True)
class JobFile:
    sections: tuple[Section, ...]

    @property
    def jobs(self) -> list[Section]:
        return [section for section in self.sections if not section.is_global]

    def phases(self) -> list[list[Section]]:
        """Sections that run at the same time; each phase waits for the one before it (stonewall)."""
        phases: list[list[Section]] = []
        for section in self.jobs:
            if not phases or section.on("stonewall"):
                phases.append([])
            phases[-1].append(section)
        return phases

    def seconds(self) -> Optional[float]:
        """Return the total duration of all phases; None if a section ends by its amount of work."""
        durations = [section.seconds() for section in self.jobs]
        if None in durations:
            return None
        return sum(max(section.seconds() or 0.0 for section in phase) for phase in self.phases())

    def rendered(self, more: Callable[[int, Section], list[str]]) -> str:
        """Return the text for fio: the same sections, with paths from `more` for each job (counted from 0)."""
        blocks, number = [], 0
        for section in self.sections:
            lines = [f"{key}={value}" if value else key for key, value in section.lines if key not in PATHS]
            if not section.is_global:
                lines += more(number, section)
                number += 1
            blocks.append("\n".join([f"[{section.name}]", *lines, ""]))
        return "\n".join(blocks)


def read(text: str) -> JobFile:
    """Unplannable, with the line, for a key that is not on the list or a value that fio would expand."""
    sections: list[Section] = []
    shared: dict[str, str] = {}
    for line in text.splitlines():
        content = re.split("[;#]", line, maxsplit=1)[0].strip()
        if not content:
            continue
        if content[0] == "[":
            sections.append(_section(content, shared))
            continue
        if not sections:
            raise Unplannable(FIELD, content, "a section such as [global] before the first key")
        key, value = _option(content)
        sections[-1].lines.append((key, value))
        if sections[-1].is_global:
            shared[key] = value
    job = JobFile(tuple(sections))
    if not job.jobs:
        raise Unplannable(FIELD, text[:80], "a section besides [global], for each job")
    return job


def _section(content: str, shared: dict[str, str]) -> Section:
    header = _HEADER.fullmatch(content)
    if not header:
        raise Unplannable(FIELD, content, "[a name] without slashes and brackets")
    name = header.group(1)
    return Section(name, inherited={} if name.startswith("global") else dict(shared))


def _option(content: str) -> tuple[str, str]:
    key, equals, value = (part.strip() for part in content.partition("="))
    key = ALIASES.get(key, key)
    word = key.partition(" ")[0]  # include FILE
    if word in REFUSED:
        raise Unplannable(FIELD, content, f"a file without it: {REFUSED[word]}")
    if key not in HARMLESS and key not in PATHS:
        raise Unplannable(FIELD, content, "sections, comments and keys that run no program and name no other file")
    if re.search(r"[$`\\\x00-\x1f]", value) or (equals and not value):
        raise Unplannable(FIELD, content, "a literal value: fio would expand this one")
    _check_value(content, key, value)
    return key, value if equals else ""


def _check_value(content: str, key: str, value: str) -> None:
    if key == "ioengine" and value not in ENGINES:
        raise Unplannable(FIELD, content, f"engines: {', '.join(ENGINES)}")
    if key == "name" and not _PLAIN_NAME.fullmatch(value):
        raise Unplannable(FIELD, content, "a plain name")
    if key == "runtime" or key == "ramp_time":
        _seconds(value, content)
    if key == "filename":
        names = value.split(":")
        kinds = {bool(_PATH.fullmatch(name)) for name in names}
        if len(kinds) > 1 or not all(_is_file(name) for name in names):
            raise Unplannable(FIELD, content, "allowed absolute paths, or plain names in the step's own directory")
    if key == "directory" and not all(_PATH.fullmatch(name) for name in value.split(":")):
        raise Unplannable(FIELD, content, "absolute directories that are allowed")


def _is_file(name: str) -> bool:
    return bool(_PATH.fullmatch(name) or _PLAIN_NAME.fullmatch(name)) and name not in (".", "..", "-")


def _seconds(text: str, content: str = "") -> float:
    """ "180", "3m", "500ms"; of a range such as 0-5 the longer one."""
    match = _TIME.fullmatch(text.rpartition("-")[2].strip())
    if not match:
        raise Unplannable(FIELD, content or text, "seconds, or a number with us, ms, s, m, h or d")
    return float(match.group(1)) * _UNITS[(match.group(2) or "").lower()]


def check_priorities(job: JobFile) -> None:
    """Unplannable for priorities that only root may have: fio runs as another account."""
    for section in job.jobs:
        options = section.resolved
        is_real_time = "cmdprio_percentage" in options and options.get("cmdprio_class", "1") == "1"
        refused = {
            "prioclass": options.get("prioclass") == "1",
            "nice": options.get("nice", "").startswith("-"),
            "cmdprio_percentage": is_real_time,
        }
        for key in (key for key, is_refused in refused.items() if is_refused):
            raise Unplannable(FIELD, f"{key}={options[key]}", "a priority that accounts other than root may have")


def absolute(job: JobFile) -> Iterator[tuple[str, str]]:
    """Every path that the file names: (key, path), each once."""
    named = {(key, path): None for section in job.jobs for key in PATHS for path in section.paths(key)}
    return ((key, path) for key, path in named if path.startswith("/"))
