"""How much of a file is in the page cache, by mincore(2), like fincore(1)."""

from __future__ import annotations

import ctypes
import mmap
import os

from .owned import open_regular

# A segment of PostgreSQL: one byte of answer for each page of it.
CHUNK = 1 << 30
_MAP_FAILED = ctypes.c_void_p(-1).value


def resident(path: str) -> tuple[int, int]:
    """(size in bytes, bytes in memory). OSError if it cannot be read. Without the right to write the file, newer
    kernels report all of it."""
    fd = open_regular(path)
    try:
        size = os.fstat(fd).st_size
        pages = sum(_chunk(fd, start, min(CHUNK, size - start)) for start in range(0, size, CHUNK))
        return size, min(size, pages * mmap.PAGESIZE)
    finally:
        os.close(fd)


def drop(path: str) -> None:
    """Drop the clean pages of a file that no process maps. OSError if the kernel refuses."""
    fd = open_regular(path)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def _chunk(fd: int, offset: int, length: int) -> int:
    """Pages in memory of this part. It is mapped without being touched, because access to a page reads it."""
    libc = _libc()
    address = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, fd, offset)
    if address == _MAP_FAILED:
        raise _failed("mmap")
    try:
        answer = (ctypes.c_ubyte * -(-length // mmap.PAGESIZE))()
        if libc.mincore(address, length, answer):
            raise _failed("mincore")
        # Only the lowest bit is defined.
        return bytes(answer).translate(_LOWEST).count(1)
    finally:
        libc.munmap(address, length)


_LOWEST = bytes(byte & 1 for byte in range(256))


def _failed(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    return libc
