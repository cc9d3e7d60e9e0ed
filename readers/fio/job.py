"""Parse fio's job files: sections, the effective options of each job, groups of concurrent jobs, and options that run
programs.

Source: parse_jobs_ini() and strip_blank_end() in fio's init.c and parse.c, and "Job file format" in its manual."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from common.errors import FormatError
from readers.text import is_unfinished, numbered_lines, shown

WHERE = "fio job file"

Options = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class Section:
    """A section as written. An option without "=" has the value None; the last value of a repeated option counts."""

    name: str
    options: Options

    @property
    def is_global(self) -> bool:
        return self.name.lower().startswith("global")


@dataclass(frozen=True)
class JobSection:
    """One job with the options of the [global] sections above it. Jobs of the same `group` run at the same time."""

    name: str
    group: int
    options: dict[str, str | None]


@dataclass(frozen=True)
class Risk:
    """An option that does more than I/O on files. The owner of the host must approve it."""

    section: str
    option: str
    value: str
    why: str


@dataclass(frozen=True)
class JobFile:
    """A parsed job file. `risks`: options that need approval. `cut`: the last line has no newline; it is read
    anyway, because editors may omit the newline, but may be incomplete."""

    sections: tuple[Section, ...]
    jobs: tuple[JobSection, ...]
    risks: tuple[Risk, ...]
    cut: bool = False


_HEADER = re.compile(r"\[(?P<name>[^\[\]]{1,255})\]")
_OPTION = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9_-]{0,63})(?: *(?P<assigned>=) *(?P<value>.*))?")
_INCLUDE = re.compile(r"include (?P<value>.+)")


def parse_fio_job(raw: bytes) -> JobFile:
    """Parse a job file. Raises FormatError for a line that is neither section, option nor comment, and for a file
    without a job."""
    sections: list[tuple[str, list[tuple[str, str | None]]]] = []
    for place, line in numbered_lines(raw, WHERE):
        # fio cuts a line at either sign too, even inside a value.
        text = re.split("[;#]", line, maxsplit=1)[0].strip()
        header, option = _HEADER.fullmatch(text), _INCLUDE.fullmatch(text) or _OPTION.fullmatch(text)
        if header:
            sections.append((header["name"], []))
        elif text and not option:
            raise FormatError(place, f"cannot read {shown(text)}", hint="expected [section], option=value or a comment")
        elif option and not sections:
            raise FormatError(place, f"{shown(text)} is above the first section", hint="move it below [global]")
        elif option:
            sections[-1][1].append(_pair(option))
    parsed_sections = tuple(Section(name, tuple(options)) for name, options in sections)
    jobs = tuple(_jobs(parsed_sections))
    if not jobs:
        raise FormatError(WHERE, "the file contains no job", hint="expected at least one section other than [global]")
    return JobFile(
        parsed_sections,
        jobs,
        tuple(risk for section in parsed_sections for risk in _risks(section)),
        is_unfinished(raw),
    )


def _pair(option: re.Match[str]) -> tuple[str, str | None]:
    if option.re is _INCLUDE:
        return "include", option["value"].strip()
    return option["name"], option["value"].strip() if option["assigned"] else None


def _jobs(sections: tuple[Section, ...]) -> Iterator[JobSection]:
    shared: dict[str, str | None] = {}
    group, begun = 0, False
    for section in sections:
        if section.is_global:
            shared |= dict(section.options)
            continue
        options = shared | dict(section.options)
        walled = any(_is_set(options, name) for name in ("stonewall", "wait_for_previous", "new_group"))
        # A stonewall before the first job separates nothing.
        group, begun = group + (walled and begun), True
        yield JobSection(section.name, group, options)


def _is_set(options: dict[str, str | None], name: str) -> bool:
    return name in options and options[name] != "0"


def _is_device(value: str) -> bool:
    return any(name.replace("\\", "").startswith("/dev/") for name in value.split(":"))


_RISKS: tuple[tuple[str, Callable[[str], bool], str], ...] = (
    ("exec_prerun", bool, "runs a command in a shell"),
    ("exec_postrun", bool, "runs a command in a shell"),
    ("program", bool, "runs a program"),
    ("ioengine", lambda value: value == "exec", "runs a program"),
    ("ioengine", lambda value: value.startswith("external") or "/" in value, "loads a library"),
    ("filename", _is_device, "uses a device"),
    ("directory", _is_device, "uses devices"),
    ("opendir", bool, "uses every file below a directory"),
    ("read_iolog", bool, "uses the files that a log names"),
    ("include", bool, "reads another file"),
    ("ioscheduler", bool, "changes the host's I/O scheduler"),
    ("uid", bool, "runs as another user"),
    ("gid", bool, "runs as another user"),
)


def _risks(section: Section) -> Iterator[Risk]:
    for option, value in section.options:
        for name, is_risk, why in _RISKS:
            if option == name and is_risk(value or ""):
                yield Risk(section.name, option, value or "", why)
