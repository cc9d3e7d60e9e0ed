"""A run in an existing database that an admin has allowed: a schema of its own, and the database as before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.postgres.remote_server.allowed import options
from tests.agents.driver import Connection, of
from tests.agents.postgres.test_existing import outcome
from tests.agents.remote_servers import BENCH, PLAIN, SUPER, Served, access

pytestmark = pytest.mark.needs("postgresql-15")
Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def run(agent: Connection, spec: Any, served: Served, data_dir: Path) -> Run:
    """Executes a run in BENCH; its events. With `statements`, the load is these instead of pgbench."""
    served.allow_database()

    def run(
        user: str = PLAIN, settings: dict[str, Any] | None = None, statements: str = "", **options: Any
    ) -> list[dict[str, Any]]:
        order = {**spec(settings, time_s=1, **options), "target": served.in_database(data_dir, user)}
        if statements:
            order["dataset"] = None
            order["steps"] = [{"name": "measure", "kind": "sql", "options": {"statements": statements}}]
        return agent.events(agent.submit(order, access=access(user)))

    return run


def restored(events: list[dict[str, Any]]) -> dict[str, Any]:
    (proof,) = of(events, "proof", phase="restored", subject=f"database {BENCH}")
    return dict(proof)


@pytest.mark.fast
def test_a_role_without_createdb_runs_in_a_schema_and_the_database_is_as_before(served: Served, run: Run) -> None:
    served.sql(f"alter role {PLAIN} nocreatedb")
    before = served.contents(BENCH)

    events = run(PLAIN, {"postgresql": {"work_mem": "8MB", "statement_timeout": "9 min"}})

    assert outcome(events) == "ok"
    values = {proof["subject"]: proof["found"] for proof in of(events, "proof", setting="postgresql", phase="after")}
    assert values == {"work_mem": "8MB", "statement_timeout": "9min"}
    assert "pgbench_accounts" in of(events, "dataset")[-1]["relations"]
    assert restored(events)["evidence"]["differences"] == [] and served.contents(BENCH) == before


def test_objects_that_the_load_creates_outside_its_schema_are_dropped_as_well(served: Served, run: Run) -> None:
    served.sql(f"grant create on schema public to {PLAIN}", BENCH)
    before = served.contents(BENCH)
    statements = """
        create schema "o'dd"; create table "o'dd".t (id serial primary key, at timestamptz);
        create view "V" as select 1;
        create table public.parted (id int) partition by range (id);
        create table public.part partition of public.parted for values from (0) to (9);
        create type public.mood as enum ('good'); create domain public.small as int check (value < 9);
        create function public.f(a int, b text default '') returns int language sql as 'select 1';
        create aggregate public.total(int) (sfunc = int4pl, stype = int);
        create materialized view public.m as select 1; select lo_create(0);
        comment on schema "o'dd" is 'text'; create extension citext schema public;
        create aggregate public.counted(*) (sfunc = int8inc, stype = int8, initcond = '0')
    """

    events = run(statements=statements)

    assert outcome(events) == "ok" and served.contents(BENCH) == before


def test_objects_of_the_load_can_depend_on_one_another(served: Served, run: Run) -> None:
    served.sql(f"grant create on schema public to {PLAIN}", BENCH)
    before = served.contents(BENCH)
    statements = """
        create type public.mood as enum ('good'); create extension citext schema public;
        create table a (id int primary key, b int unique);
        create table b (id int primary key references a, mood public.mood default 'good', name public.citext);
        alter table a add foreign key (b) references b; create table child () inherits (a);
        create table parted (id int) partition by range (id);
        create table part partition of parted for values from (0) to (9);
        create view v as select * from a join b using (id); create statistics of_a on id, b from a;
        create function f() returns setof a language sql as 'select * from a';
        create function to_number(public.mood) returns int language sql as 'select 1';
        create cast (public.mood as int) with function to_number(public.mood);
        create function fired() returns trigger language plpgsql as 'begin return null; end';
        create trigger of_a after insert on a for each row execute function fired();
        create rule of_a as on delete to a do also delete from b; create sequence s owned by a.id;
        alter table a enable row level security; create policy of_a on a using (b > 0)
    """

    events = run(statements=statements)

    assert outcome(events) == "ok" and served.contents(BENCH) == before


def test_an_object_that_another_user_creates_during_the_run_is_left_and_reported(
    agent: Connection, spec: Any, served: Served, data_dir: Path, run: Run
) -> None:
    order = {**spec(time_s=2), "target": served.in_database(data_dir, PLAIN)}
    name = agent.submit(order, access=access(PLAIN))
    agent.events(name, until="measuring")

    served.sql("create table public.theirs (id int)", BENCH)
    events = agent.events(name)

    assert "new: table public.theirs" in restored(events)["found"]
    assert served.sql("select count(*) from public.theirs", BENCH) == "0"
    assert agent.manifest(name)[0]["conflicts"][0]["key"] == f"postgresql.database {BENCH}"


def test_sessions_of_the_role_are_ended_because_they_could_hold_locks(
    agent: Connection, spec: Any, served: Served, data_dir: Path, run: Run
) -> None:
    name = agent.submit({**spec(time_s=2), "target": served.in_database(data_dir, PLAIN)}, access=access(PLAIN))
    agent.events(name, until="measuring")

    with served.session(PLAIN, BENCH):
        assert outcome(agent.events(name)) == "ok"
        left = served.sql(f"select count(*) from pg_stat_activity where usename = '{PLAIN}'")

    assert left == "0"


@pytest.mark.parametrize(
    ("change", "user", "message"),
    [
        ("create table public.theirs (id int)", PLAIN, "is not empty: table public.theirs"),
        ("create function public.theirs() returns int language sql as 'select 1'", PLAIN, "is not empty: function"),
        ("create schema proving_ground_00000000", PLAIN, "is not empty: schema proving_ground_00000000"),
        (f"revoke create on database {BENCH} from {PLAIN}", PLAIN, "cannot create schemas in bench"),
        ("select 1", SUPER, "is a superuser, which is not allowed in an existing database"),
    ],
)
def test_a_database_that_is_not_safe_to_use_is_refused_and_unchanged(
    served: Served, run: Run, change: str, user: str, message: str
) -> None:
    served.sql(change, BENCH)
    before = served.contents(BENCH)

    events = run(user)

    assert message in outcome(events) and of(events, "outcome")[0]["error"]["hint"]
    assert served.contents(BENCH) == before and not of(events, "proof", phase="restored")  # there was no schema to drop


def test_a_role_with_other_sessions_in_the_database_is_refused(served: Served, run: Run) -> None:
    with served.session(PLAIN, BENCH):
        events = run()

    assert f"{PLAIN} has other sessions in {BENCH} of" in outcome(events)


def test_search_path_cannot_be_a_parameter_because_the_run_sets_it_to_its_schema(served: Served, run: Run) -> None:
    assert "no value: the run sets its own schema" in outcome(run(settings={"postgresql": {"search_path": "public"}}))


def test_values_of_parameters_are_escaped_in_the_options_of_connections() -> None:
    assert options("s", {"a": "1 min", "b": "\\\t"}) == "-c search_path=s -c a=1\\ min -c b=\\\\\\\t"
