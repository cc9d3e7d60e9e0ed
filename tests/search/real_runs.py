"""python -m embedded run -- python -m tests.search.real_runs: measures the runs of tests/search/real_runs.csv.

Queries of pgbench on a database of their own, with six settings of a session that interact. Each block has a run of
the default and four candidates of a Sobol sequence, in random order.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import environ
import psycopg
from psycopg.conninfo import make_conninfo

from apps.searches import optimiser, space
from embedded.servers.postgres import bin_dir
from tests.search.surfaces import MEASURED, MEASURED_DEFAULT, MEASURED_LINES

CANDIDATES = 4
DATABASE = "surface"
TABLES = """
select setseed(0.5);
create table customer as select id, (random() * 200)::int as region, repeat('c', 60) as note
    from generate_series(1, 20000) id;
create table purchase as select id, (random() * 19999)::int + 1 as customer, (random() * 364)::int as day,
    random() * 1000 as amount, repeat('p', 40) as note from generate_series(1, 250000) id;
create index on customer (region);
create index on purchase (customer);
create index on purchase (day);
create index on purchase (amount);
vacuum analyze customer, purchase;
"""
LOAD = r"""
\set day random(0, 200)
\set region random(0, 180)
\set low random(0, 980)
select customer, day, sum(amount) from purchase group by customer, day order by 3 desc limit 9;
select count(*), sum(amount) from customer join purchase on customer = customer.id
    where region between :region and :region + 5;
select max(step) from (select amount - lag(amount) over (partition by customer order by day) as step from purchase
    where day between :day and :day + 150) steps;
select count(distinct customer) from purchase where amount between :low and :low + 15;
"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.search.real_runs", description=__doc__)
    parser.add_argument("--blocks", type=int, default=50)
    parser.add_argument("--seconds", type=int, default=3, help="of each run")
    options = parser.parse_args(arguments)
    settings = space.read(MEASURED_LINES)
    candidates = optimiser.propose(settings, [], CANDIDATES * options.blocks, 1, "qmc")
    server = _server()
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"create database {DATABASE}")
    with psycopg.connect(server, dbname=DATABASE, autocommit=True) as connection:
        for statement in TABLES.split(";")[:-1]:
            connection.execute(statement)
    order = random.Random(1)
    with tempfile.TemporaryDirectory() as directory, MEASURED.open("w", newline="") as file:
        script = Path(directory, "load.sql")
        script.write_text(LOAD)
        out = csv.writer(file)
        out.writerow(["block", "is_default", *(each.name for each in settings.dimensions), "tps"])
        for block in range(options.blocks):
            own = candidates[CANDIDATES * block : CANDIDATES * (block + 1)]
            for values in order.sample([MEASURED_DEFAULT, *own], CANDIDATES + 1):
                tps = _measured(server, script, settings.level(values), options.seconds)
                row = [values[each.name] for each in settings.dimensions]
                out.writerow([block, int(values is MEASURED_DEFAULT), *row, tps])
            file.flush()
            print(f"block {block + 1} of {options.blocks}", flush=True)
    return 0


def _server() -> str:
    """How to connect to the temporary PostgreSQL."""
    url = environ.Env.db_url_config(os.environ["PROVING_DATABASE_URL"])
    where = {"host": url["HOST"], "port": url["PORT"], "dbname": url["NAME"]}
    return make_conninfo(user=url["USER"], password=url["PASSWORD"], **where)


def _measured(server: str, script: Path, level: Mapping[str, Any], seconds: int) -> str:
    """The TPS that pgbench prints."""
    assigned = " ".join(f"-c {path.rpartition('.')[2]}={value}" for path, value in level.items())
    database = make_conninfo(server, dbname=DATABASE, options=assigned)
    argv = [str(bin_dir() / "pgbench"), "-n", "-f", str(script), "-T", str(seconds), database]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return re.findall(r"^tps = ([\d.]+)", done.stdout, re.MULTILINE)[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
