"""SQL that creates the five transactions as functions, with the same effect as the scripts of statements. Pure."""

from __future__ import annotations

from .rules import DISTRICTS, DISTS

# Returns null at an item that does not exist; the caller rolls back.
_NEW_ORDER = f"""
create or replace function tpcc_new_order(
  w int, d int, c int, lines int, all_local int, items int[], warehouses int[], quantities int[]
) returns numeric language plpgsql as $$
declare
  discount numeric; last text; credit text; taxes numeric; district_tax numeric;
  o int; price numeric; dist text; total numeric := 0;
begin
  select c_discount, c_last, c_credit, w_tax into discount, last, credit, taxes from customer, warehouse
  where w_id = w and c_w_id = w and c_d_id = d and c_id = c;
  update district set d_next_o_id = d_next_o_id + 1 where d_w_id = w and d_id = d
  returning d_next_o_id - 1, d_tax into o, district_tax;
  insert into orders (o_entry_d, o_w_id, o_d_id, o_id, o_c_id, o_ol_cnt, o_all_local)
  values (now(), w, d, o, c, lines, all_local);
  insert into new_order (no_w_id, no_d_id, no_o_id) values (w, d, o);
  perform from unnest(warehouses, items) wanted (w_id, i_id) join stock on s_w_id = w_id and s_i_id = i_id
  order by s_w_id, s_i_id for update of stock;
  for line in 1 .. lines loop
    select i_price into price from item where i_id = items[line];
    if not found then
      return null;
    end if;
    update stock set
      s_quantity = s_quantity - quantities[line] + case when s_quantity >= quantities[line] + 10 then 0 else 91 end,
      s_ytd = s_ytd + quantities[line], s_order_cnt = s_order_cnt + 1,
      s_remote_cnt = s_remote_cnt + (warehouses[line] <> w)::int
    where s_w_id = warehouses[line] and s_i_id = items[line] returning (array[{", ".join(DISTS)}])[d] into dist;
    insert into order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
      ol_dist_info)
    values (w, d, o, line, items[line], warehouses[line], quantities[line], quantities[line] * price, dist);
    total := total + quantities[line] * price;
  end loop;
  return total * (1 - discount) * (1 + taxes + district_tax);
end $$"""

_CUSTOMER = """
create or replace function tpcc_customer(w int, d int, name text) returns int language sql stable as $$
  select c_id from (
    select c_id, row_number() over (order by c_first) as place, count(*) over () as found
    from customer where c_w_id = w and c_d_id = d and c_last = name) named
  where place = (found + 1) / 2
$$"""

_PAYMENT = """
create or replace function tpcc_payment(w int, d int, cw int, cd int, c int, name text, amount numeric) returns numeric
language plpgsql as $$
declare
  warehouse_name text; district_name text; balance numeric;
begin
  update warehouse set w_ytd = w_ytd + amount where w_id = w returning w_name into warehouse_name;
  update district set d_ytd = d_ytd + amount where d_w_id = w and d_id = d returning d_name into district_name;
  if name is not null then
    c := tpcc_customer(cw, cd, name);
  end if;
  update customer set c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount,
    c_payment_cnt = c_payment_cnt + 1,
    c_data = case c_credit
      when 'BC' then left(concat_ws(' ', c_id, c_d_id, c_w_id, d, w, round(amount, 2), c_data), 500) else c_data end
  where c_w_id = cw and c_d_id = cd and c_id = c returning c_balance into balance;
  insert into history (h_date, h_c_w_id, h_c_d_id, h_c_id, h_w_id, h_d_id, h_amount, h_data)
  values (now(), cw, cd, c, w, d, amount, concat(warehouse_name, '    ', district_name));
  return balance;
end $$"""

_ORDER_STATUS = """
create or replace function tpcc_order_status(w int, d int, c int, name text) returns setof order_line
language plpgsql as $$
declare
  balance numeric; first text; last text; o int; carrier int; entered timestamptz;
begin
  if name is not null then
    c := tpcc_customer(w, d, name);
  end if;
  select c_balance, c_first, c_last into balance, first, last from customer
  where c_w_id = w and c_d_id = d and c_id = c;
  select o_id, o_carrier_id, o_entry_d into o, carrier, entered from orders
  where o_w_id = w and o_d_id = d and o_c_id = c order by o_id desc limit 1;
  return query select * from order_line where ol_w_id = w and ol_d_id = d and ol_o_id = o;
end $$"""

_DELIVERY = f"""
create or replace function tpcc_delivery(w int, carrier int) returns int language plpgsql as $$
declare
  o int; c int; amount numeric; delivered int := 0;
begin
  for d in 1 .. {DISTRICTS} loop
    select no_o_id into o from new_order where no_w_id = w and no_d_id = d order by no_o_id limit 1 for update;
    continue when not found;
    delete from new_order where no_w_id = w and no_d_id = d and no_o_id = o;
    update orders set o_carrier_id = carrier where o_w_id = w and o_d_id = d and o_id = o returning o_c_id into c;
    with lines as (
      update order_line set ol_delivery_d = now() where ol_w_id = w and ol_d_id = d and ol_o_id = o returning ol_amount)
    select sum(ol_amount) into amount from lines;
    update customer set c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1
    where c_w_id = w and c_d_id = d and c_id = c;
    delivered := delivered + 1;
  end loop;
  return delivered;
end $$"""

_STOCK_LEVEL = """
create or replace function tpcc_stock_level(w int, d int, threshold int) returns bigint language plpgsql as $$
declare
  next int; low bigint;
begin
  select d_next_o_id into next from district where d_w_id = w and d_id = d;
  select count(distinct s_i_id) into low from order_line join stock on s_w_id = ol_w_id and s_i_id = ol_i_id
  where ol_w_id = w and ol_d_id = d and ol_o_id < next and ol_o_id >= next - 20 and s_quantity < threshold;
  return low;
end $$"""

# psql -c runs them in one transaction, so never only some of them exist.
CREATE = ";\n".join(each.strip() for each in (_NEW_ORDER, _CUSTOMER, _PAYMENT, _ORDER_STATUS, _DELIVERY, _STOCK_LEVEL))
