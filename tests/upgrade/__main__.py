"""python -m tests.upgrade --before COMMIT|DIRECTORY: upgrade the server from that version to this checkout, while
campaigns run and users browse and write. It counts failed requests, tracebacks, errors of PostgreSQL, lost and doubled
runs, and exits with 1 if there are any. As root, on this machine, with real hosts over SSH."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embedded import paths
from embedded.demo import campaign as demo
from embedded.demo.client import Client
from embedded.supervisor import Supervisor
from tests.servers import remote
from tests.session import needs
from tests.upgrade import report
from tests.upgrade.locks import Watch
from tests.upgrade.users import Answers, Front, Reader, Writer
from tests.upgrade.version import PARTS, Version

ADMIN = "grace"
PGBENCH = {"builtin": "select-only", "scale": 1, "clients": 2, "jobs": 1, "time_s": 4, "rate": 50, "progress_s": 1}
SERVER_CPU = [{"label": cpu, "set": {"settings.cpu_affinity.server": cpu}} for cpu in ("0", "1")]
PATIENCE_S = 900.0
MANY = 100  # requests before the upgrade, so that all kinds of writes and many pages are among them
# The rows of its tests: pages have something to show, and links to follow. Their hosts have no address.
FILL = "from tests{package} import populate; populate.team()"


@dataclass
class Course:
    """An upgrade under way: both versions, the users, and the campaigns."""

    supervisor: Supervisor
    before: Version
    after: Version
    front: Front
    client: Client
    readers: int
    runs: int
    campaigns: list[str] = field(default_factory=list)
    users: list[Reader | Writer] = field(default_factory=list)
    writer: Writer = field(init=False)
    migrate_s: float = 0.0
    runs_after: int = 0  # that ended after the web server was replaced

    # Campaigns and users

    def start_campaigns(self, hosts: dict[str, dict[str, Any]]) -> None:
        """One on a single host, and one with the load on another host than the server."""
        workload = self.client.post("workloads/", name="upgraded", kind="pgbench", options=PGBENCH)
        for name, host, runs, more in (
            ("alone", "one", self.runs, {}),
            ("two hosts", "server", self.runs, {"roles": {"client": hosts["client"]["id"]}}),
        ):
            planned = self.client.post(
                "campaigns/", name=name, question="is a run lost?", host=hosts[host]["id"], workload=workload["id"],
                factors=[{"name": "cpu", "levels": SERVER_CPU}], repetitions=runs // 2, **more,
            )  # fmt: skip
            self.client.post(f"campaigns/{planned['id']}/start/")
            self.campaigns.append(planned["id"])

    def start_users(self, account: tuple[str, str], host: dict[str, Any], decided: str) -> None:
        self.users = [Reader(self.front, number, account) for number in range(self.readers)]
        self.writer = Writer(self.front, self.client.token, account, host, decided)
        self.users.append(self.writer)
        for user in self.users:
            user.start()

    def done(self) -> int:
        """Runs of both campaigns that ended."""
        return sum(self.client.get(f"campaigns/{each}/")["progress"]["done"] for each in self.campaigns)

    def planned(self) -> list[int]:
        return [self.client.get(f"campaigns/{each}/")["progress"]["total"] for each in self.campaigns]

    def more_runs(self, number: int) -> None:
        """Wait for the end of so many further runs, at most for all."""
        goal = self.done() + number
        self.wait(lambda: self.done() >= goal or self.ended())

    def ended(self) -> bool:
        return all(self.client.get(f"campaigns/{each}/")["results_ready"] for each in self.campaigns)

    def wait(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s\n{self.supervisor.describe_services()}"
            self.supervisor.check()
            assert all(user.is_alive() for user in self.users), "a user has ended"
            time.sleep(0.5)

    # The phases

    def upgrade(self) -> None:
        """As deploy/upgrade does, but part by part, so that the versions run side by side for longer."""
        with self.front.during("before"):
            self.more_runs(2)
            self.wait(lambda: self.writer.rounds > 1 and self.front.answers["before"].count > MANY)
        with self.front.during("migrate"):
            began = time.monotonic()
            self.after.manage(*self.after.commands.MIGRATE[1:])
            self.migrate_s = time.monotonic() - began
        with self.front.during("old on new tables, no new rights"):
            self.more_runs(2)
        self.after.prepare()
        with self.front.during("old on new tables"):
            self.more_runs(2)
        for part in ("dispatcher", "worker", "beat"):
            with self.front.during(f"replace {part}"):
                self.before.end(part)
                self.after.begin(part)
                self.more_runs(2)
        with self.front.during("replace web"):
            self.after.begin("web")
            self.client.base_url, self.front.port = self.after.base_url, self.after.port
            time.sleep(2)  # what the old one is answering still
            self.before.end("web")
        with self.front.during("after"):
            self.runs_after = sum(self.planned()) - self.done()
            rounds = self.writer.rounds
            self.wait(lambda: self.ended() and self.writer.rounds > rounds + 1)
        for user in self.users:
            user.stopped.set()
        for user in self.users:
            user.join()


@contextmanager
def checkout(before: str) -> Iterator[Path]:
    """The directory itself, or a temporary work tree of the commit."""
    if Path(before).is_dir():
        yield Path(before).resolve()
        return
    with remote.short_dir() as folder:
        tree = folder / "before"
        git = ["git", "-C", str(paths.CHECKOUT), "worktree"]
        subprocess.run([*git, "add", "--detach", str(tree), before], check=True, capture_output=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True, capture_output=True)


def register(client: Client, name: str, server: remote.Server) -> dict[str, Any]:
    """A checked host of this name behind an SSH server."""
    identity = client.post("identities/", name=f"key-{name}")
    server.authorize(identity["public_key"])
    host = client.post(
        "hosts/", name=name, address="127.0.0.1", port=server.port, user=server.user, identity=identity["id"],
        python=str(server.home / "python"), spool_dir=str(server.home / "spool"),
        data_dir=str(server.home / "clusters"), pg_bin_dirs=[str(demo._bin_dir())],
    )  # fmt: skip
    offered = client.post(f"hosts/{host['id']}/fetch-host-key/")
    client.post(f"hosts/{host['id']}/approve-host-key/", fingerprint=offered["fingerprint"])
    return demo.wait_for_check(client, host)


def course(options: argparse.Namespace, supervisor: Supervisor, tree: Path, servers: dict[str, Any]) -> Course:
    """The version before, filled, with campaigns that run."""
    before, after = (
        Version(supervisor, name, where, port)
        for name, where, port in (("before", tree, 8100), ("after", paths.CHECKOUT, 8200))
    )
    before.start_stores()
    before.manage(*before.commands.MIGRATE[1:])
    before.prepare()
    password = before.manage("create_admin", ADMIN).split()[-1]
    token = before.manage("create_admin", ADMIN, "--token", "2").split()[-1]
    package = ".rows" if (tree / "tests" / "rows").is_dir() else ""
    before.manage("shell", "--no-imports", "-c", FILL.format(package=package))
    before.begin(*PARTS)
    front = Front(before.port)
    started = Course(supervisor, before, after, front, Client(before.base_url, token), options.users, options.runs)
    decided = started.client.get("campaigns/?state=finished")["results"][0]["id"]
    hosts = {name: register(started.client, name, server) for name, server in servers.items()}
    started.start_campaigns(hosts)
    front.phase = "before"
    front.answers["before"] = Answers()
    started.start_users((ADMIN, password), hosts["one"], decided)
    return started


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.upgrade", description=__doc__)
    parser.add_argument("--before", required=True, help="a commit, or the directory of a checkout")
    parser.add_argument("--users", type=int, default=6, help="who browse; one more writes")
    parser.add_argument("--runs", type=int, default=40, help="of each campaign: one on a single host, one on two")
    parser.add_argument("--logs", type=Path, help="a directory that gets the logs of all processes")
    options = parser.parse_args(argv)
    needs.demand_root(parser)
    os.environ.update(PROVING_API_PER_TOKEN_MIN="0", PROVING_API_PER_USER_MIN="0")
    with (
        checkout(options.before) as tree,
        remote.several(["one", "server", "client"]) as servers,
        remote.short_dir() as state,
        Supervisor(state) as supervisor,
    ):
        try:
            running = course(options, supervisor, tree, servers)
            with Watch(running.before.postgres.url) as watch:
                running.upgrade()
            times = report.Times(running.migrate_s, running.runs_after)
            audited = json.loads(
                running.after.manage(
                    "shell", "--no-imports", "-c", report.AUDIT.format(running.campaigns)
                ).splitlines()[-1]
            )
        finally:
            if options.logs:
                subprocess.run(["cp", "-r", str(state / "log"), str(options.logs)], check=True)
        failures = report.write(running.front, watch.waits, state / "log", audited, times)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
