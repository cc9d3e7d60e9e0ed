"""The consistency conditions 1 to 4 of TPC-C, clause 3.3.2. Each query counts violations. Pure."""

from __future__ import annotations

_FIRST = """select count(*) from warehouse
where w_ytd is distinct from (select sum(d_ytd) from district where d_w_id = w_id)"""
# A district has no new order once all are delivered, which is possible with other weights.
_SECOND = """select count(*) from district
where d_next_o_id - 1 is distinct from (select max(o_id) from orders where o_w_id = d_w_id and o_d_id = d_id)
  or d_next_o_id - 1 <> (select max(no_o_id) from new_order where no_w_id = d_w_id and no_d_id = d_id)"""
_THIRD = """select count(*) from (select from new_order group by no_w_id, no_d_id
  having max(no_o_id) - min(no_o_id) + 1 <> count(*)) gaps"""
_FOURTH = """select count(*)
from (select o_w_id, o_d_id, sum(o_ol_cnt) as lines from orders group by 1, 2) o
full join (select ol_w_id, ol_d_id, count(*) as lines from order_line group by 1, 2) l
  on o_w_id = ol_w_id and o_d_id = ol_d_id
where o.lines is distinct from l.lines"""

CONDITIONS = {
    "consistency condition 1: W_YTD = sum(D_YTD)": _FIRST,
    "consistency condition 2: D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)": _SECOND,
    "consistency condition 3: max(NO_O_ID) - min(NO_O_ID) + 1 = rows in new_order": _THIRD,
    "consistency condition 4: sum(O_OL_CNT) = rows in order_line": _FOURTH,
}
