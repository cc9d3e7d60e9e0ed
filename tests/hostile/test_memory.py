"""The measure of memory sees a peak below that of earlier work."""

from __future__ import annotations

from tests.hostile import memory

MIB = 1 << 20


def test_a_peak_is_seen_after_a_larger_one() -> None:
    """The peak of the whole process hid every smaller one that came later."""
    with memory.Peak() as large:
        bytearray(b"x") * (200 * MIB)
    with memory.Peak() as small:
        bytearray(b"x") * (100 * MIB)

    assert large.grown_mib >= 190
    assert 90 <= small.grown_mib < 190
