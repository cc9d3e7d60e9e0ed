"""Lossless compression of the numbers of a series, column by column. Pure.

Collectors emit integers, or decimals with few digits. Such a column is scaled to integers. They or their differences
are written without empty high bytes, byte plane by byte plane, and deflated. Any other column is float64, in the
same planes. Missing samples (nan) are one bit each."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_DECIMALS = 6
EXACT = 2.0**53
PLAIN, DIFFERENCES, FLOATS = range(3)
# Encoding, decimals, bytes of a number, the smallest number, bytes of planes and of gaps.
_HEAD = struct.Struct("<BBBqII")


def pack(columns: Sequence[Floats]) -> bytes:
    """Return the columns, which have the same length, one after another."""
    return b"".join(_column(np.asarray(values, dtype=np.float64)) for values in columns)


def unpack(packed: bytes, samples: int, selected: Sequence[bool]) -> list[Floats]:
    """Return the selected columns, each of shape (samples,). Missing samples are nan."""
    columns, at = [], 0
    for want in selected:
        head = _HEAD.unpack_from(packed, at)
        planes, gaps = head[-2:]
        begin, at = at + _HEAD.size, at + _HEAD.size + planes + gaps
        if want:
            columns.append(_values(head, packed[begin : begin + planes], packed[begin + planes : at], samples))
    return columns


def _column(values: Floats) -> bytes:
    missing = np.isnan(values)
    gaps = zlib.compress(np.packbits(missing).tobytes()) if missing.any() else b""
    present = values[~missing]
    scaled = _as_integers(present)
    if scaled is None:
        planes = zlib.compress(_planes(present.view(np.uint64), 8))
        return _HEAD.pack(FLOATS, 0, 8, 0, len(planes), len(gaps)) + planes + gaps
    decimals, numbers = scaled
    return min((_written(how, decimals, numbers, gaps) for how in (PLAIN, DIFFERENCES)), key=len)


def _as_integers(values: Floats) -> tuple[int, Integers] | None:
    """Return (decimals, numbers) such that numbers / 10**decimals are exactly the values; None if there are none."""
    if not np.isfinite(values).all():
        return None
    for decimals in range(MOST_DECIMALS + 1):
        scaled = np.rint(values * 10.0**decimals)
        if np.abs(scaled).max(initial=0.0) >= EXACT:
            return None
        if np.array_equal(scaled / 10.0**decimals, values):
            return decimals, scaled.astype(np.int64)
    return None


def _written(how: int, decimals: int, numbers: Integers, gaps: bytes) -> bytes:
    if how == DIFFERENCES:
        numbers = np.diff(numbers, prepend=np.int64(0))
    least = int(numbers.min()) if numbers.size else 0
    grown = numbers - least
    width = (int(grown.max(initial=1)).bit_length() + 7) // 8
    planes = zlib.compress(_planes(grown.view(np.uint64), width))
    return _HEAD.pack(how, decimals, width, least, len(planes), len(gaps)) + planes + gaps


def _planes(numbers: NDArray[np.uint64], width: int) -> bytes:
    """Return the lowest byte of every number, then the next byte of every number, and so on."""
    octets = np.ascontiguousarray(numbers, dtype="<u8").view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(octets[:, :width].T).tobytes()


def _values(head: tuple[int, ...], planes: bytes, gaps: bytes, samples: int) -> Floats:
    how, decimals, width, least = head[:4]
    octets = np.frombuffer(zlib.decompress(planes), dtype=np.uint8).reshape(width, -1)
    wide = np.zeros((octets.shape[1], 8), dtype=np.uint8)
    wide[:, :width] = octets.T
    if how == FLOATS:
        present = wide.view("<f8").ravel()
    else:
        numbers = wide.view("<i8").ravel() + least
        present = (np.cumsum(numbers) if how == DIFFERENCES else numbers) / 10.0**decimals
    if not gaps:
        return present
    missing = np.unpackbits(np.frombuffer(zlib.decompress(gaps), dtype=np.uint8), count=samples).astype(bool)
    values = np.full(samples, np.nan)
    values[~missing] = present
    return values
