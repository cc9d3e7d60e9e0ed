"""Remote servers: checks before a run changes them, parameters in effect, and the restore."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agents.driver import Connection, Refused, of
from tests.agents.postgres.test_existing import outcome
from tests.agents.remote_servers import ADDRESS, PLAIN, SECOND, SECRET, SUPER, Served, access
from tests.agents.theirs import DEBIANS

pytestmark = pytest.mark.needs("postgresql-15")
Run = Callable[..., list[dict[str, Any]]]
BOTH = {"postgresql": {"work_mem": "8MB", "max_wal_size": "2GB", "checkpoint_timeout": "9min"}}


@pytest.fixture
def run(agent: Connection, spec: Any, served: Served, data_dir: Path) -> Run:
    """Executes a run as this role with these settings; its events."""

    def run(user: str = SUPER, settings: dict[str, Any] | None = None, **options: Any) -> list[dict[str, Any]]:
        order = {**spec(settings, time_s=1, **options), "target": served.remote(data_dir, user)}
        return agent.events(agent.submit(order, access=access(user)))

    return run


def proofs(events: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[Any, bool]]:
    emitted = of(events, "proof", setting="postgresql")
    return {(proof["subject"], proof["phase"]): (proof["found"], proof["ok"]) for proof in emitted}


@pytest.mark.fast
@pytest.mark.proves("postgresql", where="here")
def test_parameters_of_sessions_and_of_the_server_are_in_effect_and_restored(served: Served, run: Run) -> None:
    before = served.snapshot()

    events = run(SUPER, BOTH)

    assert outcome(events) == "ok"
    proven = proofs(events)
    for name, value in (("work_mem", "8MB"), ("max_wal_size", "2GB"), ("checkpoint_timeout", "9min")):
        assert proven[name, "before"] == proven[name, "after"] == (value, True)
    assert proven["checkpoint_timeout", "restored"] == ("420", True)
    assert served.snapshot() == before


SESSION = {
    "work_mem": "8MB", "maintenance_work_mem": "96MB", "random_page_cost": "1.1", "effective_cache_size": "3GB",
    "jit": "off", "synchronous_commit": "off", "effective_io_concurrency": "32", "search_path": "public, pg_catalog",
    "default_statistics_target": "250", "max_parallel_workers_per_gather": "0", "statement_timeout": "10min",
}  # fmt: skip


def test_a_role_without_superuser_sets_the_parameters_of_its_sessions(served: Served, run: Run) -> None:
    before = served.snapshot()

    events = run(PLAIN, {"postgresql": SESSION})

    assert outcome(events) == "ok"
    proven = proofs(events)
    assert all(proven[name, phase][1] for name in SESSION for phase in ("before", "after", "restored"))
    assert proven["random_page_cost", "after"] == ("1.1", True)
    assert served.snapshot() == before


def test_an_error_names_the_missing_grants_and_the_run_works_after_them(served: Served, run: Run) -> None:
    settings = {"postgresql": {"max_wal_size": "2GB", "wal_compression": "on"}}

    refused = run(PLAIN, settings)
    served.sql(
        f"grant set on parameter wal_compression to {PLAIN}; grant alter system on parameter max_wal_size to {PLAIN}"
    )
    half = run(PLAIN, settings)
    served.sql(f"grant execute on function pg_reload_conf(), pg_show_all_file_settings() to {PLAIN}")
    served.sql(f"grant select on pg_file_settings to {PLAIN}")
    before = served.snapshot()
    allowed = run(PLAIN, settings)

    hint = of(refused, "outcome")[0]["error"]["hint"]
    assert f'GRANT ALTER SYSTEM ON PARAMETER max_wal_size TO "{PLAIN}"' in hint
    assert "GRANT EXECUTE ON FUNCTION pg_reload_conf()" in of(half, "outcome")[0]["error"]["hint"]
    assert outcome(allowed) == "ok" and proofs(allowed)["wal_compression", "after"] == ("pglz", True)
    assert served.snapshot() == before


@pytest.mark.parametrize(
    ("user", "settings", "message"),
    [
        (SUPER, {"postgresql": {"shared_buffers": "32MB"}}, "parameters that take effect without a restart"),
        (SUPER, {"postgresql": {"log_connections": "on"}}, "fixed when a session connects"),
        (SUPER, {"postgresql": {"auto_explain.log_timing": "on"}}, "load the library of an extension first"),
    ],
)
def test_parameters_that_sql_cannot_put_in_effect_are_refused(
    served: Served, run: Run, user: str, settings: Any, message: str
) -> None:
    before = served.snapshot()

    assert message in outcome(run(user, settings))
    assert served.snapshot() == before


@pytest.mark.parametrize(
    ("settings", "steps", "message"),
    [
        ({"cpu_affinity": {"server": "0"}}, None, "only SQL reaches this server's machine"),
        ({"initdb": {"wal_segment_size": 64}}, None, "only SQL reaches"),
        ({"postgresql": {"synchronous_standby_names": "a"}}, None, "every commit would wait"),
        ({}, [{"name": "restart", "kind": "reboot", "options": {"limit_s": 60}}], "the load reaches the server by SQL"),
    ],
)
def test_settings_of_the_servers_machine_are_refused_at_planning(
    agent: Connection, spec: Any, served: Served, data_dir: Path, settings: Any, steps: Any, message: str
) -> None:
    order = {**spec(settings), "target": served.remote(data_dir)}

    with pytest.raises(Refused, match=message):
        agent.submit({**order, "steps": steps or order["steps"]}, access=access())


def test_a_role_that_cannot_create_databases_is_refused_with_the_missing_statement(served: Served, run: Run) -> None:
    served.sql(f"alter role {PLAIN} nocreatedb")

    failed = of(run(PLAIN), "outcome")[0]

    assert failed["error"]["hint"] == f'ALTER ROLE "{PLAIN}" CREATEDB'


def test_a_standby_is_refused_before_anything_is_changed(served: Served, run: Run) -> None:
    served.stop()
    (served.data / "standby.signal").touch()
    served.start()

    assert "is a standby, which is read-only" in outcome(run())


def test_the_database_of_another_run_blocks_this_one(served: Served, run: Run) -> None:
    served.sql("create database proving_ground_00000000")

    events = run()

    assert "has the database proving_ground_00000000 of another run" in outcome(events)
    assert "proving_ground_00000000" in served.snapshot()["databases"]


def test_a_wrong_password_is_a_refusal_and_leaves_the_host_restored(
    agent: Connection, spec: Any, served: Served, data_dir: Path
) -> None:
    name = agent.submit({**spec(), "target": served.remote(data_dir)}, access={**access(), "password": "guessed"})

    failed = of(agent.events(name), "outcome")[0]

    assert "password authentication failed" in failed["error"]["message"]
    assert agent.manifest(name)[0]["clean"]


def test_the_password_is_in_no_record_and_on_no_command_line(
    agent: Connection, spec: Any, served: Served, data_dir: Path, tmp_path: Path
) -> None:
    order = {**spec(BOTH, time_s=3), "target": served.remote(data_dir)}
    order["collect"] = {"interval_s": 1, "sources": ["cpu", "postgresql"]}

    name = agent.submit(order, access=access())
    agent.events(name, until="measuring")
    exposed = b"".join(_exposed(pid) for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != os.getpid())
    files = [path.stat() for path in data_dir.glob(f"scratch-{name}-*/pgpassfile")]
    agent.events(name)

    left = [path for root in (tmp_path / "spool", data_dir) for path in root.rglob("*") if path.is_file()]
    holding = [path for path in left if SECRET[SUPER].encode() in path.read_bytes()]
    assert SECRET[SUPER].encode() not in exposed
    assert {file.st_mode & 0o777 for file in files} == {0o600}
    assert os.geteuid() or (len({file.st_uid for file in files}) == 2 and 0 not in {file.st_uid for file in files})
    assert holding == [] and not (tmp_path / f"spool/jobs/{name}/access.json").exists()


def _exposed(pid: str) -> bytes:
    """Command line and environment of a process."""
    text = b""
    for file in ("cmdline", "environ"):
        try:
            text += Path(f"/proc/{pid}/{file}").read_bytes()
        except OSError:
            continue  # it has ended
    return text


def test_the_load_of_a_superuser_is_a_role_that_reaches_its_own_database_only(
    agent: Connection, spec: Any, served: Served, data_dir: Path
) -> None:
    order = {**spec(), "target": served.remote(data_dir), "dataset": None}
    statements = "create table t (who text); insert into t select current_user; alter system set work_mem = '1MB'"
    order["steps"] = [{"name": "measure", "kind": "sql", "options": {"statements": statements}}]
    before = served.snapshot()

    name = agent.submit(order, access=access())
    events = agent.events(name)

    assert "ended with exit code" in outcome(events)
    assert "permission denied to set parameter" in of(events, "outcome")[0]["error"]["stderr"]
    assert served.snapshot() == before


def test_collectors_measure_the_round_trip_and_the_activity_of_other_databases(
    agent: Connection, spec: Any, served: Served, data_dir: Path
) -> None:
    order = {**spec(time_s=4), "target": served.remote(data_dir, PLAIN)}
    order["collect"] = {"interval_s": 1, "sources": ["cpu", "postgresql", "round_trip"]}
    served.sql("create database shop")
    name = agent.submit(order, access=access(PLAIN))
    agent.events(name, until="measuring")

    # Transactions of one session: to start 20 sessions could take longer than the load.
    served.sql("do $$ begin for n in 1..20 loop perform pg_sleep(0.05); commit; end loop; end $$", "shop")
    events = agent.events(name)

    trips = [each["values"] for each in of(events, "sample", source="round_trip") if each["values"]]
    assert len(trips) >= 3 and all(0 < each["p50_ms"] <= each["p95_ms"] <= each["max_ms"] < 1000 for each in trips)
    assert len({tuple(each.values()) for each in trips}) > 1
    costs = of(events, "measured")[-1]["costs"]["round_trip"]
    assert costs["apart_s"] > 0 and costs["cpu_s"] + costs["apart_s"] < 0.2
    others = [each["values"] for each in of(events, "sample", source="postgresql")]
    sums = {
        column: sum(each.get(f"pg_stat_database_others.{column}", 0) for each in others)
        for column in ("transactions", "active_time")
    }
    assert sums["transactions"] > 10 and sums["active_time"] > 500
    assert all("pg_stat_database_others.active_sessions" not in each for each in others)  # PLAIN may not read it


@pytest.mark.fast
def test_a_check_reports_the_server_the_rights_of_the_role_and_the_round_trip(
    agent: Connection, served: Served
) -> None:
    boss = agent.call("remote", server=served.connection(), bin_dir=DEBIANS, access=access())
    plain = agent.call("remote", server=served.connection(PLAIN), bin_dir=DEBIANS, access=access(PLAIN))

    assert boss["version"].startswith("15.") and boss["superuser"] and not boss["standby"] and boss["tls"] == ""
    assert boss["address"] == ADDRESS and boss["system_identifier"].isdigit() and boss["timeline"] == 1
    assert "max_wal_size" in boss["settable"]["system"] and "work_mem" in boss["settable"]["session"]
    assert "shared_buffers" in boss["restart"]
    assert plain["settable"]["system"] == [] and "work_mem" in plain["settable"]["session"]
    assert (plain["superuser"], plain["createdb"]) == (False, True)
    assert 0 < boss["round_trip_ms"]["min"] <= boss["round_trip_ms"]["median"] < 1000
    assert "plpgsql" in boss["extensions"]["installed"] and "pg_prewarm" in boss["extensions"]["available"]


@pytest.mark.parametrize("sslmode", ["verify-ca", "verify-full"])
def test_a_client_certificate_replaces_a_password(
    agent: Connection, spec: Any, served: Served, data_dir: Path, sslmode: str
) -> None:
    certified, before = served.require_certificates(), served.snapshot()
    target = {**served.remote(data_dir, PLAIN), "sslmode": sslmode}

    checked = agent.call(
        "remote", server={**served.connection(PLAIN), "sslmode": sslmode}, bin_dir=DEBIANS, access=certified
    )
    events = agent.events(agent.submit({**spec(time_s=1), "target": target}, access=certified))
    with pytest.raises(Refused, match="certificate verify failed"):
        agent.call(
            "remote",
            server=served.connection(PLAIN),
            bin_dir=DEBIANS,
            access={**certified, "ca": certified["certificate"]},
        )

    assert checked["tls"].startswith("TLSv1") and outcome(events) == "ok"
    assert served.snapshot() == before


def test_verify_full_refuses_a_server_whose_certificate_has_another_name(agent: Connection, served: Served) -> None:
    certified = served.require_certificates("db.example.com")
    call = {"bin_dir": DEBIANS, "access": certified}

    checked = agent.call("remote", server={**served.connection(PLAIN), "sslmode": "verify-ca"}, **call)
    with pytest.raises(Refused, match="does not match host name"):
        agent.call("remote", server={**served.connection(PLAIN), "sslmode": "verify-full"}, **call)

    assert checked["tls"].startswith("TLSv1")


def test_the_name_of_a_database_does_not_lead_to_another_server(agent: Connection, served: Served) -> None:
    connection = served.connection(database=f"host={SECOND} dbname=postgres")

    with pytest.raises(Refused, match=f'database "host={SECOND} dbname=postgres" does not exist'):
        agent.call("remote", server=connection, bin_dir=DEBIANS, access=access())


def test_a_role_whose_name_contains_a_quote_can_be_used(
    agent: Connection, spec: Any, served: Served, data_dir: Path
) -> None:
    served.sql(f'alter role {PLAIN} rename to "lo""ader"')
    served.sql(f'alter role "lo""ader" password \'{SECRET[PLAIN]}\'')
    order = {**spec({"postgresql": {"work_mem": "8MB"}}, time_s=1), "target": served.remote(data_dir, 'lo"ader')}

    events = agent.events(agent.submit(order, access=access(PLAIN)))

    assert outcome(events) == "ok" and proofs(events)["work_mem", "after"] == ("8MB", True)


def test_an_unreachable_server_is_reported_with_the_next_step(agent: Connection, served: Served) -> None:
    served.stop()

    with pytest.raises(Refused, match="Connection refused") as refused:
        agent.call("remote", server=served.connection(), bin_dir=DEBIANS, access=access())
    assert "check the address" in refused.value.failure["hint"]
