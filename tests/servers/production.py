"""A "production" cluster with a database and its load, such as that of a small shop. Tests create a twin of it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from embedded.servers.postgres import NOT_DURABLE, bin_dir, unprivileged
from tests.servers import remote

# Values that no capture may contain.
SECRETS = ("sesame-7e1c", "4929123456781234")
SCHEMA = f"""
create schema shop;
create table shop.customers (id bigserial primary key, email text not null unique, country char(2) not null,
  balance numeric(12,2) not null default 0, token text, card bigint, created_at timestamptz not null);
insert into shop.customers (email, country, balance, token, card, created_at)
  select 'user' || i || '@example.org', (array['DE','DE','DE','DE','FR','FR','IT','ES'])[1 + i * 7 % 8], i % 900,
    '{SECRETS[0]}', {SECRETS[1]}, timestamptz '2024-01-01' + i * interval '1 hour' from generate_series(1, 5000) i;
create table shop.products (id int primary key, name varchar(60) not null, category text not null, price numeric(8,2));
insert into shop.products select i, 'product number ' || i, 'category ' || floor(sqrt(i * 5 % 400)), i % 97 + 0.99
  from generate_series(1, 1000) i;
create table shop.orders (id bigserial primary key, customer_id bigint not null references shop.customers,
  status text not null, placed_at timestamptz not null, total numeric(10,2) not null, note text);
insert into shop.orders (customer_id, status, placed_at, total, note)
  select 1 + floor(5000 * power((i * 7919 % 20011) / 20011.0, 1.5)), (array['sent','sent','sent','sent','open','back'])
    [1 + i * 11 % 6], timestamptz '2024-06-01' + i * interval '7 minutes', i % 300 + 5,
    case when i % 10 < 3 then 'please leave it next door ' || md5(i::text) end from generate_series(1, 20000) i;
create index on shop.orders (customer_id, placed_at desc);
create index on shop.orders (placed_at);
create table shop.lines (order_id bigint not null references shop.orders, line int not null,
  product_id int not null references shop.products, quantity int not null, primary key (order_id, line));
insert into shop.lines select o, l, 1 + (o * 31 + l * 17) % 1000, 1 + (o + l) % 5
  from generate_series(1, 20000) o, generate_series(1, 3) l;
create function shop.audit(bigint) returns void language sql as 'select null::void';
create extension pg_stat_statements;
vacuum analyze;
"""
# (weight, script): a lookup, a join with a sort, a sum over a skewed key, an update, two inserts, a range.
LOAD = (
    (30, r"\set id random(1, 5000)" "\nselect id, email, balance from shop.customers where id = :id;"),
    (
        20,
        r"\set id random_zipfian(1, 5000, 1.2)"
        "\nselect o.id, o.placed_at, sum(l.quantity * p.price) as price from shop.orders o"
        " join shop.lines l on l.order_id = o.id join shop.products p on p.id = l.product_id"
        " where o.id between :id and :id + 9 group by o.id, o.placed_at order by price desc;",
    ),
    (
        15,
        r"\set order random(1, 20000)"
        "\nselect id, total from shop.orders where customer_id ="
        " (select customer_id from shop.orders where id = :order) order by placed_at desc;",
    ),
    (20, r"\set id random(1, 5000)" "\nupdate shop.customers set balance = balance + 5 where id = :id;"),
    (
        10,
        r"\set id random(1, 5000)"
        "\ninsert into shop.orders (customer_id, status, placed_at, total)"
        " values (:id, 'open', '2025-01-01', 12.50);",
    ),
    (5, r"\set id random(1, 1000)" "\nselect name, price from shop.products where id = :id;"),
)
# Statements that a twin leaves out: a user-defined function, a command without rows, a lock.
OTHERS = (
    "select shop.audit(7);",
    "create temporary table basket (id bigint); drop table basket;",
    "select pg_advisory_xact_lock(42);",
)


@dataclass(frozen=True)
class Database:
    """`load`: scripts of pgbench with their weights. `others`: statements that a twin leaves out."""

    name: str
    schema: str
    load: Sequence[tuple[int, str]]
    others: Sequence[str]


SHOP = Database("shop", SCHEMA, LOAD, OTHERS)


@dataclass
class Production:
    """A running cluster of PostgreSQL 18, which listens on a socket of its own."""

    root: Path
    database: Database = SHOP
    user: str = "postgres"
    password: str = "hunter2-very-secret"

    @property
    def dsn(self) -> str:
        return f"postgresql://{self.user}:{self.password}@/{self.database.name}?host={self.root}&port=5432"

    def sql(self, text: str, database: str = "") -> str:
        where = ["-h", str(self.root), "-U", "postgres", "-d", database or self.database.name]
        argv = [str(bin_dir() / "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", *where]
        done = subprocess.run(argv, input=text, text=True, capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def work(self, transactions: int) -> None:
        """Each of the other statements once, then so many transactions of the load from one client."""
        self.sql("\n".join(self.database.others))
        load = self.database.load
        scripts = [self.root / f"load{number}.sql" for number in range(len(load))]
        for path, (_, text) in zip(scripts, load, strict=True):
            path.write_text(text + "\n")
        weighed = [f"-f{path}@{weight}" for path, (weight, _) in zip(scripts, load, strict=True)]
        where = ["-h", str(self.root), "-U", "postgres", self.database.name]
        argv = [str(bin_dir() / "pgbench"), "-n", "-c1", f"-t{transactions}", "--random-seed=7", *weighed, *where]
        subprocess.run(argv, check=True, capture_output=True, timeout=600)

    def work_between_snapshots(self, transactions: int) -> Thread:
        """The same in a thread that has started, once a capture has taken its first snapshot."""
        waiting = "select count(*) from pg_stat_activity where state = 'idle' and query = 'commit;'"

        def work() -> None:
            deadline = time.monotonic() + 60
            while self.sql(waiting) == "0":
                assert time.monotonic() < deadline, "no capture has started"
                time.sleep(0.05)
            self.work(transactions)

        thread = Thread(target=work)
        thread.start()
        return thread


@contextmanager
def start(database: Database = SHOP) -> Iterator[Production]:
    """The cluster with the tables of its database, until the end of the block."""
    with remote.short_dir() as root:
        data = root / "data"
        initdb = [str(bin_dir() / "initdb"), "-D", str(data), "-U", "postgres", "--auth=trust", "--no-sync"]
        subprocess.run(unprivileged(initdb), check=True, capture_output=True, timeout=600)
        options = ["-c", "listen_addresses=", "-c", "shared_preload_libraries=pg_stat_statements"]
        argv = [str(bin_dir() / "postgres"), "-D", str(data), "-k", str(root), *options, *NOT_DURABLE]
        with (root / "log").open("wb") as log:
            server = subprocess.Popen(unprivileged(argv), stdout=log, stderr=log, start_new_session=True)
        try:
            _wait(root, server)
            running = Production(root, database)
            running.sql(f"create database {database.name}", "postgres")
            running.sql(database.schema)
            yield running
        finally:
            os.killpg(server.pid, signal.SIGINT)
            server.wait(60)


def _wait(root: Path, server: subprocess.Popen[bytes]) -> None:
    """Until it accepts connections; pg_isready waits itself for an answer."""
    argv = [str(bin_dir() / "psql"), "-XAtq", "-h", str(root), "-U", "postgres", "-d", "postgres", "-c", "select 1"]
    while subprocess.run(argv, capture_output=True, check=False, timeout=30).returncode:
        assert server.poll() is None, (root / "log").read_text()
