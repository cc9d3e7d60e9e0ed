"""make bench: the cost of settings, orchestration, observation and long series, measured side by side."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedded.demo import campaign
from embedded.demo.client import Client
from embedded.servers.loopback import Loopback
from embedded.servers.postgres import bin_dir
from embedded.stack import Stack
from embedded.supervisor import Supervisor
from tests.benchmarks import launcher, observer, phases, settings
from tests.servers import remote

BY_HAND = Path(__file__).with_name("by_hand.sh")
OPTIONS = {
    "builtin": "select-only",
    "scale": 10,
    "mode": "prepared",
    "clients": 8,
    "jobs": 2,
    "report_per_command": True,
    "progress_s": 1,
}


@dataclass
class Bench:
    """The running stack, this machine as its host, and how long each run measures."""

    stack: Stack
    client: Client
    host: dict[str, Any]
    seconds: int
    last: str = ""  # the campaign that was measured last

    def by_hand(self, *cpulists: str) -> tuple[float, list[float]]:
        """(wall seconds, TPS per run) of the shell loop on the same cluster and data."""
        data = next(path for path in Path(self.host["data_dir"]).glob("*/pgdata/PG_VERSION")).parent
        database = self.client.get(f"datacopies/?host={self.host['id']}")["results"][0]["database"]
        with remote.short_dir() as socket:
            argv = [str(BY_HAND), str(bin_dir()), str(data), str(socket), database, str(self.seconds), *cpulists]
            begun = time.monotonic()
            done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=3600)
            wall = time.monotonic() - begun
        measured = [float(line.split()[1]) for line in done.stdout.splitlines()]
        assert len(measured) == len(cpulists), done.stderr  # the loop continues when pgbench fails
        return wall, measured

    def campaign(self, *cpulists: str, repetitions: int = 1) -> tuple[float, list[float]]:
        """(wall seconds, TPS per run) of a campaign with these levels."""
        options = OPTIONS | {"time_s": self.seconds}
        workload = self.client.post("workloads/", name="bench", kind="pgbench", options=options)
        levels = [
            {"label": f"{i}: {cpus}", "set": {"settings.cpu_affinity.server": cpus}} for i, cpus in enumerate(cpulists)
        ]
        created = self.client.post(
            "campaigns/",
            name="bench",
            question="what does it cost?",
            host=self.host["id"],
            workload=workload["id"],
            factors=[{"name": "server cpus", "levels": levels}],
            repetitions=repetitions,
            order="as_given",
        )
        begun = time.monotonic()
        self.client.post(f"campaigns/{created['id']}/start/")
        time.sleep(len(cpulists) * repetitions * self.seconds)  # requests would disturb the measurement
        self._wait(created["id"])
        ended = self.client.get(f"campaigns/{created['id']}/")
        assert ended["progress"]["failed"] == 0, ended
        rows = self.client.get(f"measurements/?campaign={created['id']}&name=tps&page_size=200")["results"]
        self.last = str(created["id"])
        return self._wall(created["id"]) or time.monotonic() - begun, [row["value"] for row in rows]

    def _wait(self, campaign_id: str) -> None:
        while not self.client.get(f"campaigns/{campaign_id}/")["results_ready"]:
            time.sleep(0.5)
            self.stack.supervisor.check()

    def _wall(self, campaign_id: str) -> float:
        """From the click on start to the last run's end, as the database has it."""
        from datetime import datetime

        row = self.client.get(f"campaigns/{campaign_id}/")
        begun, ended = (datetime.fromisoformat(row[name]) for name in ("started_at", "ended_at"))
        return (ended - begun).total_seconds()


def overhead(bench: Bench, rounds: int) -> None:
    """Wall time of 4 combinations x 3 repetitions with the product and with a shell loop, in alternating order."""
    cells = ["0", "0-1", "0", "0-1"]
    ours, hand = [], []
    for number in range(rounds):
        for mine in (True, False) if number % 2 == 0 else (False, True):
            if mine:
                ours.append(bench.campaign(*cells, repetitions=3)[0])
            else:
                hand.append(bench.by_hand(*cells * 3)[0])
        ratio = ours[-1] / hand[-1]
        print(
            f"  round {number + 1}: campaign {ours[-1]:.2f} s, by hand {hand[-1]:.2f} s, ratio {ratio:.3f}", flush=True
        )
    total = sum(ours) / sum(hand)
    print(f"orchestration overhead, 12 runs of {bench.seconds} s: ratio {total:.3f} (aim <= 1.05)")
    print(phases.table(phases.phases(bench.client, bench.last)), flush=True)


def long_series() -> None:
    """On a database of its own, which the embedded servers lend to one command."""
    subprocess.run(
        [sys.executable, "-m", "embedded", "run", "--", sys.executable, "-m", "tests.benchmarks.series"], check=False
    )


def long_history() -> None:
    """Pages when there are many runs, on a stack of their own."""
    subprocess.run([sys.executable, "-m", "tests.benchmarks.pages"], check=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--seconds", type=int, default=5, help="of each pgbench run (5)")
    parser.add_argument("--rounds", type=int, default=4, help="of the overhead benchmark (4)")
    parser.add_argument("--quads", type=int, default=10, help="on off off on of the observer benchmark (10)")
    parser.add_argument("--pairs", type=int, default=30, help="of the settings and launcher benchmarks (30)")
    parser.add_argument("--overhead-only", action="store_true", help="nothing but the overhead benchmark")
    options = parser.parse_args()
    if os.geteuid() == 0 and not options.overhead_only:
        settings.measure(options.pairs)
        launcher.measure(options.pairs)
    with remote.short_dir() as state, Supervisor(state) as supervisor:
        stack = Stack(supervisor)
        stack.start()
        token = stack.manage("create_admin", "bench", "--token", "1").split()[-1]
        client = Client(stack.base_url, token)
        bench = Bench(stack, client, campaign.register(client, Loopback(state)), options.seconds)
        bench.campaign("0-1")  # makes the cluster and its data, for both sides
        overhead(bench, options.rounds)
    if options.overhead_only:
        return 0
    observer.measure(observer.parser().parse_args(["--quads", str(options.quads)]))
    long_series()
    long_history()
    return 0


if __name__ == "__main__":
    sys.exit(main())
