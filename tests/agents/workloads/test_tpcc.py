"""tpcc: its data set, its five transactions as statements and as functions, and its consistency conditions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from agents.datasets import DATASETS
from agents.datasets.tpcc_consistency import CONDITIONS
from agents.errors import Unplannable
from agents.run.planning import check_data
from agents.workloads import WORKLOADS
from readers.measure import measure
from tests.agents.driver import OK, Connection, of
from tests.agents.theirs import DEBIANS

Spec = dict[str, Any]
Make = Callable[..., Spec]
TPCC, DATA = WORKLOADS["tpcc"], DATASETS["tpcc"]
# One statement per condition, which violates it.
BREAKS = (
    "update warehouse set w_ytd = w_ytd + 1 where w_id = 1;"
    "update district set d_next_o_id = d_next_o_id + 1 where d_w_id = 1 and d_id = 2;"
    "delete from new_order where no_w_id = 1 and no_d_id = 3 and no_o_id = 2500;"
    "update orders set o_ol_cnt = o_ol_cnt + 1 where o_w_id = 1 and o_d_id = 4 and o_id = 7"
)

# A view in place of a table, whose function raises an error when a superuser reads it.
PLANTED = """
alter table warehouse rename to real_warehouse;
create function refuse_superuser() returns boolean language plpgsql as $f$ begin
  if (select rolsuper from pg_roles where rolname = session_user) then raise 'read by a superuser'; end if;
  return true; end $f$;
create view warehouse as select * from real_warehouse where refuse_superuser()
"""


@pytest.fixture
def tpcc(spec: Make) -> Make:
    """A spec of one step of tpcc; `data` are options of its data set, keywords those of the step."""

    def make(data: dict[str, Any] | None = None, **options: Any) -> Spec:
        own = {"clients": 4, "jobs": 2, **({} if "time_s" in options else {"transactions": 100}), **options}
        steps = [{"name": "measure", "kind": "tpcc", "options": own}]
        return {**spec(), "dataset": {"kind": "tpcc", "options": data or {}}, "steps": steps}

    return make


def ended_well(agent: Connection, spec: Spec) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """The figures of its step, and its events."""
    run = agent.submit(spec)
    events = agent.events(run, limit_s=180)
    assert of(events, "outcome") == [OK]
    outputs = {
        name: agent.file(run, f"out/measure/{name}") for name in ("stdout", "stderr", "load.json", "latency.json")
    }
    return {each.name: each.value for each in measure("tpcc", outputs, spec["steps"][0]["options"])}, events


def conditions(events: list[dict[str, Any]]) -> list[bool]:
    return [proof["ok"] for proof in of(events, "proof", setting="dataset")]


@pytest.mark.fast
@pytest.mark.parametrize("calls", ["sql", "functions"])
def test_five_transactions_run_by_their_weights_and_leave_the_data_consistent(
    agent: Connection, tpcc: Make, calls: str
) -> None:
    figures, events = ended_well(agent, tpcc(calls=calls))

    assert figures["transactions"] == 400 and figures["failed"] == 0
    assert figures["new_order share"] == pytest.approx(45, abs=12)
    assert figures["nopm"] == pytest.approx(60 * figures["new_order tps"]) and figures["tpm"] == 60 * figures["tps"]
    assert figures["new_order latency_p95"] >= figures["new_order latency_p50"] > 0
    assert conditions(events) == [True] * 4


# Consistency condition 10 of TPC-C: C_BALANCE = sum(OL_AMOUNT) of delivered orders - sum(H_AMOUNT).
BALANCES = """
select count(*) as violations from customer
left join (select h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) as paid from history group by 1, 2, 3) h
  on (h_c_w_id, h_c_d_id, h_c_id) = (c_w_id, c_d_id, c_id)
left join (select o_w_id, o_d_id, o_c_id, sum(ol_amount) as due from orders
  join order_line on (ol_w_id, ol_d_id, ol_o_id) = (o_w_id, o_d_id, o_id)
  where ol_delivery_d is not null group by 1, 2, 3) o on (o_w_id, o_d_id, o_c_id) = (c_w_id, c_d_id, c_id)
