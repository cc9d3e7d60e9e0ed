"""Data sets in a private cluster: created once, resumed by whole steps, copied for each run, and removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.datasets import DATASETS
from tests.agents.driver import Connection, of
from tests.servers.remote import short_dir

Spec = dict[str, Any]
READS = {"builtin": "select-only"}
WRITES = {"builtin": "simple-update"}


class Cluster:
    """Runs in a cluster of the test's own, one after the other."""

    def __init__(self, agent: Connection, bin_dir: str, data_dir: Path) -> None:
        self.agent, self.bin_dir, self.data_dir = agent, bin_dir, data_dir

    def spec(self, dataset: dict[str, Any], *steps: dict[str, Any]) -> Spec:
        loads = [{"clients": 2, "transactions": 50, "progress_s": 0, **options} for options in steps]
        return {
            "version": 1,
            "target": {"kind": "private", "bin_dir": self.bin_dir, "data_dir": str(self.data_dir), "os_user": ""},
            "settings": {},
            "dataset": dataset,
            "steps": [{"name": f"s{i}", "kind": "pgbench", "options": load} for i, load in enumerate(loads)],
            "collect": {"interval_s": 1, "sources": []},
        }

    def run(self, dataset: dict[str, Any], *steps: dict[str, Any], outcome: str = "ok") -> list[dict[str, Any]]:
        events = self.agent.events(self.agent.submit(self.spec(dataset, *steps)), limit_s=180)
        (ended,) = of(events, "outcome")
        assert ended["outcome"] == outcome, ended
        return events

    @property
    def shelf(self) -> dict[str, Any]:
        (path,) = self.data_dir.glob("*/datasets.json")
        datasets: dict[str, Any] = json.loads(path.read_text())["datasets"]
        return datasets

    @property
    def states(self) -> list[str]:
        return [entry["state"] for entry in self.shelf.values()]


@pytest.fixture
def cluster(agent: Connection, bin_dir: str) -> Iterator[Cluster]:
    with short_dir() as data_dir:
        yield Cluster(agent, bin_dir, data_dir)


def pgbench(**options: Any) -> dict[str, Any]:
    return {"name": "small", "kind": "pgbench", "options": options}


def made(events: list[dict[str, Any]]) -> list[str]:
    """The steps of a making that a run did."""
    return [data["argv"][data["argv"].index("-I") + 1] for data in of(events, "command") if "-I" in data["argv"]]


def last(events: list[dict[str, Any]]) -> dict[str, Any]:
    return of(events, "dataset")[-1]


@pytest.mark.fast
def test_data_are_created_once_step_by_step_and_shared_by_runs_that_only_read(cluster: Cluster) -> None:
    first = cluster.run(pgbench(scale=2), READS)
    again = cluster.run(pgbench(scale=2, fillfactor=100), READS)

    assert made(first) == ["d", "t", "g", "v", "p"] and made(again) == []
    data_set = last(again)
    assert (data_set["state"], data_set["used"]["means"], data_set["used"]["wrote"]) == ("pristine", "pristine", False)
    assert [name for name, _ in data_set["seconds"]] == ["d", "t", "g", "v", "p"] and data_set["size"] > 20_000_000
    assert data_set["relations"]["pgbench_accounts"]["rows"] == 200_000


def test_a_run_without_steps_creates_the_data_and_reports_progress(cluster: Cluster) -> None:
    events = cluster.run(pgbench(scale=2))

    progress = [data["done"] for data in of(events, "progress", step="dataset")]
    assert progress == sorted(progress) and progress[-1] == 1.0
    assert last(events)["used"]["means"] == "prepared" and cluster.states == ["pristine"]


def test_a_run_that_writes_has_a_copy_that_goes_with_it(cluster: Cluster) -> None:
    cluster.run(pgbench(scale=1))

    events = cluster.run(pgbench(scale=1), WRITES, READS)

    used = last(events)["used"]
    assert (used["means"], used["wrote"]) == ("copy", True) and "faster than creating the data" in used["reason"]
    assert made(cluster.run(pgbench(scale=1), READS)) == []
    environments = {data["env"]["PGDATABASE"] for data in of(events, "command", purpose="measure")}
    assert environments == {f"ds_{next(iter(cluster.shelf))[:12]}_work"}


def test_data_with_the_reset_rebuild_are_dirty_until_they_are_created_again(cluster: Cluster) -> None:
    dataset = {**pgbench(scale=1), "reset": "reinit"}

    cluster.run(dataset, WRITES)

    assert cluster.states == ["dirty"]
    assert made(cluster.run(dataset, READS)) == ["d", "t", "g", "v", "p"]


def test_data_without_reset_remain_as_runs_leave_them(cluster: Cluster) -> None:
    dataset = {**pgbench(scale=1), "reset": "keep"}
    cluster.run(dataset, WRITES)

    assert made(cluster.run(dataset, WRITES)) == [] and cluster.states == ["dirty"]
    assert made(cluster.run(pgbench(scale=1), READS)) != [] and cluster.states == ["pristine"]


