"""SQL for the tables of tpcc and their initial rows, after clauses 1.3 and 4.3 of TPC-C. Pure.

A few statements of INSERT ... SELECT make a warehouse on the server; `:warehouse` stands for its number. Random strings
are substrings of a pool of random characters: drawing each character would take most of the time.
"""

from __future__ import annotations

from ..workloads.tpcc.rules import (
    CUSTOMERS,
    DISTRICTS,
    DISTS,
    ITEMS,
    LOADED_NAMES,
    MOST_LINES,
    NAMES,
    NEW_ORDERS,
    last_name,
)

DELIVERED = CUSTOMERS - NEW_ORDERS  # each customer has one order; the last 900 of a district are new
POOL = 16_384
TABLES = ("warehouse", "district", "customer", "history", "item", "stock", "orders", "new_order", "order_line")

_ADDRESS = """{0}_street_1 varchar(20) not null, {0}_street_2 varchar(20) not null, {0}_city varchar(20) not null,
  {0}_state char(2) not null, {0}_zip char(9) not null"""
# Table -> its columns. Those of eight bytes come first: the specification leaves the order open.
COLUMNS = {
    "warehouse": f"""w_id int not null, w_tax numeric(4,4) not null, w_ytd numeric(14,2) not null,
  w_name varchar(10) not null, {_ADDRESS.format("w")}""",
    "district": f"""d_w_id int not null, d_id int not null, d_next_o_id int not null, d_tax numeric(4,4) not null,
  d_ytd numeric(14,2) not null, d_name varchar(10) not null, {_ADDRESS.format("d")}""",
    "customer": f"""c_since timestamptz not null, c_w_id int not null, c_d_id int not null, c_id int not null,
  c_payment_cnt int not null, c_delivery_cnt int not null, c_credit_lim numeric(12,2) not null,
  c_discount numeric(4,4) not null, c_balance numeric(12,2) not null, c_ytd_payment numeric(12,2) not null,
  c_credit char(2) not null, c_middle char(2) not null, c_phone char(16) not null, c_first varchar(16) not null,
  c_last varchar(16) not null, {_ADDRESS.format("c")}, c_data varchar(500) not null""",
    "history": """h_date timestamptz not null, h_c_w_id int not null, h_c_d_id int not null, h_c_id int not null,
  h_w_id int not null, h_d_id int not null, h_amount numeric(6,2) not null, h_data varchar(24) not null""",
    "item": """i_id int not null, i_im_id int not null, i_price numeric(5,2) not null, i_name varchar(24) not null,
  i_data varchar(50) not null""",
    "stock": f"""s_w_id int not null, s_i_id int not null, s_ytd int not null, s_quantity smallint not null,
  s_order_cnt smallint not null, s_remote_cnt smallint not null,
  {", ".join(f"{dist} char(24) not null" for dist in DISTS)}, s_data varchar(50) not null""",
    "orders": """o_entry_d timestamptz not null, o_w_id int not null, o_d_id int not null, o_id int not null,
  o_c_id int not null, o_carrier_id smallint, o_ol_cnt smallint not null, o_all_local smallint not null""",
    "new_order": "no_w_id int not null, no_d_id int not null, no_o_id int not null",
    "order_line": """ol_delivery_d timestamptz, ol_w_id int not null, ol_d_id int not null, ol_o_id int not null,
  ol_number smallint not null, ol_quantity smallint not null, ol_i_id int not null, ol_supply_w_id int not null,
  ol_amount numeric(6,2) not null, ol_dist_info char(24) not null""",
}
# Table -> its primary key; history has none. Each but that of item begins with the warehouse.
KEYS = {
    "warehouse": "w_id",
    "district": "d_w_id, d_id",
    "customer": "c_w_id, c_d_id, c_id",
    "item": "i_id",
    "stock": "s_w_id, s_i_id",
    "orders": "o_w_id, o_d_id, o_id",
    "new_order": "no_w_id, no_d_id, no_o_id",
    "order_line": "ol_w_id, ol_d_id, ol_o_id, ol_number",
}
# The warehouse of a row, by which tables are partitioned.
HOMES = {**{table: key.split(",")[0] for table, key in KEYS.items() if table != "item"}, "history": "h_w_id"}
INDEXES = {
    "customer": "create index customer_by_name on customer (c_w_id, c_d_id, c_last, c_first)",
    "orders": "create index orders_by_customer on orders (o_w_id, o_d_id, o_c_id, o_id)",
}
# Table -> (columns, what they refer to).
REFERENCES = {
    "district": (("d_w_id", "warehouse"),),
    "customer": (("c_w_id, c_d_id", "district"),),
    "history": (("h_c_w_id, h_c_d_id, h_c_id", "customer"), ("h_w_id, h_d_id", "district")),
    "stock": (("s_w_id", "warehouse"), ("s_i_id", "item")),
    "orders": (("o_w_id, o_d_id, o_c_id", "customer"),),
    "new_order": (("no_w_id, no_d_id, no_o_id", "orders"),),
    "order_line": (("ol_w_id, ol_d_id, ol_o_id", "orders"), ("ol_supply_w_id, ol_i_id", "stock")),
}

