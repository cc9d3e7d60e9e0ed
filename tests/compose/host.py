"""A container with sshd and PostgreSQL as a host of the stack, and campaigns on it, all through the REST API."""

from __future__ import annotations

import urllib.request
from dataclasses import dataclass
from typing import Any

from tests.compose.images import HOST as IMAGE
from tests.compose.stack import PROJECT, Stack, wait

NAME = "database-host"
ROOM = "/var/lib/proving-ground"
KEYS = "/home/proving/.ssh/authorized_keys"
AUTHORIZE = f"cat >{KEYS} && chown proving: {KEYS} && chmod 600 {KEYS}"
PGBENCH = {"builtin": "select-only", "scale": 1, "clients": 2, "jobs": 1, "progress_s": 1}
LEVELS = [{"label": "any cpu", "set": {}}, {"label": "cpu 0", "set": {"settings.cpu_affinity.server": "0"}}]
CHECK_S, CAMPAIGN_S = 120.0, 300.0


@dataclass
class Host:
    """The container as the server knows it."""

    stack: Stack
    id: int

    @classmethod
    def register(cls, stack: Stack) -> Host:
        """Start the container and register it: key, address, host key compared and approved, checked."""
        network = f"{PROJECT}_default"
        stack.engine.docker("run", "--detach", "--name", NAME, "--hostname", NAME, "--network", network, IMAGE)
        api = stack.client
        identity = api.post("identities/", name="compose")
        stack.engine.docker("exec", "-i", NAME, "sh", "-c", AUTHORIZE, stdin=f"{identity['public_key']}\n")
        added = api.post(
            "hosts/",
            name=NAME,
            address=NAME,
            user="proving",
            identity=identity["id"],
            spool_dir=f"{ROOM}/spool",
            data_dir=f"{ROOM}/clusters",
        )
        host = cls(stack, added["id"])
        offered = api.post(f"hosts/{host.id}/fetch-host-key/")["fingerprint"]
        assert offered in host.shell("for file in /etc/ssh/ssh_host_*_key.pub; do ssh-keygen -lf $file; done")
        api.post(f"hosts/{host.id}/approve-host-key/", fingerprint=offered)
        api.post(f"hosts/{host.id}/check/")
        # A check stores the health first, and the facts a moment later.
        wait(lambda: host.read()["state"] == "ready" and bool(host.read()["facts"]), CHECK_S, host.read)
        return host

    def read(self) -> dict[str, Any]:
        return dict(self.stack.client.get(f"hosts/{self.id}/"))

    def shell(self, command: str) -> str:
        return self.stack.engine.docker("exec", NAME, "sh", "-c", command)

    def agents(self) -> set[str]:
        """The agents that were pushed to it, each named by the hash of its content."""
        return set(self.shell(f"ls {ROOM}/spool/agent").split())

    def join_network(self) -> None:
        self.stack.engine.docker("network", "connect", f"{PROJECT}_default", NAME)

    def leave_network(self) -> None:
        self.stack.engine.docker("network", "disconnect", f"{PROJECT}_default", NAME)


@dataclass
class Campaign:
    """A campaign of pgbench runs, started."""

    stack: Stack
    id: str
    planned: int

    @classmethod
    def start(cls, host: Host, repetitions: int = 2, seconds: int = 2) -> Campaign:
        """Start one with two levels, each repeated, of runs that measure for these seconds."""
        api = host.stack.client
        workload = api.post("workloads/", name="short", kind="pgbench", options=PGBENCH | {"time_s": seconds})
        created = api.post(
            "campaigns/",
            name="compose",
            question="Does it run in containers?",
            host=host.id,
            workload=workload["id"],
            factors=[{"name": "cpus", "levels": LEVELS}],
            repetitions=repetitions,
        )
        api.post(f"campaigns/{created['id']}/start/")
        return cls(host.stack, created["id"], planned=repetitions * len(LEVELS))

    def read(self) -> dict[str, Any]:
        return dict(self.stack.client.get(f"campaigns/{self.id}/"))

    def runs(self) -> list[dict[str, Any]]:
        return list(self.stack.client.get(f"runs/?campaign={self.id}")["results"])

    def results(self) -> dict[str, Any]:
        return dict(self.stack.client.get(f"campaigns/{self.id}/results/"))

    def export(self) -> bytes:
        """Everything that the server has of it, in one file."""
        address = f"{self.stack.url}/api/v1/campaigns/{self.id}/export/campaign-with-series.json/"
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {self.stack.client.token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return bytes(answer.read())

    def wait_for_runs(self, ended: int) -> None:
        """Return when so many runs have ended and another one runs."""
        wait(lambda: self._has(ended), CAMPAIGN_S, lambda: self.read()["progress"])

    def _has(self, ended: int) -> bool:
        progress = self.read()["progress"]
        return bool(progress["done"] >= ended and progress["running"])

    def wait_for_results(self) -> None:
        wait(lambda: bool(self.read()["results_ready"]), CAMPAIGN_S, lambda: (self.read()["progress"], self.runs()))

    def assert_each_run_once(self) -> None:
        """Every planned run ended well, once; nothing that its agent sealed is missing or twice in the database."""
        audited = self.stack.audit(self.id)
        expected = {"runs": self.planned, "lost": 0, "duplicated": 0, "overlapping": 0}
        assert audited == {"found": expected, "outcomes": {"ok": self.planned}, "cells": self.planned}
