"""`proving twin capture`, against a real database under load: what the file contains, and what it never contains."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import Role, User
from apps.campaigns.models import Twin
from embedded.servers.postgres import bin_dir
from proving import psql
from proving.errors import CliError
from readers.twin.capture import read_capture
from readers.twin.model import Capture
from tests.cli.program import Program
from tests.servers.production import SECRETS, Production, start

SECRET = ("shop.customers.token", "shop.customers.card")
SAMPLE = Path(__file__).parents[2] / "contract" / "captures" / "shop-18.jsonl"


@pytest.fixture(scope="module")
def production() -> Iterator[Production]:
    with start() as running:
        yield running


@pytest.fixture
def offline(tmp_path: Path) -> Program:
    """Without a server, and with psql on its PATH."""
    return Program(tmp_path, env={"PATH": f"{tmp_path}/bin:{bin_dir()}:{os.environ['PATH']}"})


def capture(program: Program, production: Production, *options: str, dsn: str = "") -> subprocess.CompletedProcess[str]:
    out = str(program.home / "shop.jsonl")
    return program.run("twin", "capture", "--dsn", dsn or production.dsn, "--minutes", "0.01", "--out", out, *options)


def captured(program: Program) -> Capture:
    return read_capture((program.home / "shop.jsonl").read_bytes())


def test_a_capture_has_the_schema_statistics_and_statements_between_the_snapshots(
    offline: Program, production: Production
) -> None:
    load = production.work_between_snapshots(500)

    done = capture(offline, production, "--minutes", "0.05", *(word for name in SECRET for word in ("--secret", name)))

    load.join()
    assert done.returncode == 0, done.stderr
    read = captured(offline)
    assert [(table.name, table.rows) for table in read.tables][:2] == [("customers", 5000), ("lines", 60000)]
    assert {key.to_table for key in read.foreign_keys} == {"customers", "orders", "products"}
    status = next(statistics for statistics in read.statistics if statistics.column == "status")
    assert (status.n_distinct, len(status.frequencies), status.bounds) == (3, 3, ())
    texts = {statement.text for statement in read.statements}
    assert "select name, price from shop.products where id = $1" in texts
    assert "CREATE" in texts and not any("proving twin" in text for text in texts)
    update = next(statement for statement in read.statements if statement.text.startswith("update"))
    assert 0 < update.counts.calls == update.counts.rows < 200


def test_a_capture_holds_no_value_of_a_secret_column_no_text_and_no_password(
    offline: Program, production: Production
) -> None:
    production.sql(f"create role app password '{SECRETS[0]}'; drop role app; select 'x' from shop.customers limit 1")
    production.sql(f"select /* a /* b */ {SECRETS[0]} */ id from shop.orders limit 1")
    production.sql(f"/* a /* b */ {SECRETS[0]} */ select line from shop.lines limit 1")
    production.sql("select id::varchar(123_456) from shop.products limit 1")

    capture(offline, production, *(word for name in SECRET for word in ("--secret", name)))

    raw = (offline.home / "shop.jsonl").read_bytes()
    assert not [
        value
        for value in (*SECRETS, "SESAME", "123_456", production.password, "@example.org", "category 1")
        if value.encode() in raw
    ]
    assert stat.S_IMODE((offline.home / "shop.jsonl").stat().st_mode) == 0o600


@pytest.mark.parametrize("setting", ["standard_conforming_strings = off", "idle_session_timeout = '100ms'"])
def test_a_capture_does_not_depend_on_settings_of_the_role(
    offline: Program, production: Production, setting: str
) -> None:
    production.sql(f"select name from shop.products where id = 3; alter role postgres set {setting}")
    try:
        done = capture(offline, production)
    finally:
        production.sql("alter role postgres reset all")

    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (offline.home / "shop.jsonl").open()]
    assert "select name from shop.products where id = $1" in {line["after"][9] for line in lines if "after" in line}


def test_a_capture_leaves_no_setting_in_the_session(production: Production) -> None:
    """A connection pooler gives the session to other clients between transactions."""
    once = psql.SCRIPT.read_text().replace("\\connect\n", "").replace("\\! sleep", "\\! true")

    output = production.sql(f"{once}\nselect name from pg_settings where source = 'session'; show search_path")

    assert output.splitlines()[-2:] == ['{"end": 1}', '"$user", public']


def test_values_are_in_the_file_only_when_they_are_allowed(offline: Program, production: Production) -> None:
    capture(offline, production, "--values")

    statistics = {f"{each.table}.{each.column}": each for each in captured(offline).statistics}
    assert statistics["orders.status"].common_values[0] == "sent" and statistics["customers.email"].bounds
    summary = offline.json("twin", "show", str(offline.home / "shop.jsonl"))
    assert "shop.orders.status" in summary["columns_with_common_values"]


def test_the_script_run_alone_by_psql_writes_the_same_file(offline: Program, production: Production) -> None:
    script = offline.home / "capture.sql"
    script.write_text(offline.run("twin", "script").stdout)

    argv = [
        bin_dir() / "psql",
        "-XAtq",
        "-v",
        "seconds=0.1",
        "-f",
        script,
        "-d",
        psql.without_password(production.dsn)[0],
    ]
    done = subprocess.run(argv, capture_output=True, timeout=60, check=True)

    assert len(read_capture(done.stdout).tables) == 4


@pytest.mark.parametrize(
    ("options", "database", "message", "next_step"),
    [
        (["--secret", "shop.orders.cost"], "shop", "shop.orders.cost is not a column", "schema.table.column"),
        ([], "postgres", "pg_stat_statements is not installed", "CREATE EXTENSION pg_stat_statements"),
        ([], "shop?user=reader", "may not read the statistics of other roles", "GRANT pg_monitor TO reader"),
    ],
)
def test_a_capture_that_cannot_be_made_says_what_to_do(
    offline: Program, production: Production, options: list[str], database: str, message: str, next_step: str
) -> None:
    production.sql("drop role if exists reader; create role reader login")
    dsn = production.dsn.replace("/shop?", f"/{database}{'&' if '?' in database else '?'}")

    done = capture(offline, production, *options, dsn=dsn)

    assert done.returncode == 1
    assert message in done.stderr and next_step in done.stderr
    assert not (offline.home / "shop.jsonl").exists()


def test_a_capture_never_overwrites_a_file(offline: Program, production: Production) -> None:
    (offline.home / "shop.jsonl").write_text("mine")

    done = capture(offline, production)

    assert done.returncode == 2 and "exists already" in done.stderr
    assert (offline.home / "shop.jsonl").read_text() == "mine"


def test_a_file_that_cannot_be_written_is_an_error_before_the_capture(tmp_path: Path) -> None:
    out = str(tmp_path / "missing" / "shop.jsonl")

    done = Program(tmp_path).run("twin", "capture", "--dsn", "host=/nowhere", "--out", out)

    assert done.returncode == 2 and "No such file or directory" in done.stderr and "--out" in done.stderr


@pytest.mark.parametrize(
    ("dsn", "clean", "password"),
    [
        ("postgresql://ada:p%40ss@db1:5433/shop", "postgresql://ada@db1:5433/shop", "p@ss"),
        ("postgresql://ada@db1/shop?sslmode=require&password=x", "postgresql://ada@db1/shop?sslmode=require", "x"),
        ("postgresql://ada:a#b?c@db1/shop", "postgresql://ada@db1/shop", "a#b?c"),
        ("postgresql://db1/shop?pass%77ord=a+b&options=-c%20x%3D1", "postgresql://db1/shop?options=-c%20x%3D1", "a+b"),
        ("postgresql://ada:x@db1,db2:5433/shop", "postgresql://ada@db1,db2:5433/shop", "x"),
        ("postgresql:///shop?host=/tmp", "postgresql:///shop?host=/tmp", ""),
        ("host=db1 password='a b\\'c' dbname=shop", "host=db1  dbname=shop", "a b'c"),
        ("service=shop", "service=shop", ""),
    ],
)
def test_the_password_is_taken_out_of_the_connection_string(dsn: str, clean: str, password: str) -> None:
    assert psql.without_password(dsn) == (clean, password)


def test_without_psql_the_script_is_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(CliError) as raised:
        psql.capture("dbname=shop", seconds=1, secret=[], values=False)

    assert "proving twin script" in raised.value.accepted


def test_a_captured_file_becomes_a_data_set_and_a_workload(people: dict[Role, User], program: Any) -> None:
    User.objects.filter(pk=people[Role.TUNER].pk).update(may_run_commands=True)

    made = program(Role.TUNER).json(
        "twin", "create", str(SAMPLE), "--name", "shop", "--seconds", "30", "--factor", "0.5"
    )

    twin = Twin.objects.get()
    assert (made["name"], twin.factor, twin.workload.name, twin.dataset.kind) == ("shop", 0.5, "shop", "sql")
    assert twin.workload.steps[0]["options"]["time_s"] == 30
    assert made["statements"][0]["script"] == "s01"
