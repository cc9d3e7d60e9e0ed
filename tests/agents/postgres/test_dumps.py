"""Data sets from real dumps of pg_dump: restored once, again after the dump has changed, and never as a superuser."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.datasets import DATASETS, making
from agents.errors import Unplannable
from agents.host.system import System
from tests.agents.driver import Connection, of
from tests.agents.postgres.test_datasets import READS, Cluster
from tests.agents.theirs import DEBIANS, OWNER, Theirs, where_all_can_enter
from tests.servers.remote import short_dir

READ_ORDERS = {"script": "select count(*) from orders;", "clients": 1}
PRODUCTION = [
    "create database shop",
    "create role app",
]
SHOP = """
create extension pg_trgm;
comment on extension pg_trgm is 'similarity';
create schema crm authorization app;
create table crm.customers (id int primary key, name text not null);
create table orders (id bigserial primary key, customer int not null references crm.customers, amount int not null);
create index on orders (customer);
create index on crm.customers using gin (name gin_trgm_ops);
insert into crm.customers select i, 'customer ' || i from generate_series(1, 200) i;
insert into orders (customer, amount) select 1 + i % 200, i from generate_series(1, 5000) i;
create materialized view totals as select customer, sum(amount) as amount from orders group by 1;
alter table orders owner to app;
grant select on totals to app;
create publication everything for all tables;
"""


class Production(Theirs):
    """A cluster with a database `shop`."""

    def shop(self, query: str) -> str:
        return self.sql(query, "shop")

    def dump(self, *options: str, name: str = "shop.dump", database: str = "shop") -> Path:
        return super().dump(*options, name=name, database=database)


@pytest.fixture(scope="module")
def bin_dir(bin_dir: str) -> Iterator[str]:
    """For the owner of the cluster and the account of the load."""
    with short_dir() as directory:
        yield where_all_can_enter(bin_dir, directory)


@pytest.fixture(scope="module")
def production(bin_dir: str) -> Iterator[Production]:
    with short_dir() as directory:
        server = Production(directory / "production", bin_dir, port=5497)
        server.create()
        server.start()
        for statement in PRODUCTION:
            server.sql(statement)
        server.shop(SHOP)
        yield server
        server.stop()


@pytest.fixture(scope="module")
def clusters() -> Iterator[Path]:
    """A directory for the cluster of these tests alone: they read its list of data sets."""
    with short_dir() as path:
        yield path


@pytest.fixture
def cluster(agent: Connection, bin_dir: str, clusters: Path) -> Cluster:
    return Cluster(agent, bin_dir, clusters)


def dump(path: object, **options: Any) -> dict[str, Any]:
    return {"name": "shop", "kind": "dump", "options": {"path": str(path), **options}}


def restored(events: list[dict[str, Any]]) -> int:
    """How many times a run called pg_restore to restore something."""
    return sum("--section" in " ".join(data["argv"]) for data in of(events, "command"))


def last(events: list[dict[str, Any]]) -> dict[str, Any]:
    return of(events, "dataset")[-1]


def error(events: list[dict[str, Any]]) -> dict[str, Any]:
    (ended,) = of(events, "outcome")
    failure: dict[str, Any] = ended["error"]
    return failure


@pytest.mark.fast
@pytest.mark.parametrize("form", ["-Fc", "-Fd"])
def test_a_dump_is_restored_once_with_its_rows_and_indexes(cluster: Cluster, production: Production, form: str) -> None:
    path = production.dump(form, name=f"shop{form}")

    first = cluster.run(dump(path), READ_ORDERS)
    again = cluster.run(dump(path, jobs=1), READ_ORDERS)

    assert (restored(first), restored(again)) == (3, 0)
    data_set = last(again)
    assert (data_set["state"], data_set["used"]["means"]) == ("pristine", "pristine")
    assert [name for name, _ in data_set["seconds"]] == ["schema", "rows", "indexes", "vacuum"]
    rows = {name: about["rows"] for name, about in data_set["relations"].items()}
    assert (rows["orders"], rows["crm.customers"], rows["totals"]) == (5000, 200, 200)
    assert {"orders_customer_idx", "crm.customers_name_idx", "orders_pkey"} <= rows.keys()


def test_a_changed_dump_replaces_the_data_of_the_old_one(cluster: Cluster, production: Production) -> None:
    path = production.dump(name="nightly.dump")
    before = last(cluster.run(dump(path), READ_ORDERS))
    production.shop("insert into orders (customer, amount) select 1, i from generate_series(1, 1000) i")
    production.dump(name="nightly.dump")

    events = cluster.run(dump(path), READ_ORDERS)
    production.shop("delete from orders where id > 5000")

    assert restored(events) == 3 and last(events)["relations"]["orders"]["rows"] == 6000
    assert of(events, "dataset", state="absent", fingerprint=before["fingerprint"])
    assert any("has changed on the host" in data["message"] for data in of(events, "log", level="warning"))
    assert last(events)["fingerprint"] in cluster.shelf and before["fingerprint"] not in cluster.shelf


def test_a_dump_that_changes_while_it_is_restored_is_refused(cluster: Cluster, production: Production) -> None:
    """An index calls a function that waits for the next dump."""
    attack(production, "moving", "perform pg_sleep(5)")
    path = production.dump(name="moving.dump", database="moving")
    run = cluster.agent.submit(cluster.spec(dump(path), READ_ORDERS))
    wait_for(lambda: "post-data" in " ".join(tools()))
    production.sql("insert into t values (2)", "moving")
    production.dump(name="next.dump", database="moving").replace(path)

    failure = error(cluster.agent.events(run, limit_s=180))

    assert failure["message"] == f"the dump {path} changed while it was restored"
    assert "once the dump is complete" in failure["hint"]


def test_a_copied_dump_is_the_same_data(cluster: Cluster, production: Production) -> None:
    path = production.dump(name="here.dump")
    cluster.run(dump(path), READ_ORDERS)
    shutil.copyfile(path, path.with_name("there.dump"))

    assert restored(cluster.run(dump(path.with_name("there.dump")), READ_ORDERS)) == 0


def test_the_data_can_be_removed_after_the_dump_is_gone(cluster: Cluster, production: Production) -> None:
    path = production.dump(name="gone.dump")
    fingerprint = last(cluster.run(dump(path)))["fingerprint"]
    path.unlink()

    events = cluster.run({**dump(path), "ensure": "absent", "fingerprint": fingerprint})

    assert last(events)["state"] == "absent" and fingerprint not in cluster.shelf


def test_a_load_that_writes_has_a_copy_of_the_restored_data(cluster: Cluster, production: Production) -> None:
    path = production.dump(name="written.dump")

    events = cluster.run(dump(path), {"script": "update orders set amount = 0 where id = 1;", "clients": 1})

    assert last(events)["used"]["means"] == "copy" and restored(cluster.run(dump(path), READ_ORDERS)) == 0


# Errors


@pytest.mark.parametrize(
    ("options", "text", "hint"),
    [
        (("-Fp",), "appears to be a text format dump", "pg_dump -Fc or pg_dump -Fd"),
        (("-Ft",), "is a tar archive", "pg_dump -Fc or pg_dump -Fd"),
    ],
)
def test_other_formats_are_refused_with_the_accepted_ones(
    cluster: Cluster, production: Production, options: tuple[str, ...], text: str, hint: str
) -> None:
    path = production.dump(*options, name="other.dump")

    failure = error(cluster.run(dump(path), READ_ORDERS, outcome="failed"))

    assert text in failure["message"] and str(path) in failure["message"] and hint in failure["hint"]


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("missing.dump", "No such file or directory", "put the dump on this host"),
        ("empty.dump", "too short", "pg_dump -Fc"),
        ("photo.dump", "does not appear to be a valid tar archive", "pg_dump -Fc"),
        ("folder", "does not appear to be a valid archive", "pg_dump -Fc"),
        ("cut.dump", "pg_restore cannot restore", "leave this object out"),
    ],
)
def test_a_path_without_a_dump_is_named_with_the_next_step(
    cluster: Cluster, production: Production, name: str, text: str, hint: str
) -> None:
    whole = production.dump(name="whole.dump").read_bytes()
    contents = {"empty.dump": b"", "photo.dump": b"\x89PNG" + bytes(1000), "cut.dump": whole[: len(whole) // 2]}
    path = production.root / name
    if name in contents:
        path.write_bytes(contents[name])
        path.chmod(0o644)
    elif name == "folder":
        path.mkdir(exist_ok=True)

    failure = error(cluster.run(dump(path), READ_ORDERS, outcome="failed"))

    assert text in failure["message"] and str(path) in failure["message"], failure
    assert hint in failure["hint"], failure


@pytest.mark.parametrize("place", ["the dump", "a file of it", "the target of a link in it"])
def test_a_dump_whose_content_may_never_end_is_not_read(cluster: Cluster, production: Production, place: str) -> None:
    path = production.dump("-Fd", name="endless.dump")
    odd = path if place == "the dump" else path / "endless"
    if place == "the target of a link in it":
        odd.symlink_to("/dev/zero")
    else:
        shutil.rmtree(path) if odd == path else None
        os.mkfifo(odd)

    failure = error(cluster.run(dump(path), READ_ORDERS, outcome="failed"))

    assert failure["message"] == f"{odd} is a FIFO, socket or device, which a dump does not contain"
    assert "pg_dump -Fd" in failure["hint"]


@pytest.mark.needs("root")
def test_a_dump_that_only_root_can_read_is_not_read(cluster: Cluster, production: Production) -> None:
    path = production.dump(name="secret.dump")
    shutil.chown(path, "root")
    path.chmod(0o600)

    failure = error(cluster.run(dump(path), READ_ORDERS, outcome="failed"))

    assert "Permission denied" in failure["message"] and str(path) in failure["message"]
    assert "let the account" in failure["hint"] and "read the dump" in failure["hint"]


@pytest.mark.needs("postgresql-15")
def test_a_dump_of_a_newer_pg_dump_is_refused(agent: Connection, production: Production) -> None:
    with short_dir() as data_dir:
        failure = error(Cluster(agent, DEBIANS, data_dir).run(dump(production.dump()), READS, outcome="failed"))

    assert "unsupported version" in failure["message"] or "newer than PostgreSQL 15" in failure["message"]
    assert "choose a newer PostgreSQL" in failure["hint"]


def test_a_dump_that_is_larger_than_the_free_space_is_not_restored(cluster: Cluster, production: Production) -> None:
    """Without compression, the text of a dump may be larger than the database."""
    compressed, plain = production.dump(name="large.dump"), production.dump("-Fc", "-Z0", name="plain.dump")
    size = 10 << 40
    os.truncate(compressed, size)
    os.truncate(plain, size)

    events = cluster.run(dump(compressed), READ_ORDERS, outcome="failed")

    failure = error(events)
    assert failure["message"].startswith(f"restoring {compressed} needs at least 10995.1 GB, but ")
    assert f"{cluster.data_dir}/" in failure["message"] and restored(events) == 0
    assert failure["need_bytes"] == size > failure["free_bytes"]
    assert restored(cluster.run(dump(plain), READ_ORDERS)) == 3


def test_extensions_that_cannot_be_created_are_named_before_anything_is_restored(
    cluster: Cluster, production: Production
) -> None:
    production.sql("create database extended")
    production.sql("create extension pageinspect", "extended")

    events = cluster.run(dump(production.dump(name="x.dump", database="extended")), READ_ORDERS, outcome="failed")

    failure = error(events)
    assert failure["message"].endswith("needs extensions that only a superuser can create: pageinspect")
    assert "trusted = true" in failure["hint"] and restored(events) == 0


# Rights


def test_functions_of_a_dump_are_not_called_as_superuser(cluster: Cluster, production: Production) -> None:
    """An index calls a function of the dump while it is restored."""
    proof = Path(tempfile.gettempdir()) / f"proving-dump-{os.getpid()}"
    attack(production, "attacked", f"copy (select 1) to program ''touch {proof}''")

    events = cluster.run(dump(production.dump(name="a.dump", database="attacked")), READ_ORDERS, outcome="failed")

    failure = error(events)
    assert "permission denied to COPY to or from an external program" in failure["message"], failure
    assert "no superuser rights" in failure["hint"] and not proof.exists()


OVERLOADED = """
create function public.format(text, name, name) returns text language plpgsql as $f$ begin
  begin execute 'copy (select 1) to program ''cat > {proof}'''; exception when insufficient_privilege then null; end;
  return pg_catalog.format($1, $2, $3);
