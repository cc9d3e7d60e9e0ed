"""One job of a run, on its host: check what it may do, submit it, store its events, fetch its manifest and files.

A write is made only while the claim of the run is ours, and no transaction spans the network. A tick may die at any
line: the next one does the same again, and an agent that knows the job already answers with its state.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from agents.host.paths import needed
from agents.wire.protocol import BOOT
from apps import tracing
from apps.campaigns import queries
from apps.campaigns.design import plan, steps
from apps.campaigns.execution import by_hand, claims, fetching, queue, run_end
from apps.campaigns.library import code, copies
from apps.campaigns.models import Campaign, Run, RunPart
from apps.hosts import contact
from apps.hosts.access import ssh
from apps.hosts.models import Host
from apps.hosts.usage import allowed_paths, cluster_consents, leases
from apps.infrastructure import months
from common.errors import PlanError

# All events are one parameter, which takes less CPU time than parameters for each event, as bulk_create sends them.
INSERT_EVENTS = """
insert into campaigns_runevent (run_id, part_id, month, seq, at, kind, data)
select %s, %s, %s, seq, at, kind, data
from jsonb_to_recordset(%s) as event (seq integer, at timestamptz, kind varchar, data jsonb)
"""
# Events that other jobs of the run wait for.
STAGES = ("listening", "serving", "released")


@dataclass(eq=False)
class Job:
    """The run's own job or that of one of its parts, for one tick of the run."""

    run: Run
    row: Run | RunPart
    has_started: bool  # its agent may know it
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)  # of STAGES, with the data of the event
    rejected: PlanError | None = None
    manifest_bytes: bytes = b""  # fetched in this tick

    @property
    def pk(self) -> UUID:
        return self.row.pk

    @property
    def host(self) -> Host:
        return self.row.host

    @property
    def part(self) -> RunPart | None:
        return self.row if isinstance(self.row, RunPart) else None

    @property
    def name(self) -> str:
        return f"{self.part.role if self.part else 'load'} on {self.host}"

    @property
    def is_submitted(self) -> bool:
        return self.row.state == Run.State.RUNNING

    @property
    def is_done(self) -> bool:
        """Whether its agent has nothing more to report."""
        return self.row.state == Run.State.ENDED or self.row.manifest is not None or self.rejected is not None

    @cached_property
    def result(self) -> tuple[str, dict[str, Any] | None]:
        """(outcome, error) of a job that is done."""
        if self.rejected:
            return Run.Outcome.FAILED, self.rejected.as_dict()
        if self.row.manifest:
            return fetching.ending(self.row, self.row.manifest)
        return self.row.outcome, self.row.error

    def check(self) -> None:
        """PlanError if the job needs what users or hosts may not do, or may not do any more."""
        spec = self.row.spec
        code.check_job(self.run.campaign, spec)
        cluster_consents.check(self.host, spec["target"])
        if spec["settings"].get(BOOT) and not self.host.may_reboot:
            hint = "an admin can allow it on the page of the host"
            raise PlanError(f"settings.{BOOT}", f"{self.host} must not be restarted by campaigns", hint=hint)
        allowed_paths.check(self.host, needed(steps.paths(spec["steps"]), spec.get("allowed_paths", [])))

    def submit(self, link: ssh.Link, access: dict[str, str] | None) -> None:
        """Submit it to its agent, which may know it already. `access`: the secrets of the PostgreSQL server that it
        uses. PlanError if it is refused."""
        if not self.has_started:
            self.check()
            self.update(epoch=0)
            self.has_started = True
        facts, at = self.ask_facts(link), timezone.now()
        epoch = leases.raise_epoch(self.host.machine_id, self.pk, above=link.hello["epoch"])
        order: dict[str, Any] = {"run": str(self.pk), "epoch": epoch, "digest": self.row.digest, "spec": self.row.spec}
        if access:
            order["access"] = access
        if self.leaves_boot:
            order["keep_boot"] = True
        with tracing.span("send run"):
            link.call("submit", **order)
        # The agent works while we write. If this process dies here, the job keeps the facts of its plan.
        recorded = {"facts": contact.record_facts(self.host, facts, at)} if facts else {}
        self.update(state=Run.State.RUNNING, epoch=epoch, error=None, **recorded)

    @property
    def may_leave_boot(self) -> bool:
        return bool(self.row.spec["settings"].get(BOOT)) and self.run.campaign.order == Campaign.Order.FEWEST_RESTARTS

    @property
    def leaves_boot(self) -> bool:
        """Whether the run that is next on this host needs the same boot, and may begin then."""
        if not self.may_leave_boot:
            return False
        following = queue.waiting(self.host).exclude(pk=self.run.pk).first()
        if following is None or following.campaign_id != self.run.campaign_id:
            return False
        if self.run.retry_of_id is not None or following.retry_of_id is not None:
            return False
        ends = timezone.now() + timedelta(seconds=queries.run_seconds(self.run))
        is_same = plan.leaves_boot(self.run.campaign.order, self.run, following)
        return is_same and not queue.hindrance(self.host, following, ends)

    def ask_facts(self, link: ssh.Link) -> dict[str, Any] | None:
        """The facts of the host at the start, as they may differ from the plan's. None if the agent knows the job."""
        known = [link.hello["busy"], *link.hello["sealed"]]
        return None if str(self.pk) in known else contact.ask_facts(self.host, link)

    def read_events(self, link: ssh.Link, *, wait_s: float, gather: bool) -> bool:
        """Wait for new events and store them. True if the job is sealed and all of its events are stored."""
        lines, are_last = fetching.read_lines(self.row, link, wait_s=wait_s, gather=gather)
        if are_last:
            fetching.prepare(self.row, link)
        if lines:
            self.store(lines)
        return are_last

    def store(self, lines: bytes) -> None:
        """Commit whole lines and the offset after them together: a line that is read twice is stored once."""
        row = self.row
        received, damaged = fetching.events_of(row, lines)
        new = [event for event in received if event["seq"] > row.last_seq]
        changes: dict[str, Any] = {
            "events_offset": row.events_offset + len(lines),
            "events_damaged": row.events_damaged + damaged,
            "last_seq": max([row.last_seq, *(event["seq"] for event in new)]),
            **self._state_after(new),
        }
        with transaction.atomic():
            self._write(changes)  # first: it checks the claim, and locks the run's row until the commit
            insert_events(row, new)
            if any(event["kind"] == "state" and event["data"]["state"] == by_hand.WAITING for event in new):
                by_hand.notify_waiting(self.run)
            copies.learn(self.run, [event["data"] for event in new if event["kind"] == "dataset"], self.part)
        self._set(changes)
        self.stages.update({event["kind"]: event["data"] for event in new if event["kind"] in STAGES})

    def _state_after(self, events: list[dict[str, Any]]) -> dict[str, Any]:
        """The fields that the last event with a state changes."""
        state = next((event["data"] for event in reversed(events) if event["kind"] == "state"), None)
        if state is None:
            return {}
        if self.part:
            return {"agent_state": state["state"]}
        now = timezone.now()  # by our clock: the host's may be set meanwhile
        return {"agent_state": state["state"], "step": state.get("step") or "", "agent_state_at": now}

    def collect(self, link: ssh.Link) -> None:
        """Fetch and store the files of a sealed job. Its manifest is not stored yet: see `save_end` and `end_part`."""
        with tracing.span("fetch files"):
            self.manifest_bytes, self.row.manifest = fetching.bring(self.row, link, self.hold)

    def save_end(self) -> None:
        """Store that this job is done while others of its run continue."""
        ended: dict[str, Any] = {}
        if self.part:
            outcome, error = self.result
            ended = {"state": Run.State.ENDED, "outcome": outcome, "error": error}
        self.update(manifest=self.row.manifest, **ended)

    def end_part(self) -> None:
        """In the transaction that ends the run: the result of a part, and its machine free again."""
        outcome, error = self.result if self.is_done else (Run.Outcome.CANCELLED, None)
        self.save(state=Run.State.ENDED, outcome=outcome, error=error, manifest=self.row.manifest)
        if self.row.manifest:
            run_end.report_problems(self.row, self.row.manifest)
        leases.release(self.host.machine_id, self.pk)

    def forget(self, link: ssh.Link) -> None:
        """Let the agent delete what is stored here."""
        fetching.forget(link, str(self.pk), self.manifest_bytes)
        self.manifest_bytes = b""

    def hold(self) -> None:
        """In a transaction: lock the run's row. ClaimLostError if the claim is another worker's."""
        claims.hold_row(self.run)

    def update(self, **changes: Any) -> None:
        """Write to its row. ClaimLostError if the claim is another worker's."""
        if self.part is None:
            self._write(changes)
        else:
            with transaction.atomic():
                self._write(changes)
        self._set(changes)

    def _write(self, changes: dict[str, Any]) -> None:
        """Write to its row in the database; that of a part in a transaction, because the run's row has its claim."""
        if self.part is None:
            if not self.run.mine().update(**changes):
                raise claims.ClaimLostError
        else:
            self.hold()
            RunPart.objects.filter(pk=self.pk).update(**changes)

    def save(self, **changes: Any) -> None:
        """Write to its row in a transaction that holds the claim."""
        self._set(changes)
        self.row.save(update_fields=list(changes))

    def _set(self, changes: dict[str, Any]) -> None:
        for name, value in changes.items():
            setattr(self.row, name, value)


def insert_events(row: Run | RunPart, events: list[dict[str, Any]]) -> None:
    """Insert events of a run or a part with one statement."""
    if events:
        owner = (row.pk, None) if isinstance(row, Run) else (None, row.pk)
        rows = json.dumps([{**event, "at": event["at"].isoformat()} for event in events])
        with connection.cursor() as cursor:
            cursor.execute(INSERT_EVENTS, [*owner, months.month_of(row.start), rows])
