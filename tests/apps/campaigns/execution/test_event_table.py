"""The table of events: the migrations that made it what it is, forward and back on rows of runs and of parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.apps.registry import Apps
from django.db import IntegrityError, connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from apps.campaigns.execution.jobs import insert_events
from apps.campaigns.models import Artefact, Run, RunEvent, RunPart
from tests.rows.factories import make_campaign

pytestmark = pytest.mark.django_db(transaction=True)

SEPARATE, TOGETHER = "0028_twins", "0031_one_event_table"
WHOLE, BY_MONTH = "0033_read_attempts", "0036_events_by_month"
EVENT, FILE = ("seq", "at", "kind", "data"), ("path", "size", "sha256", "content")


def migrate(name: str) -> Apps:
    executor = MigrationExecutor(connection)
    executor.migrate([("campaigns", name)])
    return MigrationExecutor(connection).loader.project_state([("campaigns", name)]).apps


@pytest.fixture
def part() -> Iterator[RunPart]:
    """Of a run that has rows of its own with the same numbers and paths."""
    run = make_campaign("running").runs.order_by("position")[0]
    yield RunPart.objects.create(run=run, host=run.host, role="server", position=0, spec=run.spec, digest=run.digest)
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())  # of all apps: those that depend on campaigns went back, too


@pytest.fixture
def server() -> Iterator[str]:
    """A role other than the owner, with the rights that `runtime_role` gives."""
    name = "server_of_the_last_release"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {name}")
        cursor.execute(f"GRANT USAGE ON SCHEMA public TO {name}")  # a restored schema gives PUBLIC none
        cursor.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {name}")
        yield name
        cursor.execute("RESET ROLE")
        cursor.execute(f"DROP OWNED BY {name}")
        cursor.execute(f"DROP ROLE {name}")


def fill(run: Run, part: RunPart) -> None:
    for owner in ({"run": run}, {"part": part}):
        word = next(iter(owner))
        events = [{"seq": seq, "kind": "log", "data": {"message": f"{word} {seq}"}} for seq in (1, 2, 3)]
        RunEvent.objects.bulk_create([RunEvent(**owner, at=timezone.now(), **event) for event in events])
        files = [("out/a", word.encode()), ("out/b", None)]
        Artefact.objects.bulk_create(
            [Artefact(**owner, path=path, size=3, sha256="0" * 64, content=content) for path, content in files]
        )


def rows(apps: Apps, model: str, owner: str, fields: tuple[str, ...]) -> list[tuple[Any, ...]]:
    found = apps.get_model("campaigns", model).objects.exclude(**{owner: None}).order_by("pk")
    return [
        tuple(bytes(value) if isinstance(value, memoryview) else value for value in row)
        for row in found.values_list(f"{owner}_id", *fields)
    ]


@pytest.mark.thorough
def test_events_and_artefacts_of_parts_move_without_loss_and_the_last_release_still_reads_and_writes(
    part: RunPart, server: str
) -> None:
    fill(part.run, part)
    old = migrate(SEPARATE)
    events_of_last_release = old.get_model("campaigns", "PartEvent").objects
    stored = list(events_of_last_release.values_list("seq", "data"))
    before = [
        *(rows(old, "RunEvent", "run", EVENT), rows(old, "Artefact", "run", FILE)),
        *(rows(old, "PartEvent", "part", EVENT), rows(old, "PartArtefact", "part", FILE)),
    ]

    new = migrate(TOGETHER)

    assert [len(listed) for listed in before] == [3, 2, 3, 2]
    assert before == [
        *(rows(new, "RunEvent", "run", EVENT), rows(new, "Artefact", "run", FILE)),
        *(rows(new, "RunEvent", "part", EVENT), rows(new, "Artefact", "part", FILE)),
    ]
    tables = connection.introspection.table_names()
    assert not {"campaigns_partevent", "campaigns_partartefact"} & set(tables)
    assert list(events_of_last_release.values_list("seq", "data")) == stored
    with connection.cursor() as cursor:
        cursor.execute(f"SET ROLE {server}")
    event = {"seq": 4, "at": timezone.now(), "kind": "log", "data": {"message": "late"}}
    events_of_last_release.bulk_create([events_of_last_release.model(part_id=part.pk, **event)])
    with connection.cursor() as cursor:
        cursor.execute("RESET ROLE")
    late = new.get_model("campaigns", "RunEvent").objects.get(seq=4)
    assert (late.part_id, late.run_id, late.data) == (part.pk, None, event["data"])


@pytest.mark.thorough
def test_events_become_the_first_partition_without_loss_and_the_last_release_still_reads_and_writes(
    part: RunPart, server: str
) -> None:
    fill(part.run, part)
    old = migrate(WHOLE)
    with connection.cursor() as cursor:
        cursor.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON campaigns_runevent TO {server}")
    before = [rows(old, "RunEvent", owner, ("id", *EVENT)) for owner in ("run", "part")]

    new = migrate(BY_MONTH)

    assert [len(listed) for listed in before] == [3, 3]
    assert before == [rows(new, "RunEvent", owner, ("id", *EVENT)) for owner in ("run", "part")]
    with connection.cursor() as cursor:
        cursor.execute(f"SET ROLE {server}")
    event = {"seq": 4, "at": timezone.now(), "kind": "log", "data": {"message": "late"}}
    events_of_last_release = old.get_model("campaigns", "RunEvent").objects
    late = events_of_last_release.create(run_id=part.run_id, **event)
    with connection.cursor() as cursor:
        cursor.execute("RESET ROLE")
    assert late.pk > max(row[1] for listed in before for row in listed)
    assert [each.seq for each in part.run.events.all()] == [1, 2, 3, 4]
    assert events_of_last_release.filter(run_id=part.run_id).count() == 4


@pytest.mark.thorough
def test_events_of_all_months_become_one_table_again(part: RunPart) -> None:
    fill(part.run, part)
    part.run.started_at = timezone.now()
    insert_events(part.run, [{"seq": 4, "at": timezone.now(), "kind": "log", "data": {"message": "this month"}}])
    before = list(part.run.events.values_list("id", *EVENT))

    old = migrate(WHOLE)

    assert [row[1:] for row in rows(old, "RunEvent", "run", ("id", *EVENT))] == before
    event = {"seq": 5, "at": timezone.now(), "kind": "log", "data": {}}
    assert old.get_model("campaigns", "RunEvent").objects.create(run_id=part.run_id, **event).pk > before[-1][0]
    with pytest.raises(IntegrityError, match="event_once"):
        old.get_model("campaigns", "RunEvent").objects.create(run_id=part.run_id, **event)


def test_a_run_has_its_own_events_only(part: RunPart) -> None:
    fill(part.run, part)

    assert [event.data["message"] for event in part.run.events.all()] == ["run 1", "run 2", "run 3"]
    assert [event.data["message"] for event in part.events.all()] == ["part 1", "part 2", "part 3"]
    assert [bytes(file.content) for file in part.artefacts.exclude(content=None)] == [b"part"]


@pytest.mark.parametrize("owners", [(), ("run", "part")])
def test_an_event_is_of_a_run_or_of_a_part(part: RunPart, owners: tuple[str, ...]) -> None:
    both: dict[str, Any] = {"run": part.run, "part": part}

    with pytest.raises(IntegrityError, match="event_of_run_or_part"):
        RunEvent.objects.create(**{name: both[name] for name in owners}, seq=1, at=timezone.now(), kind="log", data={})


def test_an_event_of_a_part_is_stored_once(part: RunPart) -> None:
    fill(part.run, part)

    with pytest.raises(IntegrityError, match="once_per_part"):
        RunEvent.objects.create(part=part, seq=3, at=timezone.now(), kind="log", data={})
