"""Read the kernel's command line, and replace parameters in it. Pure."""

from __future__ import annotations

import re

FILE = "/proc/cmdline"
PANIC = "panic"
PANIC_S = 10
# hugepages applies to the hugepagesz before it, so both are replaced together.
_PAGES = ("hugepagesz", "hugepages")
_PARAMETER = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
_MARK = "proving_ground.run"  # the kernel ignores parameters of modules that it does not have
_END = "--"  # what follows it is for init, not for the kernel


def words(line: str) -> list[str]:
    """The parameters of the kernel and of init."""
    return _PARAMETER.findall(line)


def parameters(line: str) -> list[str]:
    """The parameters of the kernel, which end at `--`: a=1, b="x y"."""
    listed = words(line)
    return listed[: listed.index(_END)] if _END in listed else listed


def name_of(parameter: str) -> str:
    """The name of a parameter. To the kernel, dashes and underscores are the same."""
    return parameter.partition("=")[0].replace("-", "_")


def values(line: str) -> dict[str, str]:
    """Name -> value, "" for a flag. Of a parameter that occurs several times, the last value."""
    return {name_of(each): each.partition("=")[2] for each in parameters(line)}


def mark(run: str) -> str:
    """The parameter that identifies the boot of a run."""
    return f"{_MARK}={run}"


def changed(line: str, wanted: list[str]) -> str:
    """The line with these parameters instead of those of the same name, and with a restart after a panic, which starts
    the boot loader's own entry. The same line if it has exactly these: another value of the same name could override
    them."""
    present = parameters(line)
    replaced = {name_of(each) for each in wanted}
    if replaced & set(_PAGES):
        replaced |= set(_PAGES)
    if sorted(each for each in present if name_of(each) in replaced) == sorted(wanted):
        return line
    rest = words(line)[len(present) :]
    others = [each for each in present if name_of(each) not in replaced]
    panic = [] if values(line).get(PANIC, "0").lstrip("-") not in ("", "0") else [f"{PANIC}={PANIC_S}"]
    others = [each for each in others if not panic or name_of(each) != PANIC]
    return " ".join([*others, *wanted, *panic, *rest])
