"""Parse /proc/cpuinfo of x86, with or without topology.

Source: show_cpuinfo() in the kernel's arch/x86/kernel/cpu/proc.c, and samples of real hosts. Some virtual machines
have no `physical id` and `core id`: then the sockets of their CPUs are unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from common.errors import FormatError
from readers.text import INT, shown, unreadable, whole_lines

WHERE = "cpuinfo"


@dataclass(frozen=True)
class Cpu:
    """One logical CPU. `socket` and `core` are `physical id` and `core id` of the kernel."""

    number: int
    socket: int | None
    core: int | None
    siblings: int | None
    cores_of_socket: int | None
    apicid: int | None
    model: str | None
    mhz: float | None
    cache_kb: int | None


@dataclass(frozen=True)
class Cpuinfo:
    """All CPUs. `missing`: what the last CPU lacks in comparison with the first one, if the file ends too early."""

    cpus: tuple[Cpu, ...]
    missing: tuple[str, ...] = ()

    @property
    def sockets(self) -> Mapping[int, tuple[int, ...]] | None:
        """The CPUs of each socket; None if the socket of any CPU is unknown."""
        if any(cpu.socket is None for cpu in self.cpus):
            return None
        numbers = sorted({cpu.socket for cpu in self.cpus if cpu.socket is not None})
        return {number: tuple(cpu.number for cpu in self.cpus if cpu.socket == number) for number in numbers}

    @property
    def threads_per_core(self) -> int | None:
        """The number of threads per core, from the siblings and cores of the first CPU."""
        first = self.cpus[0]
        return first.siblings // first.cores_of_socket if first.siblings and first.cores_of_socket else None


def parse_cpuinfo(raw: bytes) -> Cpuinfo:
    """Parse all CPUs. Raises FormatError if there is none, if a number repeats, and for a line that the kernel does
    not write."""
    blocks: list[dict[str, str]] = []
    lines, cut = whole_lines(raw, WHERE)
    for place, line in lines:
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon:
            raise unreadable(place, line)
        if name == "processor":
            blocks.append({})
        if blocks:
            blocks[-1][name] = value
    cpus = tuple(_cpu(block) for block in blocks)
    if not cpus:
        raise FormatError(
            WHERE, "the file contains no processor", hint="only x86 is supported; give the output of lscpu instead"
        )
    if len({cpu.number for cpu in cpus}) < len(cpus):
        raise FormatError(WHERE, "a processor appears twice", hint="give the file of one host")
    lost = [name for name in blocks[0] if name not in blocks[-1]]
    return Cpuinfo(cpus, (*(f"{name} of processor {cpus[-1].number}" for name in lost), *(["the last line"] * cut)))


def _cpu(block: dict[str, str]) -> Cpu:
    number = _integer(block, "processor")
    if number is None:
        raise FormatError(WHERE, f"processor is {shown(block['processor'])}", hint="expected a number")
    cache = block.get("cache size", "").removesuffix(" KB")
    mhz = block.get("cpu MHz", "")
    return Cpu(
        number=number,
        socket=_integer(block, "physical id"),
        core=_integer(block, "core id"),
        siblings=_integer(block, "siblings"),
        cores_of_socket=_integer(block, "cpu cores"),
        apicid=_integer(block, "apicid"),
        model=block.get("model name"),
        mhz=float(mhz) if re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", mhz) else None,
        cache_kb=int(cache) if re.fullmatch(INT, cache) else None,
    )


def _integer(block: dict[str, str], name: str) -> int | None:
    value = block.get(name, "")
    return int(value) if re.fullmatch(INT, value) else None
