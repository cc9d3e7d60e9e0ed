"""Objects that live as long as a session are left out of garbage collection, and moved to huge pages.

A worker has imported the whole project and holds thousands of tests. A collection would visit all of them. In a forked
process, where a test lets an agent die, it would also copy their pages. While tests are collected nothing becomes
garbage, but each new object counts: a quarter of the CPU time went into visits of all objects.

A fork copies the page table. The agent's programs are forked where their account changes, and in these tests the agent
is a copy of the worker, with half a gigabyte: 46 ms of CPU time for each program with small pages, 9 ms with huge ones.
"""

from __future__ import annotations

import ctypes
import gc
import re
from collections.abc import Generator
from pathlib import Path

import pytest

HUGE = 2 << 20  # bytes
MADV_COLLAPSE = 25  # Linux 6.1; older kernels refuse it, which changes nothing
ANONYMOUS = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-p [0-9a-f]+ 00:00 0 *(?:\[heap\])?$", re.MULTILINE)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    move_to_huge_pages()


def move_to_huge_pages() -> int:
    """Ask the kernel to put the memory of this process on huge pages. Returns the bytes that are on them now."""
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return sum(end - start for start, end in whole_pages() if madvise(start, end - start, MADV_COLLAPSE) == 0)


def whole_pages() -> list[tuple[int, int]]:
    """Return start and end of each private anonymous mapping, without what fills no huge page."""
    bounds = [(int(start, 16), int(end, 16)) for start, end in ANONYMOUS.findall(Path("/proc/self/maps").read_text())]
    inner = [(-(-start // HUGE) * HUGE, end // HUGE * HUGE) for start, end in bounds]
    return [(start, end) for start, end in inner if start < end]
