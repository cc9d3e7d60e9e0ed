"""tpcc: its mix of transactions, consistency conditions, loading time, and two standbys with a quorum."""

from __future__ import annotations

from typing import Any

from embedded.demo import campaign
from tests.loads.checks import Checks
from tests.servers import recipes
from tests.servers.ground import Ground

MIX = {"new_order": 45, "payment": 43, "order_status": 4, "delivery": 4, "stock_level": 4}
POINTS = 1.0  # a share of 45 % of 20,000 transactions has a standard error of 0.35 percentage points
CLIENTS = 4
SCALE_PER_WAREHOUSE = 6.8  # of pgbench, with the same bytes
WAREHOUSES = {"name": "warehouses", "levels": [{"label": str(n), "set": {"dataset.warehouses": n}} for n in (1, 4)]}
CALLS = {"name": "calls", "levels": [{"label": each, "set": {"workload.calls": each}} for each in ("sql", "functions")]}
TABLES = {
    *("warehouse", "district", "customer", "history", "new_order", "orders", "order_line", "item", "stock"),
    *("pgbench_accounts", "pgbench_branches", "pgbench_tellers"),
}
BROKEN = "update district set d_next_o_id = d_next_o_id + 1 where d_w_id = 1 and d_id = 2"


def measure(ground: Ground, checks: Checks, transactions: int, warehouses: int) -> None:
    _mix(ground, checks, transactions)
    _broken(ground, checks)
    _speed(ground, warehouses)
    _standbys(ground, checks)


def _mix(ground: Ground, checks: Checks, transactions: int) -> None:
    steps = [_load(transactions=transactions // CLIENTS)]
    ended = _campaign(ground, "mix", steps, [WAREHOUSES, CALLS])
    for run in _runs(ground, ended):
        name = f"{run['levels']['warehouses']} warehouses, {run['levels']['calls']}"
        figures = _figures(ground, run)
        shares = {each: figures.get(f"{each} share", 0.0) for each in MIX}
        furthest = max(abs(share - MIX[each]) for each, share in shares.items())
        print(f"{name}: {', '.join(f'{each} {share:.2f} %' for each, share in shares.items())}")
        about = ", ".join(f"{each} {figures.get(each, float('nan')):,.0f}" for each in ("nopm", "failed"))
        print(f"  {figures.get('transactions', 0):,.0f} transactions, {about}")
        checks.check(run["outcome"] == "ok" and furthest <= POINTS, f"{name}: mix within {furthest:.2f} points")
        met = _conditions(ground, run)
        checks.check(len(met) == 4 and all(met.values()), f"{name}: {sum(met.values())} of 4 conditions are met")


def _broken(ground: Ground, checks: Checks) -> None:
    steps = [_load(transactions=100), {"name": "break", "kind": "sql", "options": {"statements": BROKEN}}]
    ended = _campaign(ground, "broken", steps, [CALLS])
    for run in _runs(ground, ended):
        message = (run["error"] or {}).get("message", "")
        print(f"broken on purpose, {run['levels']['calls']}: {run['outcome']}: {message}")
        caught = run["outcome"] == "failed" and "consistency condition 2" in message
        checks.check(caught and not _figures(ground, run), "a broken condition fails the run, which has no result")


def _speed(ground: Ground, warehouses: int) -> None:
    """Measure how fast the data set is created, compared with pgbench -i of the same size."""
    scale = round(SCALE_PER_WAREHOUSE * warehouses)
    for name, options in (("tpcc", {"warehouses": warehouses, "jobs": 2}), ("pgbench", {"scale": scale})):
        dataset = ground.client.post("datasets/", name=f"speed-{name}", kind=name, options=options)
        prepared = ground.client.post(f"datasets/{dataset['id']}/prepare/", host=ground.host["id"])
        campaign.follow(ground.client, prepared, ground.supervisor.check)
        copies = ground.client.get("datacopies/?page_size=100")["results"]
        copy = next(each for each in copies if each["dataset"] == f"speed-{name} r1")
        tables = {name: each for name, each in copy["relations"].items() if name in TABLES}
        rows = sum(max(0, table["rows"]) for table in tables.values())
        seconds = sum(each for _, each in copy["seconds"])
        megabytes = copy["size"] / 1e6
        print(f"create {name} {options}: {rows:,} rows, {megabytes:,.0f} MB in {seconds:.1f} s:", end=" ")
        print(f"{rows / seconds:,.0f} rows/s, {megabytes / seconds:.1f} MB/s", flush=True)


def _standbys(ground: Ground, checks: Checks) -> None:
    recipes.carry_out(ground, "tpcc-replicated")
    ended = ground.client.get("campaigns/?ordering=-created_at")["results"][0]
    runs = _runs(ground, ended)
    checks.check({run["outcome"] for run in runs} == {"ok"}, f"two standbys with a quorum: {len(runs)} runs ok")
    met = [all(_conditions(ground, run).values()) for run in runs]
    checks.check(all(met), f"two standbys with a quorum: conditions are met after {sum(met)} of {len(met)} runs")


def _load(**options: Any) -> dict[str, Any]:
    own = {"mode": "prepared", "clients": CLIENTS, "jobs": 2, **options}
    return {"name": "measure", "role": "measure", "kind": "tpcc", "options": own}


def _campaign(ground: Ground, name: str, steps: list[Any], factors: list[Any]) -> dict[str, Any]:
    workload = ground.client.post("workloads/", name=f"tpcc-{name}", steps=steps)
    dataset = ground.client.post("datasets/", name=f"tpcc-{name}", kind="tpcc", options={})
    return campaign.run(
        ground.client, ground.host, ground.supervisor.check, recipe=None, name=f"tpcc {name}", question="?",
        workload=workload["id"], dataset=dataset["id"], factors=factors, repetitions=1, seed=1,
        metric="nopm" if len(steps) == 1 else "measure.nopm",
    )  # fmt: skip


def _runs(ground: Ground, ended: dict[str, Any]) -> list[dict[str, Any]]:
    return list(ground.client.get(f"runs/?campaign={ended['id']}&page_size=100")["results"])


def _figures(ground: Ground, run: dict[str, Any]) -> dict[str, float]:
    rows = ground.client.get(f"measurements/?run={run['id']}&step=measure&page_size=500")["results"]
    return {row["name"]: row["value"] for row in rows}


def _conditions(ground: Ground, run: dict[str, Any]) -> dict[str, bool]:
    """Whether each condition that was checked after the run is met."""
    settings = ground.client.get(f"runs/{run['id']}/proof/")["settings"]
    subjects = [subject for setting in settings for subject in setting["subjects"]]
    conditions = [subject for subject in subjects if "consistency condition" in subject["name"]]
    return {condition["name"]: all(proof["ok"] for proof in condition["checks"]) for condition in conditions}
