"""Malformed messages of an agent are lost events or named errors, and can be stored."""

from __future__ import annotations

import json
from typing import Any

import hypothesis
import pytest
from django.db.models import TextField
from django.db.models.functions import Cast
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from agents.wire.protocol import canonical, checksum
from apps.accounts.models import User
from apps.campaigns.execution import fetching, received
from apps.campaigns.execution.jobs import insert_events
from apps.campaigns.models import Run, RunEvent, RunPart
from apps.hosts.access import event_shapes
from apps.hosts.access.shapes import storable
from apps.hosts.models import Host
from tests.rows.factories import make_campaign
from tests.servers import campaigns

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
def test_a_malformed_event_is_lost(damaged: bytes) -> None:
    assert received.event(damaged) is None


def test_text_and_numbers_that_jsonb_refuses_are_replaced() -> None:
    event = received.event(line(kind="log", data={"message": "a\x00b", "values": [float("inf"), 1.5]}))

    assert event is not None
    assert event["data"] == {"message": "a\ufffdb", "values": [None, 1.5]}


@given(text=st.text(st.characters(exclude_categories=()), max_size=20))
@hypothesis.example(text="\x00")
@hypothesis.example(text="\x01\x1f\x7f")
@hypothesis.example(text="\ud800\xe9\udfff")
def test_only_nul_and_lone_surrogates_of_a_text_are_replaced(text: str) -> None:
    is_refused = [character == "\0" or "\ud800" <= character <= "\udfff" for character in text]

    kept = storable({text: text})

    expected = "".join("\ufffd" if refused else each for each, refused in zip(text, is_refused, strict=True))
    assert kept == {expected: expected}


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
        ({"conflicts": [{}]}, "conflicts: [0]: original is missing"),
        (
            {"conflicts": [CONFLICT] * 1001},
            "conflicts: 1,001 entries, at most 1,000",
        ),
        ({"files": [FILE, FILE]}, "files: a path appears twice"),
        ({"files": [FILE | {"path": "x" * 301}]}, "files: "),
        ({"files": [FILE | {"size": -1}]}, "files: "),
        ({"files": [FILE | {"size": "12"}]}, "files: "),
        ({"files": [FILE | {"sha256": "short"}]}, "files: "),
        ({"files": [FILE | {"path": str(n), "size": 16 << 20} for n in range(17)]}, "285,212,672 bytes to fetch"),
        ({"files": None}, "files: None is not a list"),
        ({"files": [FILE | {"path": "../../etc/passwd"}]}, "files: [0]: path: "),
        ({"files": [FILE | {"path": "/etc/passwd"}]}, "files: [0]: path: "),
        ({"files": [FILE | {"path": "out//x"}]}, "files: [0]: path: "),
        ({"files": [FILE | {"path": "out/a\nb"}]}, "files: [0]: path: "),
        ({"conflicts": [CONFLICT | {"found": "x" * 60_000}] * 5}, "bytes beside its files, at most"),
        ({"error": {"message": 7}}, "error: message: 7 is not text"),
        ({"deep": [[[[]]]] * 100_000}, "more than 200000 values"),
    ],
    ids=lambda case: str(case)[:60],
)
def test_a_manifest_that_breaks_the_rules_is_refused_by_its_field(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(received.UnusableError) as refused:
        received.manifest(sealed(**changes), "agent on db1")

    assert named in refused.value.message


def test_a_large_file_stays_on_its_host_and_does_not_count() -> None:
    received.manifest(sealed(files=[FILE | {"path": str(n), "size": 17 << 20} for n in range(17)]), "agent on db1")


@pytest.mark.parametrize(("size", "seconds"), [(64 << 20, 0), (64 << 20, -5), (231_000_000, 1500), (10 << 30, 86_400)])
def test_a_day_of_samples_is_within_the_volume_of_a_run(size: int, seconds: float) -> None:
    assert not received.excess(size, int(20 * max(0, seconds)), seconds)


@pytest.mark.parametrize(("size", "seconds"), [(231_000_000, 40), (65 << 20, -5), (12 << 30, 86_400)])
def test_a_flood_of_events_is_beyond_it(size: int, seconds: float) -> None:
    assert "bytes of events in" in received.excess(size, 1, seconds)


@pytest.mark.parametrize(("events", "seconds"), [(2**31 - 1, 40), (50_001, -5), (20_000_000, 86_400)])
def test_more_events_than_any_run_has_are_beyond_it(events: int, seconds: float) -> None:
    assert f"{events:,} events in" in received.excess(1000, events, seconds)


def lines(*sent: bytes) -> bytes:
    return b"".join(each + b"\n" for each in sent)


def test_an_event_that_is_sent_twice_is_taken_once() -> None:
    job = Run(host=Host(name="db1"))

    events, damaged = fetching.events_of(job, lines(line(), line(data={"state": "CLEAN"}), line(seq=2)))

    assert [(event["seq"], event["data"]["state"]) for event in events] == [(1, "RUNNING"), (2, "RUNNING")]
    assert damaged == 0


@pytest.mark.parametrize(
    ("sent", "named"),
    [
        (b"\n" * 100_000, "100,000 lines of events in 100,000 bytes"),
        (lines(*[b"x" * 100] * 1001), "1,001 damaged events, at most 1,000"),
        (lines(line(), line(seq=2**31 - 1)), "2,147,483,647 events in 0 s, at most 50,000"),
    ],
    ids=["empty lines", "damaged", "a leap of seq"],
)
def test_a_batch_beyond_a_quota_ends_the_run_and_names_it(sent: bytes, named: str) -> None:
    with pytest.raises(received.UnusableError) as refused:
        fetching.events_of(Run(host=Host(name="db1")), sent)

    assert named in refused.value.message


def test_the_details_of_a_large_failure_are_left_out() -> None:
    error = {"blame": "workload", "message": "m" * 9000, "hint": "", "trace": ["t" * 60_000] * 9}

    stored = received.manifest(sealed(error=error), "agent on db1")["error"]

    assert stored == {"blame": "workload", "message": "m" * received.MAX_MESSAGE, "hint": ""}


# A value of each kind of event as the agent sends it, and values that it never sends.
HONEST: dict[str, dict[str, Any]] = {
    "state": STATE["data"],
    "progress": {"step": "measure", "done": 0.5, "eta_s": None, "note": ""},
    "sample": {"step": "measure", "source": "cpu", "t": 1.0, "values": {"user": 1.5, "steal": None}},
    "measuring": {"step": "measure", "began": 1.7e9},
    "measured": {"step": "measure", "began": 1.7e9, "ended": 1.7e9, "costs": {"cpu": {"samples": 1, "wall_s": 0.1}}},
    "command": {"purpose": "load", "argv": ["pgbench", "-T", "5"], "env": {"PGHOST": "/tmp"}},
    "write": {"setting": "sysctl", "key": "vm.swappiness", "original": "60", "wanted": "1", "found": "1"},
    "proof": {
        "setting": "sysctl",
        "phase": "before",
        "subject": "vm.swappiness",
        "wanted": "1",
        "found": "1",
        "ok": True,
        "evidence": {"source": "/proc/sys"},
    },
    "dataset": {
        "fingerprint": "a" * 64,
        "home": "/var/lib/c",
        "name": "pgbench 1",
        "kind": "pgbench",
        "options": {"scale": 1},
        "major": 15,
        "database": "ds_a",
        "state": "pristine",
        "size": 10**10,
        "seconds": [["fill", 1.5]],
        "made_by": "11111111-2222-3333-4444-555555555555",
        "made_at": 1.7e9,
        "relations": {"pgbench_accounts": {"bytes": 10**10, "rows": 1e9}},
        "used": {"means": "copy", "reason": "it writes", "seconds": 1.5, "wrote": None},
    },
    "listening": {"address": "127.0.0.1", "port": 5433, "database": "bench"},
    "serving": {},
    "released": {},
    "waiting": {"changes": [], "limit_s": 60.0},
    "log": {"level": "info", "message": "starts", "steady": {"reached": True}},
    "outcome": {"outcome": "failed", "error": {"blame": "host", "message": "no", "hint": ""}},
}
FREE = {("write", name) for name in ("original", "wanted", "found")} | {("proof", "wanted"), ("proof", "found")}
FREE |= {("serving", ""), ("released", "")}
FIELDS = [(kind, name) for kind, data in HONEST.items() for name in data if (kind, name) not in FREE]


def test_every_kind_of_event_has_its_example() -> None:
    assert HONEST.keys() == event_shapes.EVENTS.keys()
    for kind, data in HONEST.items():
        assert received.event(line(kind=kind, data=data)), kind


@pytest.mark.parametrize(("kind", "name"), FIELDS)
def test_no_field_of_an_event_has_another_type_or_size(kind: str, name: str) -> None:
    """Each of these raised in a page, or in the tick, which tried again for ever."""
    for value in ("x" * 10**6, -(10**18), ["x"] * 10**4):
        if name in ("message", "note", "reason", "hint") and isinstance(value, str):
            continue  # a text that is cut
        assert received.event(line(kind=kind, data=HONEST[kind] | {name: value})) is None, value


@given(data=ANYTHING, field=st.sampled_from(["files", *MANIFEST]))
def test_no_value_of_any_field_of_a_manifest_raises_anything_else(data: Any, field: str) -> None:
    try:
        received.manifest(sealed(**{field: data}), "agent on db1")
    except received.UnusableError as error:
        assert error.message.startswith("manifest.json is not usable")


@pytest.fixture
def run(db: None) -> Run:
    return make_campaign("running").runs.order_by("position")[0]


def test_an_event_is_stored_with_the_fields_that_it_has(run: Run) -> None:
    values = [0.1, -0.0, 5e-324, 2**63 - 1, True, None, "\x01\u20ac\U0001f600\\\"'%s", {"": {}}]
    event = received.event(line(seq=7, wall=1.7e9 + 1e-6, kind="log", data={"message": "m", "values": values}))
    assert event is not None

    insert_events(run, [event])

    stored = run.events.get()
    assert {name: getattr(stored, name) for name in event} == event


def test_an_event_of_a_part_is_stored_for_the_part(run: Run) -> None:
    part = RunPart.objects.create(run=run, host=run.host, role="server", position=0, spec=run.spec)
    event = received.event(line())
    assert event is not None

    insert_events(part, [event])

    assert part.events.get().data == STATE["data"]
    assert not run.events.exists()


@given(data=st.dictionaries(st.text(max_size=10), ANYTHING, max_size=3))
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_whatever_a_host_sends_is_stored_as_django_stores_it(run: Run, data: dict[str, Any]) -> None:
    fields = {"seq": 1, "at": timezone.now(), "kind": "log", "data": storable(data)}
    RunEvent.objects.all().delete()
    RunEvent.objects.bulk_create([RunEvent(run=run, **fields)])

    insert_events(run, [fields | {"seq": 2}])

    one, other = run.events.annotate(text=Cast("data", TextField())).order_by("seq")
    assert (other.text, other.at, other.kind) == (one.text, one.at, one.kind)


@pytest.mark.django_db(transaction=True)
@pytest.mark.fast
def test_a_tool_that_prints_nul_fails_its_run_and_the_queue_continues(host: Host, admin: User) -> None:
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
