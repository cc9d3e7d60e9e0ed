"""Frames: skipped text, errors, and truncation at any byte."""

from __future__ import annotations

from typing import Any

import pytest

from agents.wire import protocol
from agents.wire.protocol import FrameReader, WireError, encode


def read(*chunks: bytes) -> list[Any]:
    reader = FrameReader()
    return [message for chunk in chunks for message in reader.feed(chunk)]


def test_text_before_the_first_frame_is_skipped_and_logged() -> None:
    reader = FrameReader()

    messages = list(reader.feed(b"Welcome to db7!\nPGF\n" + encode({"id": 1}) + encode({"id": 2})))

    assert messages == [{"id": 1}, {"id": 2}]
    assert reader.greeting == b"Welcome to db7!\nPGF\n"


def test_frames_cut_at_every_byte_arrive_whole() -> None:
    stream = b"noise" + encode({"id": 1, "text": "é\nPGF1"}) + encode([])

    assert read(*(stream[i : i + 1] for i in range(len(stream)))) == [{"id": 1, "text": "é\nPGF1"}, []]


def test_a_truncated_frame_is_not_yet_a_message() -> None:
    assert read(encode({"id": 1})[:-1]) == []


def test_noise_between_frames_is_an_error() -> None:
    with pytest.raises(WireError, match="noise between frames"):
        read(encode(1) + b"Broadcast message" + encode(2))


def test_a_flipped_bit_is_an_error() -> None:
    frame = bytearray(encode({"tps": 1234}))
    frame[-3] ^= 1

    with pytest.raises(WireError, match="checksum"):
        read(bytes(frame))


def test_an_absurd_length_is_refused_before_it_is_waited_for() -> None:
    with pytest.raises(WireError, match="announces"):
        read(protocol.MAGIC + protocol.HEADER.pack(protocol.MAX_PAYLOAD + 1, 0))


def test_endless_text_before_the_first_frame_is_refused() -> None:
    with pytest.raises(WireError, match="no frame in the first"):
        read(b"x" * (protocol.MAX_GREETING + 1))


def test_bytes_are_buffered_before_messages_are_read() -> None:
    reader, frame = FrameReader(), encode({"id": 7})
    reader.feed(frame[:9])

    assert list(reader.feed(frame[9:])) == [{"id": 7}]
