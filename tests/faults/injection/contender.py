"""One of two servers that request the same host at the same moment, with its own database and connection.

test_contended.py starts it with a JSON object as its argument, and sends commands line by line: "draft" creates a
campaign of one run; a wall clock time starts it then, and drives it to its end. Responses are JSON lines.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import django


def main(config: dict[str, Any]) -> None:
    os.environ["PROVING_DATABASE_URL"] = config["database"]
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    server = Contender(config)
    _say({"ready": config["name"]})
    for line in sys.stdin:
        _say(server.draft() if line.strip() == "draft" else server.start(float(line)))


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


class Contender:
    """A server that retries at once instead of after seconds, and stores what the host recorded of each run."""

    def __init__(self, config: dict[str, Any]) -> None:
        from apps.accounts.models import Role, User
        from apps.campaigns.design.steps import single
        from apps.campaigns.execution import claims, dispatch, fetching
        from apps.campaigns.library import workloads

        self._config, self._dispatch, self._forget = config, dispatch, fetching.forget
        claims.BUSY_RETRY_S = 0.02
        fetching.forget = self._keep_and_forget
        self.ada = User.objects.create_user(
            "ada", password="correct horse battery", role=Role.ADMIN, may_run_commands=True
        )
        self.host = self._register()
        self.workload = workloads.save_workload("alone", single("command", self._options()), by=self.ada)

    def _register(self) -> Any:
        from apps.hosts import contact, services

        identity = services.create_identity("key", by=self.ada)
        with open(self._config["authorized_keys"], "a") as keys:
            keys.write(identity.public_key.strip() + "\n")
        host = services.add_host(by=self.ada, name="contended", identity=identity, **self._config["host"])
        offered = services.fetch_host_key(host, by=self.ada)
        services.approve_host_key(host, offered.fingerprint, by=self.ada)
        contact.check_host(host)
        return host

    def _options(self) -> dict[str, Any]:
        """A load that fails while another one of its kind runs: the kernel refuses it."""
        arguments = ["--nonblock", "--conflict-exit-code", "3", self._config["mark"], "sleep", "0.05"]
        figures = {"patterns": "(?P<naps>[0-9]+)", "figures": {"naps": {"unit": "naps", "better": "higher"}}}
        return {"program": "flock", "arguments": "\n".join(arguments), "limit_s": 60, **figures}

    def draft(self) -> dict[str, Any]:
        from apps.campaigns import services

        self.campaign = services.create_campaign(
            by=self.ada,
            host=self.host,
            name="contended",
            question="who is first?",
            workload=self.workload,
            factors=[{"name": "settings", "levels": [{"label": "as they are", "set": {}}]}],
            repetitions=1,
            metric="naps",
            sources=[],
        )
        return {"drafted": str(self.campaign.pk)}

    def start(self, moment: float) -> dict[str, Any]:
        """{"run", "outcome", "error", "ends": events of outcome, "refused": [why it had to wait]}."""
        from apps.campaigns import services
        from apps.campaigns.models import Run

        time.sleep(max(0.0, moment - time.time()))
        services.start_campaign(self.campaign, by=self.ada)
        run, refused = self.campaign.runs.get(), set()
        deadline = time.monotonic() + 60.0
        while run.state != Run.State.ENDED:
            assert time.monotonic() < deadline, (run.state, run.error)
            self._dispatch.tick(run)
            run.refresh_from_db()
            refused |= {run.error["message"]} if run.error and run.state != Run.State.ENDED else set()
        ends = run.events.filter(kind="outcome").count()
        ended = {"run": str(run.pk), "outcome": run.outcome, "error": run.error, "epoch": run.epoch}
        return {**ended, "ends": ends, "refused": sorted(refused)}

    def _keep_and_forget(self, link: Any, run_id: str, sealed: bytes) -> None:
        record = Path(self._config["host"]["spool_dir"]) / "jobs" / run_id / "state.jsonl"
        shutil.copy(record, Path(self._config["records"]) / f"{run_id}.jsonl")
        self._forget(link, run_id, sealed)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