end $f$
"""


@pytest.mark.fast
def test_no_query_of_the_superuser_calls_a_function_of_a_dump(cluster: Cluster, production: Production) -> None:
    """The function has the types of a call in the query that lists the relations."""
    proof = Path(tempfile.gettempdir()) / f"proving-overloaded-{os.getpid()}"
    production.sql("create database overloaded")
    production.sql("create table t as select 1 as i", "overloaded")
    production.sql(OVERLOADED.format(proof=proof), "overloaded")

    path = production.dump(name="overloaded.dump", database="overloaded")
    cluster.run(dump(path), {"script": "select count(*) from t;", "clients": 1})

    assert not proof.exists()


def test_a_cancelled_restore_ends_its_processes_and_is_repeated_from_the_start(
    cluster: Cluster, production: Production
) -> None:
    attack(production, "slow", "perform pg_sleep(300)")
    path = production.dump(name="slow.dump", database="slow")
    run = cluster.agent.submit(cluster.spec(dump(path), READ_ORDERS))
    wait_for(lambda: "post-data" in " ".join(tools()))

    cluster.agent.call("cancel", run=run)
    events = cluster.agent.events(run)

    assert of(events, "outcome")[0]["outcome"] == "cancelled" and not tools()
    assert [each["state"] for each in cluster.shelf.values() if each["options"] == {"path": str(path)}] == ["preparing"]
    production.sql("create or replace function g() returns void language sql as 'select null::void'", "slow")
    production.dump(name="slow.dump", database="slow")
    assert restored(cluster.run(dump(path), {"script": "select count(*) from t;", "clients": 1})) == 3


def attack(production: Production, database: str, statement: str) -> None:
    """A database with an index whose function executes the statement, once it is restored."""
    production.sql(f"create database {database}")
    function = "create or replace function g() returns void language plpgsql as 'begin {}; end'"
    production.sql(function.format("perform 1"), database)
    call = "create function f(int) returns int language plpgsql immutable as 'begin perform public.g(); return 1; end'"
    production.sql(f"{call}; create table t (i int); insert into t values (1); create index on t (f(i))", database)
    production.sql(function.format(statement), database)


def tools() -> list[str]:
    """The command lines of pg_restore that run in this moment. Processes that have ended have none."""
    shown = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in shown.splitlines() if Path(line.split(" ")[0]).name == "pg_restore"]


def wait_for(condition: Any, limit_s: float = 60) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


# In an existing cluster


def test_a_dump_is_restored_in_an_existing_cluster_by_the_role_of_the_load(
    agent: Connection, production: Production
) -> None:
    spec = Cluster(agent, production.bin_dir, production.root).spec(dump(production.dump()), READ_ORDERS)
    spec["target"] = production.target()

    events = agent.events(agent.submit(spec))

    assert of(events, "outcome")[0]["outcome"] == "ok", of(events, "outcome")
    assert restored(events) == 3 and last(events)["relations"]["orders"]["rows"] == 5000
    users = {data["env"]["PGUSER"] for data in of(events, "command") if "--section" in " ".join(data["argv"])}
    assert users == {"proving-load"} and OWNER not in users
    assert "proving_ground" not in production.sql("select string_agg(datname, ',') from pg_database")


# Definitions


@pytest.mark.parametrize("path", ["/backup/../etc/shadow", "//backup/shop.dump", "/backup//shop.dump"])
def test_a_path_must_be_normal(path: str) -> None:
    with pytest.raises(Unplannable, match=r"dataset\.path"):
        DATASETS["dump"].check({"path": path})


def test_the_fingerprint_is_of_the_dump_and_not_of_its_place() -> None:
    data = DATASETS["dump"]

    same = {data.fingerprint({"path": path, "jobs": jobs}, 18, "1 ab") for path in ("/a", "/b") for jobs in (1, 2)}

    assert len(same) == 1 and json.dumps(sorted(same)) != json.dumps([data.fingerprint({"path": "/a"}, 18, "1 ac")])


def test_the_progress_is_the_share_of_the_dump_that_the_tool_and_its_workers_have_read(tmp_path: Path) -> None:
    path = tmp_path / "shop.dump"
    path.write_bytes(bytes(8 << 20))
    reader = ["sh", "-c", f"head -c {6 << 20} {path} >/dev/null & wait; read line"]
    with subprocess.Popen(reader, stdin=subprocess.PIPE) as child:
        journal = SimpleNamespace(open_processes=lambda: [{"purpose": "dataset rows", "pid": child.pid}])
        run: Any = SimpleNamespace(system=System(), journal=journal)

        wait_for(lambda: (making._share_read(run, str(path)) or 0) > 0.74)

        assert 0.74 < (making._share_read(run, str(path)) or 0) < 0.80
        child.communicate(b"\n")
