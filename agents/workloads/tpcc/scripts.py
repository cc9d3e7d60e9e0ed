"""The five transactions as scripts of pgbench, which call SQL statements or one function each. Pure.

A script draws its random input before its transaction begins, as a terminal does. pgbench gets `:warehouses` with -D.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable

from .rules import (
    CUSTOMERS,
    DISTRICTS,
    DISTS,
    ITEMS,
    LONGEST_THINKING,
    MOST_LINES,
    NAMES,
    RUN_CUSTOMERS,
    RUN_ITEMS,
    RUN_NAMES,
    TRANSACTIONS,
    Transaction,
    last_name,
)

Options = dict[str, Any]
UNKNOWN = ITEMS + 1  # an item that does not exist
LINES = range(1, MOST_LINES + 1)
_DISTS = ", ".join(DISTS)
_OTHER = "1 + (:w + random(0, greatest(:warehouses - 2, 0))) % :warehouses"


def weights(options: Options) -> dict[str, int]:
    """Name -> weight of each transaction that may run, in the order of their scripts."""
    chosen = options.get("weights") or {each.name: each.weight for each in TRANSACTIONS}
    return {each.name: chosen[each.name] for each in TRANSACTIONS if chosen.get(each.name, 0)}


def scripts(options: Options) -> list[dict[str, Any]]:
    """The value of the option `scripts` of the workload pgbench."""
    chosen = weights(options)
    return [
        {"name": each.name, "weight": chosen[each.name], "text": script(each, options)}
        for each in TRANSACTIONS
        if each.name in chosen
    ]


def script(transaction: Transaction, options: Options) -> str:
    drawn, sql, functions = _PARTS[transaction.name]
    body = functions(options) if options.get("calls", "sql") == "functions" else sql(options)
    lines = [*_home(options), *drawn(options), *body]
    return "\n".join(_at_terminal(transaction, lines) if options.get("terminals") else lines) + "\n"


def _at_terminal(transaction: Transaction, lines: Iterable[str]) -> list[str]:
    most = transaction.thinking_s * 1000 * LONGEST_THINKING
    thinking = [rf"\set thinking random_exponential(0, {most}, {LONGEST_THINKING})", r"\sleep :thinking ms"]
    return [rf"\sleep {transaction.keying_s} s", *lines, *thinking]


def _home(options: Options) -> list[str]:
    """The warehouse and district of the terminal. Only Stock-Level uses the district."""
    if options.get("home") == "client":
        return [r"\set w 1 + :client_id % :warehouses", rf"\set home_d 1 + :client_id / :warehouses % {DISTRICTS}"]
    return [r"\set w random(1, :warehouses)", rf"\set home_d random(1, {DISTRICTS})"]


def _nurand(a: int, low: int, high: int, constant: int) -> str:
    """NURand(A, low, high) of clause 2.1.6."""
    return f"((random(0, {a}) | random({low}, {high})) + {constant}) % {high - low + 1} + {low}"


def _customer() -> list[str]:
    """Select a customer: 60 % by last name, otherwise by number."""
    return [
        r"\set by_name random(1, 100) <= 60",
        rf"\set c {_nurand(1023, 1, CUSTOMERS, RUN_CUSTOMERS)}",
        rf"\set name {_nurand(255, 0, NAMES - 1, RUN_NAMES)}",
    ]


def _find(warehouse: str, district: str) -> list[str]:
    """The customer with this last name whose first name is the median."""
    return [
        r"\if :by_name",
        "select c_id as c from (select c_id, row_number() over (order by c_first) as place, count(*) over () as found",
        f"  from customer where c_w_id = {warehouse} and c_d_id = {district}",
        f"  and c_last = {last_name(':name::int')}) named",
        "where place = (found + 1) / 2 \\gset",
        r"\endif",
    ]


def _named() -> str:
    return f"case when :by_name::boolean then {last_name(':name::int')} end"


def _text(variable: str, options: Options) -> str:
    """A variable that holds a string. In simple query mode pgbench inserts its text into the statement."""
    return f"':{variable}'" if options.get("mode", "simple") == "simple" else f":{variable}::text"


def _new_order_input(options: Options) -> list[str]:
    remote, rollback = options.get("remote_lines", 1), options.get("rollback", 1)
    drawn = [
        rf"\set d random(1, {DISTRICTS})",
        rf"\set c {_nurand(1023, 1, CUSTOMERS, RUN_CUSTOMERS)}",
        rf"\set lines random(5, {MOST_LINES})",
        rf"\set rollback random(1, 10000) <= {round(rollback * 100)}",
    ]
    for line in LINES:
        item = _nurand(8191, 1, ITEMS, RUN_ITEMS)
        none = f"case when :lines < {line} then 0 when :lines = {line} and :rollback then {UNKNOWN} else {item} end"
        away = f":lines >= {line} and :warehouses > 1 and random(1, 10000) <= {round(remote * 100)}"
        drawn += [
            rf"\set i{line} {none}",
            rf"\set s{line} case when {away} then {_OTHER} else :w end",
            rf"\set q{line} random(1, 10)",
        ]
    local = " and ".join(f":s{line} = :w" for line in LINES)
    return [*drawn, rf"\set local case when {local} then 1 else 0 end"]


def _new_order(options: Options) -> list[str]:
    rows = ", ".join(f"(:s{line}::int, :i{line}::int)" for line in LINES)
    return [
        "begin;",
        "select c_discount, c_last, c_credit, w_tax from customer, warehouse",
        "where w_id = :w and c_w_id = :w and c_d_id = :d and c_id = :c;",
        "update district set d_next_o_id = d_next_o_id + 1 where d_w_id = :w and d_id = :d",
        "returning d_next_o_id - 1 as o_id, d_tax \\gset",
        "insert into orders (o_entry_d, o_w_id, o_d_id, o_id, o_c_id, o_ol_cnt, o_all_local)",
        "values (now(), :w, :d, :o_id, :c, :lines, :local);",
        "insert into new_order (no_w_id, no_d_id, no_o_id) values (:w, :d, :o_id);",
        # Rows are locked in the same order by all, which avoids deadlocks.
        f"select s_quantity from (values {rows}) wanted (w, i) join stock on s_w_id = w and s_i_id = i",
        "order by s_w_id, s_i_id for update of stock;",
        *(each for line in LINES for each in _line(line, options)),
        r"\if :rollback",
        "rollback;",
        r"\else",
        "commit;",
        r"\endif",
    ]


def _line(line: int, options: Options) -> list[str]:
    return [
        rf"\if :i{line} = {UNKNOWN}",
        f"select i_price, i_name, i_data from item where i_id = :i{line};",
        rf"\elif :i{line} > 0",
        f"select i_price, i_name, i_data from item where i_id = :i{line} \\gset",
        rf"\set r{line} case when :s{line} = :w then 0 else 1 end",
        "update stock set",
        f"  s_quantity = s_quantity - :q{line} + case when s_quantity >= :q{line} + 10 then 0 else 91 end,",
        f"  s_ytd = s_ytd + :q{line}, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :r{line}",
        f"where s_w_id = :s{line} and s_i_id = :i{line} returning s_data, (array[{_DISTS}])[:d] as dist \\gset",
        "insert into order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity,",
        f"  ol_amount, ol_dist_info) values (:w, :d, :o_id, {line}, :i{line}, :s{line}, :q{line},",
        f"  :q{line} * :i_price::numeric, {_text('dist', options)});",
        r"\endif",
    ]


def _new_order_function(options: Options) -> list[str]:
    arrays = ", ".join(f"array[{', '.join(f':{name}{line}' for line in LINES)}]::int[]" for name in "isq")
    call = f"select tpcc_new_order(:w, :d, :c, :lines, :local, {arrays});"
    return [r"\if :rollback", "begin;", call, "rollback;", r"\else", call, r"\endif"]


def _payment_input(options: Options) -> list[str]:
    away = f":warehouses > 1 and random(1, 10000) <= {round(options.get('remote_payments', 15) * 100)}"
    return [
        rf"\set d random(1, {DISTRICTS})",
        rf"\set cw case when {away} then {_OTHER} else :w end",
        rf"\set cd case when :cw = :w then :d else random(1, {DISTRICTS}) end",
        *_customer(),
        r"\set cents random(100, 500000)",
    ]


def _payment(options: Options) -> list[str]:
    amount = ":cents / 100.0"
    note = "concat_ws(' ', c_id, c_d_id, c_w_id, :d::int, :w::int, round(:cents / 100.0, 2), c_data)"
    return [
        "begin;",
        f"update warehouse set w_ytd = w_ytd + {amount} where w_id = :w",
        "returning w_name, w_street_1, w_street_2, w_city, w_state, w_zip \\gset",
        f"update district set d_ytd = d_ytd + {amount} where d_w_id = :w and d_id = :d",
        "returning d_name, d_street_1, d_street_2, d_city, d_state, d_zip \\gset",
        *_find(":cw", ":cd"),
        f"update customer set c_balance = c_balance - {amount}, c_ytd_payment = c_ytd_payment + {amount},",
        f"  c_payment_cnt = c_payment_cnt + 1, c_data = case c_credit when 'BC' then left({note}, 500) else c_data end",
        "where c_w_id = :cw and c_d_id = :cd and c_id = :c",
        "returning c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip,",
        "  c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance, left(c_data, 200);",
        "insert into history (h_date, h_c_w_id, h_c_d_id, h_c_id, h_w_id, h_d_id, h_amount, h_data)",
        f"values (now(), :cw, :cd, :c, :w, :d, {amount},",
        f"  concat({_text('w_name', options)}, '    ', {_text('d_name', options)}));",
        "commit;",
    ]


def _payment_function(options: Options) -> list[str]:
    return [f"select tpcc_payment(:w, :d, :cw, :cd, :c, {_named()}, :cents / 100.0);"]


def _order_status_input(options: Options) -> list[str]:
    return [rf"\set d random(1, {DISTRICTS})", *_customer()]


def _order_status(options: Options) -> list[str]:
    return [
        "begin;",
        *_find(":w", ":d"),
        "select c_balance, c_first, c_middle, c_last from customer where c_w_id = :w and c_d_id = :d and c_id = :c;",
        "select o_id, o_entry_d, o_carrier_id from orders where o_w_id = :w and o_d_id = :d and o_c_id = :c",
        "order by o_id desc limit 1 \\gset",
        "select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d from order_line",
        "where ol_w_id = :w and ol_d_id = :d and ol_o_id = :o_id;",
        "commit;",
    ]


def _order_status_function(options: Options) -> list[str]:
    return [f"select * from tpcc_order_status(:w, :d, :c, {_named()});"]


def _delivery_input(options: Options) -> list[str]:
    return [r"\set carrier random(1, 10)"]


def _delivery(options: Options) -> list[str]:
    return ["begin;", *(each for district in range(1, DISTRICTS + 1) for each in _deliver(district)), "commit;"]


def _deliver(district: int) -> list[str]:
    """Deliver the oldest new order of a district. If another delivery holds it, wait and take the next one."""
    return [
        "with oldest as (select no_w_id, no_d_id, no_o_id from new_order",
        f"  where no_w_id = :w and no_d_id = {district} order by no_o_id limit 1 for update),",
        "taken as (delete from new_order n using oldest o where n.no_w_id = o.no_w_id and n.no_d_id = o.no_d_id",
        "  and n.no_o_id = o.no_o_id returning n.no_o_id)",
        "select coalesce(min(no_o_id), 0) as o_id from taken \\gset",
        r"\if :o_id > 0",
        f"update orders set o_carrier_id = :carrier where o_w_id = :w and o_d_id = {district} and o_id = :o_id",
        "returning o_c_id as c \\gset",
        "with delivered as (update order_line set ol_delivery_d = now()",
        f"  where ol_w_id = :w and ol_d_id = {district} and ol_o_id = :o_id returning ol_amount)",
        "select sum(ol_amount) as amount from delivered \\gset",
        "update customer set c_balance = c_balance + :amount, c_delivery_cnt = c_delivery_cnt + 1",
        f"where c_w_id = :w and c_d_id = {district} and c_id = :c;",
        r"\endif",
    ]


def _delivery_function(options: Options) -> list[str]:
    return ["select tpcc_delivery(:w, :carrier);"]


def _stock_level_input(options: Options) -> list[str]:
    return [r"\set threshold random(10, 20)"]


def _stock_level(options: Options) -> list[str]:
    return [
        "begin;",
        "select d_next_o_id as next from district where d_w_id = :w and d_id = :home_d \\gset",
        "select count(distinct s_i_id) from order_line join stock on s_w_id = ol_w_id and s_i_id = ol_i_id",
        "where ol_w_id = :w and ol_d_id = :home_d and ol_o_id < :next and ol_o_id >= :next - 20",
        "  and s_quantity < :threshold;",
        "commit;",
    ]


def _stock_level_function(options: Options) -> list[str]:
    return ["select tpcc_stock_level(:w, :home_d, :threshold);"]


Lines = Callable[[Options], list[str]]
# Name -> what draws its input, the transaction as statements, and as a call of a function.
_PARTS: dict[str, tuple[Lines, Lines, Lines]] = {
    "new_order": (_new_order_input, _new_order, _new_order_function),
    "payment": (_payment_input, _payment, _payment_function),
    "order_status": (_order_status_input, _order_status, _order_status_function),
    "delivery": (_delivery_input, _delivery, _delivery_function),
    "stock_level": (_stock_level_input, _stock_level, _stock_level_function),
}
