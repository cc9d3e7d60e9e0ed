"""Two servers that do not know each other start runs on one host at once: one waits and gives the reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings

from agents.records.spool import read_log
from embedded.servers.postgres import MIGRATED, bin_dir
from tests.faults.counts.findings import Found
from tests.faults.counts.ledger import Ledger
from tests.servers import remote

CHECKOUT = Path(__file__).resolve().parents[2]
CLEAR = ("must wait", "is older than")


@contextmanager
def database(name: str) -> Iterator[str]:
    """The URL of a database of that name, for as long as this lasts."""
    known = settings.DATABASES["default"]
    to = {"host": known["HOST"], "port": known["PORT"], "user": known["USER"], "password": known["PASSWORD"]}
    with psycopg.connect(**to, dbname="postgres", autocommit=True) as connection:
        connection.execute(f'create database "{name}" template "{MIGRATED}"')
        try:
            yield f"{os.environ['PROVING_DATABASE_URL'].rpartition('/')[0]}/{name}"
        finally:
            connection.execute(f'drop database "{name}" with (force)')


class Server:
    """One contender: a process, spoken to in lines."""

    def __init__(self, config: dict[str, Any]) -> None:
        argv = [sys.executable, "-m", "tests.faults.injection.contender", json.dumps(config)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(argv, cwd=CHECKOUT, text=True, bufsize=1, **pipes)  # type: ignore[call-overload]

    def say(self, line: str) -> None:
        self._process.stdin.write(f"{line}\n")

    def hear(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def end(self) -> None:
        self._process.stdin.close()
        self._process.wait(60)


@contextmanager
def two_servers(server: remote.Server, root: Path) -> Iterator[list[Server]]:
    """Both registered the same host, each with keys and a database of its own."""
    place = {"spool_dir": str(server.home / "contended"), "data_dir": str(server.home / "clusters")}
    reached = {"address": "127.0.0.1", "port": server.port, "user": server.user, "python": sys.executable}
    mark = server.home / "mark"
    mark.touch()
    mark.chmod(0o666)  # the load is another account
    config = {"host": {**place, **reached, "pg_bin_dirs": [str(bin_dir())]}, "mark": str(mark)}
    config |= {"records": str(root), "authorized_keys": str(server.authorized_keys)}
    with ExitStack() as stack:
        servers = []
        for name in ("contended_a", "contended_b"):
            servers.append(Server({**config, "name": name, "database": stack.enter_context(database(name))}))
            stack.callback(servers[-1].end)
        assert {each.hear()["ready"] for each in servers} == {"contended_a", "contended_b"}
        yield servers


def contend(servers: list[Server], rounds: int) -> list[list[dict[str, Any]]]:
    """The answers of both servers to each round."""
    outcomes = []
    for _ in range(rounds):
        for server in servers:
            server.say("draft")
        assert all("drafted" in server.hear() for server in servers)
        moment = time.time() + 0.1
        for server in servers:
            server.say(str(moment))
        outcomes.append([server.hear() for server in servers])
    return outcomes


def intervals(records: Path) -> list[tuple[float, float]]:
    """By the host's own clock: from the moment at which it took a run until it had sealed it, one for each run."""
    logs = [read_log(path)[0] for path in records.glob("*.jsonl")]
    assert all([record["state"] for record in log][:: len(log) - 1] == ["RECEIVED", "SEALED"] for log in logs)
    return sorted((log[0]["mono"], log[-1]["mono"]) for log in logs)


@pytest.mark.parametrize("times", [8, pytest.param(500, marks=pytest.mark.slow)])
def test_runs_of_two_servers_never_overlap_on_one_host(
    server: remote.Server, tmp_path: Path, ledger: Ledger, times: int
) -> None:
    with two_servers(server, tmp_path) as servers:
        outcomes = contend(servers, times)

    runs, refused = (
        [run for both in outcomes for run in both],
        [any(run["refused"] for run in both) for both in outcomes],
    )
    taken = intervals(tmp_path)
    sys.stdout.write(f"{times} contended starts, in {sum(refused)} one was refused; the host had {len(taken)} runs\n")
    assert [run for run in runs if (run["outcome"], run["ends"]) != ("ok", 1)] == []
    assert len(taken) == len({run["run"] for run in runs}) == 2 * times
    overlapping = sum(later < ended for (_, ended), (later, _) in pairwise(taken))
    ledger.count(29, times, Found(runs=len(runs), overlapping=overlapping))
    assert all(any(reason in why for reason in CLEAR) for run in runs for why in run["refused"]), runs
    assert sum(refused) > times / 10, "they did not meet"
