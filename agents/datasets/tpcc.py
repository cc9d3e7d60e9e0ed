"""The tables of tpcc, derived from TPC-C. SQL fills them on the server, several warehouses at a time."""

from __future__ import annotations

from typing import Mapping

from ..errors import Unplannable
from ..workloads.tpcc.rules import OLDEST
from . import tpcc_consistency, tpcc_sql
from .base import Data, Options, Step

JOBS = 4
# Measured with PostgreSQL 18: bytes of a warehouse with its indexes, and of the items.
WAREHOUSE, ITEMS = 108_000_000, 11_500_000
LARGEST_FIRST = ("order_line", "stock", "customer", "history", "orders", "item", "new_order", "district", "warehouse")
_SHARES = {"customer": 0.02, "stock": 0.03, "orders": 0.03, "order_line": 0.1}


class TpccData(Data):
    kind = "tpcc"
    without_effect = ("jobs",)
    title = "tpcc"
    help = "Nine tables derived from TPC-C: warehouses with their districts, customers, stock and orders"
    schema = {
        "type": "object",
        "title": "tpcc",
        "properties": {
            "warehouses": {
                "type": "integer",
                "minimum": 1,
                "maximum": 100000,
                "title": "Warehouses",
                "description": f"About {WAREHOUSE // 1_000_000} MB each with indexes",
                "default": 1,
            },
            "partitions": {
                "type": "integer",
                "minimum": 0,
                "maximum": 1000,
                "title": "Partitions",
                "description": "Of every table but item, by a hash of the warehouse; 0 for none",
                "default": 0,
            },
            "foreign_keys": {"type": "boolean", "title": "Foreign keys", "default": True},
            "jobs": {
                "type": "integer",
                "minimum": 1,
                "maximum": 256,
                "title": "Warehouses created in parallel",
                "description": "Number of connections; does not change the data",
                "default": JOBS,
            },
        },
        "additionalProperties": False,
    }

    def steps(self, options: Options, major: int) -> list[Step]:
        if major < OLDEST:
            raise Unplannable("dataset.kind", self.kind, f"PostgreSQL {OLDEST} or later, not {major}")
        return [
            Step("tables", "create tables", 0.0, sql=";\n".join(_create(options))),
            Step("items", "insert items", 0.01, sql=tpcc_sql.items(), data=True),
            _warehouses(options),
            _vacuum(options),
            *(_keys(table) for table in tpcc_sql.KEYS),
            *(_references(table) for table in tpcc_sql.REFERENCES if options.get("foreign_keys", True)),
        ]

    def consistency(self) -> Mapping[str, str]:
        return tpcc_consistency.CONDITIONS

    def bytes(self, options: Options) -> int:
        return ITEMS + WAREHOUSE * int(options.get("warehouses", 1))


def _create(options: Options) -> list[str]:
    count = options.get("partitions", 0)
    made = [f"drop table if exists {', '.join(tpcc_sql.TABLES)}"]
    for table in tpcc_sql.TABLES:
        home = tpcc_sql.HOMES.get(table, "") if count else ""
        made.append(
            f"create table {table} ({tpcc_sql.COLUMNS[table]})" + (f" partition by hash ({home})" if home else "")
        )
        made += [
            f"create table {table}_{part + 1} partition of {table} for values with (modulus {count}, remainder {part})"
            for part in range(count if home else 0)
        ]
    return made


def _warehouses(options: Options) -> Step:
    """With n jobs, client c of pgbench makes the warehouses c + 1, c + 1 + n, ... An interrupted step starts again with
    empty tables."""
    count = options.get("warehouses", 1)
    jobs = min(options.get("jobs", JOBS), count)
    script = [
        r"\set warehouse :made * :jobs + :client_id + 1",
        r"\set made :made + 1",
        r"\if :warehouse <= :warehouses",
        "begin;",
        *(f"{statement};" for statement in tpcc_sql.warehouse()),
        "commit;",
        r"\endif",
    ]
    clients = [f"-c{jobs}", f"-j{jobs}", f"-t{-(-count // jobs)}"]
    defined = [
        part
        for name, value in (("made", 0), ("jobs", jobs), ("warehouses", count))
        for part in ("-D", f"{name}={value}")
    ]
    return Step(
        "warehouses",
        "insert warehouses",
        0.6,
        argv=("-n", *clients, *defined, "-f", "-"),
        stdin="\n".join(script) + "\n",
        clean=f"truncate {', '.join(table for table in tpcc_sql.TABLES if table != 'item')}",
        data=True,
        done=f"select count(*)::float / {count} from warehouse",
    )


def _vacuum(options: Options) -> Step:
    """The clients of pgbench share the tables. An interrupted step starts again."""
    jobs = min(options.get("jobs", JOBS), len(LARGEST_FIRST))
    script = [
        line
        for place, table in enumerate(LARGEST_FIRST)
        for line in (rf"\if :client_id = {place % jobs}", f"vacuum analyze {table};", r"\endif")
    ]
    argv = ("-n", f"-c{jobs}", f"-j{jobs}", "-t1", "-f", "-")
    return Step("vacuum", "vacuum and analyze", 0.08, argv=argv, stdin="\n".join(script) + "\n")


def _keys(table: str) -> Step:
    commands = [f"alter table {table} add primary key ({tpcc_sql.KEYS[table]})"]
    commands += [tpcc_sql.INDEXES[table]] if table in tpcc_sql.INDEXES else []
    share = _SHARES.get(table, 0.001)
    return Step(f"keys-{table}", f"indexes of {table}", share, sql=";\n".join(commands), watch="create_index")


def _references(table: str) -> Step:
    added = [f"add foreign key ({columns}) references {other}" for columns, other in tpcc_sql.REFERENCES[table]]
    share = _SHARES.get(table, 0.005)
    return Step(f"references-{table}", f"foreign keys of {table}", share, sql=f"alter table {table} {', '.join(added)}")