_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
# An aggregate is computed once. bytea, because the cost of substring() on UTF-8 text grows with the position.
_POOL = f"""(select
    string_agg(substr('{_CHARACTERS}', 1 + floor(random() * {len(_CHARACTERS)})::int, 1), '')::bytea as pool
  from generate_series(1, {POOL}))"""


def number(low: int, high: int) -> str:
    """A random integer from `low` to `high`."""
    return f"({low} + floor(random() * {high - low + 1})::int)"


def piece(length: str, at: str = "") -> str:
    """A random string of `length` characters, at most 512. `at`: its first position in the pool, random by default."""
    return f"encode(substring(pool from {at or number(1, POOL - 512)} for {length}), 'escape')"


def _text(low: int, high: int) -> str:
    return piece(number(low, high))


def _digits(count: int) -> str:
    return f"lpad(floor(random() * 1e{count})::bigint::text, {count}, '0')"


def _zip() -> str:
    return f"{_digits(4)} || '11111'"


def _address() -> str:
    return f"{_text(10, 20)}, {_text(10, 20)}, {_text(10, 20)}, {_text(2, 2)}, {_zip()}"


def _share(parts: int, highest: int) -> str:
    """A random decimal from 0 to highest / parts."""
    return f"round({number(0, highest)}::numeric / {parts}, 4)"


def _original() -> str:
    """26 to 50 characters; a tenth of the rows contain ORIGINAL, at a random position."""
    return f"""case when random() < 0.1
  then overlay({_text(26, 50)} placing 'ORIGINAL' from {number(1, 19)}) else {_text(26, 50)} end"""


def nurand(a: int, low: int, high: int, constant: int) -> str:
    """NURand(A, low, high) of clause 2.1.6."""
    return f"((({number(0, a)} | {number(low, high)}) + {constant}) % {high - low + 1} + {low})"


def items() -> str:
    return f"""insert into item (i_id, i_im_id, i_price, i_name, i_data)
select i, {number(1, 10_000)}, {number(100, 10_000)} / 100.0, {_text(14, 24)}, {_original()}
from {_POOL} p, generate_series(1, {ITEMS}) i"""


def warehouse() -> list[str]:
    """The statements that make warehouse number `:warehouse` with all its rows, in one transaction."""
    return [_warehouse(), _districts(), _stock(), _customers(), _history(), _orders()]


def _warehouse() -> str:
    return f"""insert into warehouse (w_id, w_tax, w_ytd, w_name, w_street_1, w_street_2, w_city, w_state, w_zip)
select :warehouse, {_share(10_000, 2000)}, 300000.00, {_text(6, 10)}, {_address()} from {_POOL} p"""