def test_a_script_that_writes_unexpectedly_is_detected(cluster: Cluster) -> None:
    """An operator calls the function, so the script's text does not show it."""
    create = (
        "create table t (i int); insert into t values (1);"
        "create function hit(int) returns int language sql as 'update t set i = i + 1 returning i';"
        "create operator @@@ (rightarg = int, function = hit)"
    )
    dataset = {"kind": "sql", "options": {"steps": [{"name": "all", "sql": create}]}}

    events = cluster.run(dataset, {"script": "select @@@ 1;", "clients": 1})

    assert last(events)["used"]["means"] == "pristine" and last(events)["state"] == "dirty"
    assert "no step of this run is known to write" in of(events, "log", level="warning")[-1]["message"]
    assert of(cluster.run(dataset, {"script": "select 1;"}), "command", purpose="dataset all")


def test_several_data_sets_lie_side_by_side_until_they_are_removed(cluster: Cluster) -> None:
    cluster.run(pgbench(scale=1), READS)
    cluster.run(pgbench(scale=1, fillfactor=50), READS)
    assert cluster.states == ["pristine", "pristine"] and len({e["database"] for e in cluster.shelf.values()}) == 2

    events = cluster.run({**pgbench(scale=1), "ensure": "absent"})

    assert last(events)["state"] == "absent" and last(events)["used"]["means"] == "removed"
    assert [entry["options"] for entry in cluster.shelf.values()] == [{"scale": 1, "fillfactor": 50}]


def test_sql_makes_data_in_transactions_and_outside_of_them(cluster: Cluster) -> None:
    steps = [
        {"name": "create", "sql": "create table t (i int); create index on t (i);"},
        {"name": "load", "sql": "insert into t select generate_series(1, 1000) -- rows"},
        {"name": "vacuum", "sql": "vacuum analyze t", "transaction": False},
    ]

    events = cluster.run({"kind": "sql", "options": {"steps": steps}}, {"script": "select count(*) from t;"})

    assert last(events)["relations"]["t"]["rows"] == 1000 and last(events)["used"]["means"] == "pristine"


def test_partitions_unlogged_tables_and_keys_are_as_requested(cluster: Cluster) -> None:
    options = {"scale": 1, "partitions": 3, "partition_method": "hash", "fillfactor": 90, "foreign_keys": True}

    events = cluster.run(pgbench(**options, init_steps="tGp", unlogged=True, no_vacuum=True), READS)

    assert made(events) == ["t", "G", "p", "f"]
    (create,) = of(events, "command", purpose="dataset t")
    assert {"--partitions=3", "--partition-method=hash", "--unlogged-tables"} <= set(create["argv"])
    assert {"pgbench_accounts_1", "pgbench_accounts_3"} <= last(events)["relations"].keys()


def test_a_missing_tablespace_is_reported_with_the_existing_ones(cluster: Cluster) -> None:
    events = cluster.run(pgbench(tablespace="fast"), outcome="failed")

    error = of(events, "outcome")[0]["error"]
    assert error["field"] == "dataset.tablespace" and "pg_default, pg_global" in error["message"]


def test_data_that_do_not_fit_are_refused_with_needed_and_free_space(cluster: Cluster) -> None:
    events = cluster.run(pgbench(scale=1_000_000), outcome="failed")

    error = of(events, "outcome")[0]["error"]
    assert "needs about 15750.0 GB, but" in error["message"] and "GB free" in error["message"]
    assert error["blame"] == "host" and error["need_bytes"] > error["free_bytes"]


@pytest.mark.parametrize(
    ("options", "same"),
    [({"scale": 1}, True), ({"fillfactor": 100, "init_steps": "dtgvp"}, True), ({"scale": 2}, False)],
)
def test_a_fingerprint_covers_every_option_that_changes_the_data(options: dict[str, Any], same: bool) -> None:
    data = DATASETS["pgbench"]

    assert (data.fingerprint(options, 18) == data.fingerprint({}, 18)) is same
    assert data.fingerprint(options, 18) != data.fingerprint(options, 17)


def test_a_cluster_without_fsync_is_not_reused_after_a_power_cut(cluster: Cluster) -> None:
    careless = {**cluster.spec(pgbench(), READS), "settings": {"postgresql": {"fsync": "off"}}}
    cluster.agent.events(cluster.agent.submit(careless))
    (conf,) = cluster.data_dir.glob("*/pgdata/proving_ground.conf")
    control = conf.parent / "global/pg_control"

    conf.write_text(yesterday(conf.read_text()))
    assert made(cluster.run(pgbench(), READS)) == []  # it was shut down before

    conf.write_text(yesterday(conf.read_text()) + "fsync = 'off'\n")
    control.write_bytes(in_production(control.read_bytes()))
    assert made(cluster.run(pgbench(), READS)) == ["d", "t", "g", "v", "p"]


def yesterday(conf: str) -> str:
    return "# written in boot of yesterday\n" + conf.split("\n", 1)[1]


def in_production(control: bytes) -> bytes:
    """pg_control of a server that runs: its state follows system_identifier, pg_control_version, catalog_version_no."""
    return control[:16] + (6).to_bytes(4, "little") + control[20:]
