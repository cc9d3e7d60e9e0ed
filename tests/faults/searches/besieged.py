"""A search on a running stack whose parts are killed at random moments."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from embedded.errors import StackError
from tests.faults.counts.findings import Found
from tests.faults.injection import siege
from tests.faults.injection.siege import DISPATCHER, WORKER, Siege
from tests.faults.searches.findings import SearchFindings

# 1 ms at 64 MB, and 4 ms more for each time that work_mem is halved or doubled.
PLANTED = """
select pg_sleep(0.001 + 0.004 * abs(ln(pg_size_bytes(current_setting('work_mem')) / (64 * 1024 * 1024.0)) / ln(2.0)));
"""
SPACE = ["work_mem 64kB to 1GB log", "random_page_cost 1 to 8"]
DEFAULT = {"settings.postgresql.work_mem": "4MB", "settings.postgresql.random_page_cost": "4"}
SIZES = {"candidates": 3, "blocks": 1, "finalists": 1, "confirmation_blocks": 3}
PATIENCE_S = 900.0
GAP_S = (2.0, 12.0)  # between two kills while runs execute
TURN_S = 6.0  # after the end of a round in which the next one is planned and started: the period of the beat, and more


@dataclass
class BesiegedSearch:
    """`killed`: service -> kills; `between_rounds`: those that hit while no campaign of the search was running."""

    siege: Siege
    key: str = ""
    killed: Counter[str] = field(default_factory=Counter)
    between_rounds: int = 0
    progress_at_kill: int = 0

    @property
    def services(self) -> dict[str, Callable[[], object]]:
        """Name -> what kills it with SIGKILL."""
        killers = {name: self._killer(name) for name in (DISPATCHER, WORKER, "web", "valkey")}
        return {**killers, "postgres": self.siege.kill_postgres}

    def _killer(self, service: str) -> Callable[[], object]:
        return lambda: self.siege.kill(service)

    def start(self, runs: int, **other: Any) -> None:
        """Create a search with a budget of `runs` runs. Its best value is known: see PLANTED."""
        client = self.siege.ground.client
        self.siege.ground.stack.manage("allow_commands", "ada")
        # Without a rate, because a search by tps needs a load whose tps can vary.
        load = {name: value for name, value in siege.PGBENCH.items() if name not in ("builtin", "rate")}
        options = load | {"script": PLANTED}
        workload = client.post("workloads/", name="planted", kind="pgbench", options=options)
        factor = {"name": "values", "levels": [{"label": "default", "set": DEFAULT}]}
        about = {"name": "planted", "question": "Which work_mem is best?", "host": self.siege.ground.host["id"]}
        campaign = client.post("campaigns/", workload=workload["id"], factors=[factor], **about)
        fields = {"campaign": campaign["id"], "name": "killed", "space": SPACE, "budget_runs": runs} | SIZES | other
        self.key = client.post("searches/", **fields)["id"]

    def read(self, path: str = "") -> Any:
        return self.siege.ground.client.get(f"searches/{self.key}/{path}")

    def rounds(self) -> list[dict[str, Any]]:
        return list(self.read("rounds/?limit=1000")["results"])

    @property
    def is_running(self) -> bool:
        return bool(self.read()["state"] == "running")

    @property
    def progress(self) -> int:
        """Grows with each round and each run of the search."""
        return len(self.rounds()) + int(self.read()["spent_runs"])

    @property
    def is_between_rounds(self) -> bool:
        """Whether the campaign of its newest round is not running: it has ended, or was not started yet."""
        known = self.rounds()
        return not known or self.siege.ground.client.get(f"campaigns/{known[-1]['campaign']}/")["state"] != "running"

    def kill(self, service: str) -> None:
        """Kill a service, half of the time right after the end of a round, else at any moment. Wait before until the
        search has made progress since the last kill, or has ended, and afterwards until the server replies again."""
        chance = self.siege.chance
        self.siege.wait(lambda: self.progress > self.progress_at_kill or not self.is_running, PATIENCE_S)
        if chance.random() < 0.5:
            self.siege.wait(lambda: self.is_between_rounds, PATIENCE_S)
            self._pass(chance.uniform(0, TURN_S))
        else:
            self._pass(chance.uniform(*GAP_S))
        try:
            self.between_rounds += self.is_between_rounds
        except StackError as error:
            if siege.refused(error):
                raise
        self.services[service]()
        self.killed[service] += 1
        self.siege.wait(self._is_answered, PATIENCE_S)

    def _is_answered(self) -> bool:
        self.progress_at_kill = self.progress
        return True

    def _pass(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self.siege.wait(lambda: time.monotonic() > deadline)

    def finish(self) -> None:
        self.siege.wait(lambda: not self.is_running, PATIENCE_S)

    def audit(self) -> SearchFindings:
        """By a process of the server's own."""
        command = f"from tests.faults.searches import audit; audit.main({self.key!r})"
        report = json.loads(self.siege.ground.stack.manage("shell", "--no-imports", "-c", command).splitlines()[-1])
        return SearchFindings(**{**report, "events": Found(**report["events"])})


def order(chance: Any, services: list[str], kills: int) -> list[str]:
    """Services in random order, each as often as the others."""
    chosen = (services * (kills // len(services) + 1))[:kills]
    chance.shuffle(chosen)
    return chosen
