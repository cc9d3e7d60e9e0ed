"""What an agent sends, however it is malformed, is a lost event or a named error, and can be stored."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.wire.protocol import canonical, checksum
from apps.accounts.models import User
from apps.campaigns.execution import received
from apps.campaigns.models import Run
from apps.hosts.models import Host
from tests import campaigns

STATE: dict[str, Any] = {"seq": 1, "boot_id": "b", "wall": 1.7e9, "mono": 1.0, "kind": "state"}
STATE["data"] = {"state": "RUNNING", "step": "measure"}
MANIFEST: dict[str, Any] = {"outcome": "ok", "error": None, "clean": True, "conflicts": [], "last_seq": 7}
CONFLICT = dict.fromkeys(("key", "original", "ours", "found"), "")
FILE = {"path": "out/measure/stdout", "size": 3, "sha256": "0" * 64}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


def line(**changes: Any) -> bytes:
    record = {**STATE, **changes}
    return canonical({**record, "crc": checksum(record)})


def sealed(**changes: Any) -> bytes:
    return json.dumps({**MANIFEST, "files": [FILE], **changes}).encode()


def test_an_event_that_keeps_the_rules_is_taken() -> None:
    event = received.event(line())

    assert event is not None
    assert (event["seq"], event["kind"], event["data"]) == (1, "state", STATE["data"])


@pytest.mark.parametrize(
    "changes",
    [
        {"seq": 2**31},
        {"seq": -1},
        {"seq": True},
        {"kind": "thirteen_chars"},
        {"kind": 7},
        {"wall": 1e300},
        {"wall": float("nan")},
        {"wall": "now"},
        {"data": []},
        {"data": {}},
        {"data": {"state": "ASLEEP"}},
        {"data": {"state": "RUNNING", "step": "x" * 41}},
    ],
    ids=str,
)
def test_an_event_that_breaks_the_rules_is_lost(changes: dict[str, Any]) -> None:
    assert received.event(line(**changes)) is None


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", b"null", b'{"crc": 1}', b"\xff", b"[" * 100_000])
def test_a_line_that_is_no_event_is_lost(damaged: bytes) -> None:
    assert received.event(damaged) is None


def test_text_and_numbers_that_jsonb_refuses_are_replaced() -> None:
    event = received.event(line(kind="log", data={"message": "a\x00b", "values": [float("inf"), 1.5]}))

    assert event is not None
    assert event["data"] == {"message": "a\ufffdb", "values": [None, 1.5]}


@given(data=ANYTHING, field=st.sampled_from(sorted(STATE)))
def test_no_value_of_any_field_of_an_event_raises(data: Any, field: str) -> None:
    try:
        sent = line(**{field: data})
    except UnicodeEncodeError:
        return  # an agent cannot write it
    received.event(sent)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"outcome": "splendid"}, "outcome: 'splendid'"),
        ({"clean": "yes"}, "clean: 'yes'"),
        ({"error": "no"}, "error: 'no'"),
        ({"last_seq": 2**40}, "last_seq: 1099511627776"),
        ({"conflicts": [{}]}, "conflicts: key, original, ours and found"),
        (
            {"conflicts": [CONFLICT] * 1001},
            "conflicts: 1001, at most 1000",
        ),
        ({"files": [FILE, FILE]}, "files: a path appears twice"),
        ({"files": [FILE | {"path": "x" * 301}]}, "files: "),
        ({"files": [FILE | {"size": -1}]}, "files: "),
        ({"files": [FILE | {"size": "12"}]}, "files: "),
        ({"files": [FILE | {"sha256": "short"}]}, "files: "),
        ({"files": [FILE | {"path": str(n), "size": 16 << 20} for n in range(17)]}, "285,212,672 bytes to fetch"),
        ({"files": None}, "TypeError"),
    ],
    ids=str,
)
def test_a_manifest_that_breaks_the_rules_is_refused_by_its_field(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(received.UnusableError) as refused:
        received.manifest(sealed(**changes), "agent on db1")

    assert named in refused.value.message


def test_a_large_file_stays_on_its_host_and_does_not_count() -> None:
    received.manifest(sealed(files=[FILE | {"path": str(n), "size": 17 << 20} for n in range(17)]), "agent on db1")


@pytest.mark.parametrize(("size", "seconds"), [(64 << 20, 0), (64 << 20, -5), (231_000_000, 1500), (10 << 30, 86_400)])
def test_a_day_of_samples_is_within_the_volume_of_a_run(size: int, seconds: float) -> None:
    assert not received.excess(size, seconds)


@pytest.mark.parametrize(("size", "seconds"), [(231_000_000, 40), (65 << 20, -5), (12 << 30, 86_400)])
def test_a_flood_of_events_is_beyond_it(size: int, seconds: float) -> None:
    assert "bytes of events in" in received.excess(size, seconds)


@given(data=ANYTHING, field=st.sampled_from(["files", *MANIFEST]))
def test_no_value_of_any_field_of_a_manifest_raises_anything_else(data: Any, field: str) -> None:
    try:
        received.manifest(sealed(**{field: data}), "agent on db1")
    except received.UnusableError as error:
        assert error.message.startswith("manifest.json is not usable")


@pytest.mark.django_db(transaction=True)
@pytest.mark.fast
def test_a_tool_that_prints_nul_fails_its_run_and_the_queue_goes_on(host: Host, admin: User) -> None:
    """PostgreSQL stores no NUL: each tick failed on it, and a cancel did nothing."""
    program: dict[str, Any] = {
        "program": "sh",
        "arguments": "-c\nprintf 'a\\000b' >&2; exit 3",
        "patterns": "(?P<figure>[0-9]+)",
    }
    program["figures"] = {"figure": {"unit": "s", "better": "lower"}}
    once = {"name": "try", "levels": [{"label": "once", "set": {}}]}
    steps = [{"name": "measure", "role": "measure", "kind": "command", "options": program}]

    poisoned = campaigns.finish(campaigns.start(host, admin, once, steps=steps, metric="figure"))
    following = campaigns.finish(campaigns.start(host, admin, time_s=1))

    run = poisoned.runs.get()
    assert run.outcome == Run.Outcome.FAILED
    assert "a\ufffdb" in run.error["message"] + str(run.error)
    assert following.runs.get().outcome == Run.Outcome.OK
