"""Every kind of workload runs here, and each column that it declares is on the chart, live and afterwards."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from agents.workloads import WORKLOADS
from apps.accounts.models import User
from apps.campaigns.models import Run
from apps.hosts.models import Host
from apps.results.models import Block
from tests.servers import campaigns

pytestmark = pytest.mark.django_db(transaction=True)

OLTP: dict[str, Any] = {"tables": 1, "table_size": 500}
BIG = "create table if not exists big as select repeat('x', 400) from generate_series(1, 20000)"

ECHO: dict[str, Any] = {"program": "echo", "arguments": "42", "patterns": "(?P<answer>[0-9]+)"}
ECHO |= {"figures": {"answer": {"unit": "points", "better": "higher"}}}

ALONE = {"name": "host", "levels": [{"label": "as it is", "set": {}}]}


def step(kind: str, name: str = "measure", role: str = "measure", **options: Any) -> dict[str, Any]:
    return {"name": name, "role": role, "kind": kind, "options": options}


def case(kind: str, metric: str, *steps: dict[str, Any], needs: tuple[str, ...] = (), lacks: str = "none") -> Any:
    """A parameter; `lacks`: how the columns begin that cannot be had here."""
    declared = {f"{source} {name}" for source, named in WORKLOADS[kind].samples.items() for name in named}
    columns = {column for column in declared if lacks not in column}
    marks = [pytest.mark.needs(*needs), *([pytest.mark.fast] if kind == "sysbench" else [])]
    return pytest.param(list(steps), metric, columns, id=kind, marks=marks)


CASES = [
    case("pgbench", "tps", step("pgbench", **campaigns.PGBENCH | {"log": "reduced", "time_s": 3})),
    # Only block devices are trimmed.
    case("fio", "iops", step("fio", rw="randrw", size="4m", runtime_s=3), needs=("fio",), lacks="trim_"),
    case(
        "sysbench",
        "tps",
        step("sysbench", "make", "prepare", **OLTP, action="prepare"),
        step("sysbench", **OLTP, test="oltp_read_write", threads=2, time_s=3),
        needs=("sysbench",),
    ),
    case(
        "sql",
        "measure.execution_mean",
        step("sql", "make", "prepare", statements=BIG),
        step("sql", query="select count(*) from big", times=3),
        step("sql", "timed", query="select pg_sleep(0.2)", times=3, explain=False),
    ),
    case("tpcc", "nopm", step("tpcc", clients=2, time_s=3)),
    case("command", "answer", step("command", **ECHO)),
    case("wait", "echo.answer", step("command", "echo", **ECHO), step("wait", "measure", "cool", seconds=1)),
    case("pg_test_fsync", "one_write fdatasync us", step("pg_test_fsync", secs_per_test=1), needs=("postgresql-15",)),
    case("pg_test_timing", "per_loop", step("pg_test_timing", duration_s=1), needs=("postgresql-15",)),
]


def test_every_kind_of_workload_is_run_here() -> None:
    assert {each.id for each in CASES} == set(WORKLOADS)


def drawn(client: Client, run: Run, kind: str) -> set[str]:
    """The columns of this workload with at least one number, in all panels that the run's page offers."""
    page = client.get(reverse("run_detail", args=[run.pk]))
    query = {"panel": [panel.key for panel in page.context["panels"]]}
    traces = client.get(reverse("run_figure", args=[run.pk]), query).json()["data"]
    sources = WORKLOADS[kind].samples
    lines = {trace["meta"]: trace["y"] for trace in traces if trace["type"] == "scatter" and "meta" in trace}
    return {name for name, y in lines.items() if name.split()[0] in sources and any(each is not None for each in y)}


class Watcher:
    """Requests the chart during a run, like its page, in a thread, because the test itself follows the run."""

    def __init__(self, client: Client, run: Run, kind: str) -> None:
        self._client, self._run, self._kind = client, run, kind
        self.seen, self._over = set[str](), threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        try:
            while not self._over.wait(0.3):
                self._run.refresh_from_db()
                if self._run.state == Run.State.RUNNING:
                    self.seen |= drawn(self._client, self._run, self._kind)
        finally:
            connection.close()


@pytest.mark.parametrize(("steps", "metric", "columns"), CASES)
def test_the_columns_of_a_workload_are_drawn_live_and_afterwards(
    host: Host, admin: User, client: Client, steps: list[dict[str, Any]], metric: str, columns: set[str]
) -> None:
    client.force_login(admin)
    kind = steps[-1]["kind"]
    # What comes at the end of a step is seen live while the next one runs.
    steps = [*steps, step("wait", "settle", "cool", seconds=3)]
    campaign = campaigns.start(host, admin, ALONE, steps=steps, metric=metric)

    with Watcher(client, campaign.runs.get(), kind) as live:
        campaigns.finish(campaign)

    run = campaign.runs.get()
    assert (run.outcome, run.error) == ("ok", None)
    assert drawn(client, run, kind) == columns
    assert live.seen == {column for column in columns if kind != "fio" or not column.endswith("_lat")}
    assert not Block.objects.filter(group="undeclared").exists()
