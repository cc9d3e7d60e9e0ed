"""The session of the agent: one psql for samples and the state of the data, and what happens when it ends."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from django.db import connection

from agents.collectors import NotAvailable, Subject
from agents.collectors.over_sql import postgresql
from agents.collectors.over_sql.postgresql import PostgreSQL
from agents.collectors.over_sql.psql import Psql
from agents.errors import HostFailure, WorkloadFailure
from agents.host.system import System
from agents.postgres import instance
from agents.postgres.instance import Instance, Target
from agents.records.processes import Account, Child
from tests.agents.driver import OK, Connection, of

pytestmark = pytest.mark.django_db


class Database(Instance):
    """The database of the tests as an instance, and the psql that it has started."""

    user, database = "", ""
    may_install, is_shared = False, False

    def __init__(self, bin_dir: str) -> None:
        super().__init__(System(), bin_dir, Account(name="0"))
        where = connection.get_connection_params()
        names = {"PGHOST": "host", "PGPORT": "port", "PGUSER": "user", "PGPASSWORD": "password", "PGDATABASE": "dbname"}
        self.where = {name: str(where[key]) for name, key in names.items() if where.get(key)}
        self.database = self.where["PGDATABASE"]
        self.started: list[Child] = []
        self.start_psql = self.start

    @property
    def env(self) -> dict[str, str]:
        return self.where

    def start(self, argv: list[str], env: dict[str, str]) -> Child:
        pipe = subprocess.PIPE
        popen = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=env)
        self.started.append(Child(popen, {"purpose": "session"}))
        return self.started[-1]


@pytest.fixture
def database(bin_dir: str) -> Iterator[Database]:
    ours = Database(bin_dir)
    yield ours
    ours.disconnect()


def backend(database: Database, name: str = "") -> int:
    """The pid of the server process that answers a read."""
    return int(database.read("select pg_backend_pid()", name or database.database))


def test_reads_use_the_session_of_their_database_and_others_a_psql_of_their_own(database: Database) -> None:
    alone = [backend(database), backend(database)]
    database.connect()

    shared = [backend(database), backend(database)]
    elsewhere = backend(database, "postgres")
    database.disconnect()

    assert len({*alone, *shared, elsewhere}) == 4 and shared[0] == shared[1]
    assert len(database.started) == 1 and database.started[0].popen.poll() == 0
    assert backend(database) not in shared


def test_proofs_use_new_sessions_since_an_open_one_has_parameters_of_its_own(database: Database) -> None:
    session = database.connect()
    session.ask("set jit = off;")

    assert database.read("select to_json(current_setting('jit'))", database.database) == "off"
    assert database.sql("select to_json(current_setting('jit'))") == "on"
    assert database.sql("select pg_backend_pid()") != backend(database)


def test_a_session_in_another_database_replaces_the_first(database: Database) -> None:
    first = database.connect()
    second = database.connect("postgres")

    assert database.connect("postgres") is second is not first
    assert [child.popen.poll() for child in database.started] == [0, None]
    assert database.read("select to_json(current_database())", "postgres") == "postgres"


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("select 1", 1),
        ("select 1;", 1),
        ("select to_json(null::text)", None),
        ("select 1 where false", None),
        ("select to_json(E'.\\n\\\\echo'::text)", ".\n\\echo"),
        ("select json_agg(t) from (values (1), (2)) t(a)", [{"a": 1}, {"a": 2}]),
        ("select jsonb_pretty('{\"a\": [1, 2]}')", {"a": [1, 2]}),
        ("select to_json(repeat('x', 300000))", "x" * 300_000),
    ],
)
def test_a_session_returns_what_a_psql_of_its_own_returns(database: Database, query: str, value: Any) -> None:
    alone = database.sql(query)
    database.connect()

    assert [database.read(query, database.database) for _ in range(2)] == [alone] * 2 == [value] * 2


def test_a_query_that_fails_is_reported_in_the_words_of_the_server_and_later_ones_work(database: Database) -> None:
    database.connect()

    with pytest.raises(WorkloadFailure, match='relation "nowhere" does not exist'):
        database.read("select to_json(a) from nowhere", database.database)

    assert backend(database)


def end_backend(database: Database) -> None:
    """End it, and wait until it has ended."""
    database.sql(f"select to_json(pg_terminate_backend({backend(database)}, 60000))", "postgres")


def test_a_session_that_was_ended_by_the_server_is_replaced_by_a_psql_of_its_own(database: Database) -> None:
    database.connect()
    end_backend(database)

    assert backend(database)


def test_a_session_that_was_ended_by_the_server_is_not_used_again(database: Database) -> None:
    ended = database.connect()
    end_backend(database)

    session = database.connect()

    assert session is not ended and session.is_responding(5)
    with pytest.raises(NotAvailable, match="psql has ended; its stderr is in the files of the run"):
        ended.need("select 1;", 5)


def test_a_session_that_was_closed_is_reported_as_ended(database: Database) -> None:
    session = database.connect()
    database.disconnect()

    for use in (lambda: session.ask("select 1;"), lambda: session.line(0)):
        with pytest.raises(NotAvailable, match="psql has ended"):
            use()


def test_a_sample_that_is_late_does_not_become_the_answer_to_a_query(database: Database) -> None:
    session = database.connect()
    session.ask("select json_build_object('sample', pg_sleep(0.3)::text);", 1)

    assert database.read("select 1", database.database) == 1
    assert session.answer(0) == {"sample": ""}
    assert database.read("select 2", database.database) == 2


def test_a_query_that_takes_too_long_fails_and_is_not_repeated(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.connect()
    monkeypatch.setattr(instance, "QUERY_S", 0.2)

    with pytest.raises(HostFailure, match=r"did not answer within 0\.2 s"):
        database.read("select to_json(pg_sleep(5)::text)", database.database)

    assert database.started[0].popen.poll() is not None


def test_a_silent_session_is_given_up() -> None:
    popen = subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    session = Psql(System(), Child(popen, {"purpose": "session"}))

    with pytest.raises(TimeoutError, match=r"did not answer within 0\.1 s"):
        session.value("select 1", 0.1)

    assert not session.is_responding(0.1)
    session.close()
    assert popen.poll() is not None


VALUES = (
    "select json_object_agg(name, setting) from pg_settings where name = any('{jit,statement_timeout,search_path}')"
)


def test_the_collector_leaves_the_session_as_it_was(database: Database) -> None:
    database.where["PGOPTIONS"] = "-c search_path=pg_catalog"
    collector = PostgreSQL(System(), Subject(Path("/"), cast(Target, database)))
    collector.start()
    during = database.read(VALUES, database.database)
    collector.finish()

    after = database.read(VALUES, database.database)

    assert len(database.started) == 1 and database.started[0].popen.poll() is None
    assert (during["jit"], during["statement_timeout"]) == ("off", "5000")
    assert after == database.sql(VALUES) and after["search_path"] == "pg_catalog"


def test_a_last_sample_that_does_not_arrive_costs_the_totals_and_no_more(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "SETTLE_S", 0.2)
    collector = PostgreSQL(System(), Subject(Path("/"), cast(Target, database)))
    collector.start()
    collector._psql.ask("select json_build_object('late', pg_sleep(3)::text);", 1)
    collector._sent_at = System().mono()

    with pytest.raises(NotAvailable, match=r"did not answer within 0\.2 s of the end of the load"):
        collector.finish()

    assert backend(database)


def test_without_a_started_server_there_is_no_session(database: Database) -> None:
    database.start_psql = None

    with pytest.raises(NotAvailable, match="has not been started"):
        database.connect()


def test_a_run_has_one_session_for_its_samples_and_the_state_of_its_data(
    agent: Connection, spec: Callable[..., dict[str, Any]]
) -> None:
    """The collector sets parameters in it: the proofs of the same parameters must not read them there."""
    job = spec({"postgresql": {"max_parallel_workers_per_gather": 0, "jit": "off"}}, time_s=1)
    job["collect"]["sources"] = ["postgresql"]
    agent.events(agent.submit(job), limit_s=120)

    events = agent.events(agent.submit(job), limit_s=120)

    assert of(events, "outcome") == [OK]
    sessions = [data for data in of(events, "command") if data["purpose"] == "session"]
    assert [session["env"]["PGDATABASE"] for session in sessions] == [of(events, "dataset")[-1]["database"]]
    proofs = [proof for proof in of(events, "proof") if proof["setting"] == "postgresql"]
    assert {proof["phase"] for proof in proofs} >= {"before", "after"} and all(proof["ok"] for proof in proofs)


def test_each_step_has_statistics(agent: Connection, spec: Callable[..., dict[str, Any]]) -> None:
    job = spec(time_s=1)
    job["collect"]["sources"] = ["postgresql"]
    job["steps"] = [{**job["steps"][0], "name": name} for name in ("first", "second")]

    run = agent.submit(job)
    events = agent.events(run, limit_s=120)

    assert of(events, "outcome") == [OK]
    assert {sample["step"] for sample in of(events, "sample", source="postgresql")} == {"first", "second"}
    paths = {file["path"] for file in agent.manifest(run)[0]["files"]}
    assert {"out/first/postgresql.json", "out/second/postgresql.json"} <= paths