def _districts() -> str:
    return f"""insert into district (d_w_id, d_id, d_next_o_id, d_tax, d_ytd, d_name, d_street_1, d_street_2, d_city,
  d_state, d_zip)
select :warehouse, d, {CUSTOMERS + 1}, {_share(10_000, 2000)}, 30000.00, {_text(6, 10)}, {_address()}
from {_POOL} p, generate_series(1, {DISTRICTS}) d"""


def _stock() -> str:
    dists = ", ".join(piece("24", f"at + {24 * place}") for place in range(DISTRICTS))
    return f"""insert into stock (s_w_id, s_i_id, s_ytd, s_quantity, s_order_cnt, s_remote_cnt, {", ".join(DISTS)},
  s_data)
select :warehouse, i, 0, {number(10, 100)}, 0, 0, {dists}, {_original()}
from {_POOL} p, (select i, {number(1, POOL - 512)} as at from generate_series(1, {ITEMS}) i offset 0) s"""


def _customers() -> str:
    return f"""insert into customer (c_since, c_w_id, c_d_id, c_id, c_payment_cnt, c_delivery_cnt, c_credit_lim,
  c_discount, c_balance, c_ytd_payment, c_credit, c_middle, c_phone, c_first, c_last, c_street_1, c_street_2, c_city,
  c_state, c_zip, c_data)
select now(), :warehouse, d, c, 1, 0, 50000.00, {_share(10_000, 5000)}, -10.00, 10.00,
  case when random() < 0.1 then 'BC' else 'GC' end, 'OE', {_digits(16)}, {_text(8, 16)}, {last_name("n")},
  {_address()},
  {_text(300, 500)}
from {_POOL} p, (select d, c, case when c <= {NAMES} then c - 1 else {nurand(255, 0, NAMES - 1, LOADED_NAMES)} end as n
  from generate_series(1, {DISTRICTS}) d, generate_series(1, {CUSTOMERS}) c offset 0) n"""


def _history() -> str:
    return f"""insert into history (h_date, h_c_w_id, h_c_d_id, h_c_id, h_w_id, h_d_id, h_amount, h_data)
select now(), :warehouse, d, c, :warehouse, d, 10.00, {_text(12, 24)}
from {_POOL} p, generate_series(1, {DISTRICTS}) d, generate_series(1, {CUSTOMERS}) c"""


def _orders() -> str:
    """Orders, new orders and order lines in one statement: RETURNING gives the number of lines of each order."""
    lines = ", ".join(f"({line})" for line in range(1, MOST_LINES + 1))
    new = f"o_id > {DELIVERED}"
    return f"""with o as (
  insert into orders (o_entry_d, o_w_id, o_d_id, o_id, o_c_id, o_carrier_id, o_ol_cnt, o_all_local)
  select now(), :warehouse, d, o, row_number() over (partition by d order by random()),
    case when o <= {DELIVERED} then {number(1, 10)} end, {number(5, MOST_LINES)}, 1
  from generate_series(1, {DISTRICTS}) d, generate_series(1, {CUSTOMERS}) o
  returning o_d_id, o_id, o_ol_cnt),
n as (
  insert into new_order (no_w_id, no_d_id, no_o_id) select :warehouse, o_d_id, o_id from o where {new})
insert into order_line (ol_delivery_d, ol_w_id, ol_d_id, ol_o_id, ol_number, ol_quantity, ol_i_id, ol_supply_w_id,
  ol_amount, ol_dist_info)
select case when not {new} then now() end, :warehouse, o_d_id, o_id, line, 5, {number(1, ITEMS)}, :warehouse,
  case when {new} then {number(1, 999_999)} / 100.0 else 0.00 end, {piece("24")}
from {_POOL} p, o join (values {lines}) l (line) on line <= o_ol_cnt"""