where c_balance <> coalesce(due, 0) - coalesce(paid, 0)
"""


@pytest.mark.parametrize("calls", ["sql", "functions"])
def test_deliveries_and_payments_change_the_balances_of_customers(agent: Connection, tpcc: Make, calls: str) -> None:
    run_spec = tpcc(calls=calls, weights={"delivery": 1, "payment": 1})
    query = {"query": BALANCES, "figures": {"violations": {"unit": "customers", "better": "lower"}}}
    run_spec["steps"].append({"name": "balances", "kind": "sql", "options": query})
    run = agent.submit(run_spec)

    events = agent.events(run, limit_s=180)

    assert of(events, "outcome") == [OK]
    assert agent.file(run, "out/balances/stdout").startswith(b'{"violations":0}')


@pytest.mark.parametrize(("calls", "mode"), [("sql", "extended"), ("sql", "prepared"), ("functions", "prepared")])
def test_transactions_run_in_every_query_mode(agent: Connection, tpcc: Make, calls: str, mode: str) -> None:
    figures, events = ended_well(agent, tpcc(calls=calls, mode=mode))

    assert figures["transactions"] == 400 and conditions(events) == [True] * 4


@pytest.mark.needs("postgresql-15")
@pytest.mark.parametrize("calls", ["sql", "functions"])
def test_transactions_run_on_an_older_server(agent: Connection, tpcc: Make, calls: str) -> None:
    run_spec = tpcc(calls=calls)
    run_spec["target"]["bin_dir"] = DEBIANS

    figures, events = ended_well(agent, run_spec)

    assert figures["transactions"] == 400 and conditions(events) == [True] * 4


def test_warehouses_are_made_several_at_a_time_in_partitions_and_reach_each_other(
    agent: Connection, tpcc: Make
) -> None:
    data = {"warehouses": 3, "partitions": 2, "jobs": 2}

    figures, events = ended_well(agent, tpcc(data, remote_lines=100, remote_payments=100, rollback=50))

    made = of(events, "dataset")[-1]
    assert [name for name, _ in made["seconds"]][:4] == ["tables", "items", "warehouses", "vacuum"]
    rows = {name: each["rows"] for name, each in made["relations"].items()}
    assert rows["stock_1"] + rows["stock_2"] == 300_000 and rows["orders_1"] + rows["orders_2"] == 90_000
    assert figures["transactions"] == 400 and conditions(events) == [True] * 4


def test_rolled_back_new_orders_leave_nothing(agent: Connection, tpcc: Make) -> None:
    run_spec = tpcc(weights={"new_order": 1}, rollback=100, home="client")
    last = {
        "query": "select max(o_id) as o_id from orders",
        "figures": {"o_id": {"unit": "orders", "better": "higher"}},
    }
    run_spec["steps"].append({"name": "left", "kind": "sql", "options": last})
    run = agent.submit(run_spec)

    events = agent.events(run, limit_s=180)

    assert conditions(events) == [True] * 4
    assert b"number of transactions actually processed: 400/400" in agent.file(run, "out/measure/stdout")
    assert agent.file(run, "out/left/stdout").startswith(b'{"o_id":3000}')


def test_latencies_exclude_the_waits_of_terminals(agent: Connection, tpcc: Make) -> None:
    run_spec = tpcc(terminals=True, weights={"stock_level": 1, "order_status": 1}, clients=3, jobs=1, transactions=1)

    figures, _ = ended_well(agent, run_spec)

    # Each of the three clients waits 2 s at its keyboard before its one transaction.
    assert figures["tps"] < 1.5 and figures["latency_avg"] < 1000


@pytest.mark.fast
def test_a_run_that_breaks_the_conditions_yields_no_result(agent: Connection, tpcc: Make) -> None:
    run_spec = tpcc()
    run_spec["steps"].append({"name": "break", "kind": "sql", "options": {"statements": BREAKS}})

    events = agent.events(agent.submit(run_spec), limit_s=180)

    (outcome,) = of(events, "outcome")
    assert outcome["outcome"] == "failed" and outcome["error"]["blame"] == "workload"
    assert "consistency condition 1: W_YTD = sum(D_YTD): 1 violation" in outcome["error"]["message"]
    assert conditions(events) == [False] * 4


def test_the_conditions_are_checked_without_rights_of_a_superuser(agent: Connection, tpcc: Make) -> None:
    run_spec = tpcc()
    run_spec["steps"].append({"name": "plant", "kind": "sql", "options": {"statements": PLANTED}})

    events = agent.events(agent.submit(run_spec), limit_s=180)

    assert of(events, "outcome") == [OK]
    assert conditions(events) == [True] * 4


def test_the_number_of_jobs_does_not_change_the_fingerprint() -> None:
    same = [DATA.fingerprint({"warehouses": 2, **jobs}, 18) for jobs in ({}, {"jobs": 1}, {"jobs": 9})]

    assert len(set(same)) == 1 and DATA.fingerprint({"warehouses": 3}, 18) not in same


def test_a_server_before_12_is_refused_for_the_data_set_and_the_load() -> None:
    with pytest.raises(Unplannable, match="PostgreSQL 12 or later, not 11"):
        DATA.steps({}, 11)
    with pytest.raises(Unplannable, match="PostgreSQL 12 or later, not 11"):
        TPCC.check_version({}, 11)


@pytest.mark.parametrize("dataset", [None, {"kind": "pgbench", "options": {}}])
def test_another_data_set_is_refused(tpcc: Make, dataset: dict[str, Any] | None) -> None:
    with pytest.raises(Unplannable, match=r"dataset\.kind.*accepted: tpcc: step measure uses its tables"):
        check_data({**tpcc(), "dataset": dataset})


def test_a_client_of_another_machine_has_no_data_set_of_its_own(tpcc: Make) -> None:
    check_data({**tpcc(), "dataset": None, "target": {"kind": "remote"}})


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"weights": {"payment": 0}}, "tpcc.weights"),
        ({"time_s": 1, "transactions": 1}, "tpcc.transactions"),
        ({"rate_share": 0.5}, "tpcc.rate_share"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], refused: str) -> None:
    with pytest.raises(Unplannable) as failure:
        TPCC.check(options)

    assert failure.value.field == refused


def test_only_transactions_that_write_need_data_of_their_own() -> None:
    assert TPCC.writes({}) and not TPCC.writes({"weights": {"order_status": 1, "stock_level": 1, "payment": 0}})


def test_each_client_has_a_connection() -> None:
    assert (TPCC.connections({}), TPCC.connections({"clients": 7})) == (1, 7)


def test_figures_of_a_type_are_those_of_pgbench() -> None:
    assert TPCC.metric("payment latency_p99.9") == TPCC.metric("latency_p99.9")
    assert TPCC.metric("payment latency_p95") is not None and TPCC.metric("payment share") is None
    assert TPCC.is_main("nopm") and not TPCC.is_main("payment latency_avg")


def test_conditions_are_named_1_to_4() -> None:
    assert [re.findall(r"condition (\d)", name) for name in CONDITIONS] == [["1"], ["2"], ["3"], ["4"]]
