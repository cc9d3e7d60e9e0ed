"""A damaged end of the journal or the events of a dead run: torn, or with changed bytes."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from agents.records.spool import read_log
from apps.accounts.models import User
from apps.campaigns.execution import claims
from apps.campaigns.models import Run
from apps.hosts.models import Host
from tests.agents.driver import of
from tests.faults.counts.ledger import Ledger, often
from tests.faults.injection.struck import Field
from tests.servers import campaigns
from tests.servers.remote import Server

SEED = 30


def half_a_line(path: Path, chance: Random) -> None:
    with path.open("ab") as file:
        file.write(path.read_bytes().splitlines()[-1][: chance.randrange(1, 60)])


def zeros(path: Path, chance: Random) -> None:
    """What some file systems leave behind the end that a power cut did not make durable."""
    with path.open("ab") as file:
        file.write(bytes(chance.randrange(1, 4096)))


TEARS: list[Callable[[Path, Random], None]] = [half_a_line, zeros]


@often(10)
@pytest.mark.parametrize("name", ["journal.jsonl", "events.ndjson"])
def test_a_torn_tail_is_cut_off_and_the_host_is_restored(here: Field, ledger: Ledger, name: str, times: int) -> None:
    chance, before, runs = Random(SEED), here.take_snapshot(), []
    for tear in TEARS * times:
        runs.append(dead(here, chance))
        tear(here.job(runs[-1]).path / name, chance)

        (outcome,) = of(here.connect().events(runs[-1]), "outcome")

        assert outcome["outcome"] == "interrupted"
        assert not read_log(here.job(runs[-1]).path / name)[1]
    here.reckon(ledger, 30, before, *runs)


def dead(here: Field, chance: Random) -> str:
    """A run whose supervisor was killed at some moment."""
    agent = here.connect()
    run = agent.submit(here.idle(seconds=20))
    agent.events(run, until="APPLYING")
    time.sleep(chance.uniform(0, 1))
    os.kill(here.supervisor(run), signal.SIGKILL)
    return run


def test_a_damaged_last_record_of_the_journal_quarantines_the_host_until_it_is_released(here: Field) -> None:
    """Nobody can tell what it was about: the host may well be as before, but that is not proven."""
    before, run = here.take_snapshot(), dead(here, Random(SEED))
    rot(here.job(run).path / "journal.jsonl")

    agent = here.connect()
    hello = agent.call("hello")

    assert hello["dirty"] == [run] and "journal is damaged" in str(agent.manifest(run)[0]["error"])
    agent.call("restore")
    assert agent.call("hello")["dirty"] == [run]  # never by itself
    assert here.knob() == before["/proc/sys/vm/swappiness"].strip()


def rot(path: Path) -> None:
    """One bit of the last line is another."""
    data = bytearray(path.read_bytes())
    data[-10] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.django_db(transaction=True)
def test_a_run_with_damaged_events_fails_and_blocks_no_other_run(
    host: Host, admin: User, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "FOLLOW_S", 0.5)
    run = campaigns.start(host, admin, time_s=30).runs.get()
    campaigns.drive(lambda: Run.objects.get(pk=run.pk).agent_state == "RUNNING")
    job = server.home / "spool/jobs" / str(run.pk)
    fetched = (job / "events.ndjson").stat().st_size
    wait_for(lambda: (job / "events.ndjson").stat().st_size > fetched)
    os.kill(json.loads((job / "state.jsonl").read_text().splitlines()[-1])["pid"], signal.SIGKILL)
    rot(job / "events.ndjson")

    campaigns.finish(run.campaign)

    run.refresh_from_db()
    assert run.outcome == "failed" and "are complete" in run.error["message"], run.error


@pytest.mark.django_db(transaction=True)
def test_a_run_whose_output_is_rotten_fails_and_names_the_file(
    host: Host, admin: User, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "FOLLOW_S", 0.5)
    run = campaigns.start(host, admin, time_s=3).runs.get()
    campaigns.drive(lambda: Run.objects.get(pk=run.pk).agent_state == "RUNNING")
    job = server.home / "spool/jobs" / str(run.pk)
    wait_for((job / "manifest.json").exists)
    rot(job / "out/measure/stdout")

    campaigns.finish(run.campaign)

    run.refresh_from_db()
    assert run.outcome == "failed" and "out/measure/stdout: not what it was" in run.error["message"], run.error
    assert run.artefacts.get(path="out/measure/stdout").content is None


def wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_rotten_event_keeps_its_number(here: Field) -> None:
    run = dead(here, Random(SEED))
    path = here.job(run).path / "events.ndjson"
    rot(path)
    rotten = len(path.read_bytes().splitlines())

    here.connect().call("hello")

    events, damaged = read_log(path)
    assert damaged and rotten not in {event["seq"] for event in events}
    assert events[-1]["seq"] == len(events) + 1
