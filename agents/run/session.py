"""One run on this host, in order: apply, verify, get the data set, measure, verify, restore, verify restored, seal.

After any failure it restores. If this process dies, recover.py restores instead.
"""

from __future__ import annotations

import os
import signal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Optional

from ..errors import AgentFailure, Cancelled, Failure, HostFailure, Interrupted, NotApplied, host_failure
from ..host import owned, paths
from ..measure.stage import Stage
from ..postgres import roles
from ..records.journal import Journal
from ..records.processes import Account, adopt_orphans, end
from ..records.spool import Job, Record, Spool
from ..recovery import boot, control_group, kept_boot, reboot, recover
from ..settings import SETTINGS, Plan, Proof, Scene, Write
from ..wire.protocol import COOL, MEASURE, REBOOT
from ..workloads import WORKLOADS
from . import scripts
from .planning import check_spec, facts_after, plan_settings

if TYPE_CHECKING:
    from ..collectors import Collector
    from ..datasets.lend import Loan
    from ..postgres.instance import Target
    from .serving import Serving

Spec = dict[str, Any]


class Session:
    """A run in progress. `execute` takes it from RECEIVED to SEALED."""

    def __init__(self, spool: Spool, job: Job, agent: str) -> None:
        self.spool, self.job, self.system, self._agent = spool, job, spool.system, agent
        spool.full, spool.sparing = False, True  # regardless of what the connection saw before
        self.spec: Spec = job.order["spec"]
        self.settings = roles.early(self.spec)
        self._events, self._states = job.log("events.ndjson"), job.log("state.jsonl")
        self.journal = Journal(job, self.system)
        self.interval_s = float(self.spec["collect"]["interval_s"])
        self.account = Account(name=str(self.system.euid()))
        self.cluster: Optional[Target] = None
        self.client_prefix: list[str] = []
        self.tracer_prefix: list[str] = []
        self.scene = Scene(system=self.system, facts={}, check=self.check, report=self.report)
        self.collector_cpu_s = 0.0
        self._step, self._reported, self._noted, self._stop = "", set[str](), set[str](), False
        self._held: list[int] = []
        self._loaded = False
        self._lent: Optional[Loan] = None
        self._serving: Optional[Serving] = None

    # Records

    def emit(self, kind: str, data: Record) -> None:
        self._events.append({"kind": kind, "data": data}, durable=False)

    def report(self, done: float, left_s: float, note: str) -> None:
        """Report the progress of work in the present step."""
        self.emit("progress", {"step": self._step, "done": round(done, 4), "eta_s": round(left_s, 1), "note": note})

    def log(self, level: str, message: str) -> None:
        self.emit("log", {"level": level, "message": message})

    def enter(self, state: str, **more: Any) -> None:
        process = self.system.process(os.getpid())
        start = process.start if process else 0
        self.emit("state", {"state": state, "step": self._step})
        if state == "REBOOTING":
            self._events.sync()  # before the record by which the run continues
        self._states.append({"state": state, "step": self._step, "pid": os.getpid(), "start": start, **more})

    # The order of things

    def execute(self) -> None:
        """Carry the run out, put the host back, seal."""
        signal.signal(signal.SIGTERM, self._terminated)
        adopt_orphans()
        failure = self._attempt()
        for held in self._held:
            os.close(held)
        if self.spool.full:
            recover.make_room(self.spool, self.job, self.journal)
        self.spool.sparing = False
        try:
            self._restore_host(failure)
        except OSError:
            recover.unrecorded(self.job, self.system, self.journal)
            raise

    def _restore_host(self, failure: Optional[Failure]) -> None:
        extra = {"collector_cpu_s": round(self.collector_cpu_s, 4)}
        self.enter("ROLLING_BACK")
        undone = recover.undo(self.job, self.system, self.journal, self.emit)
        if undone.restart and self._leaves_boot(failure, undone):
            self.log("info", "the host keeps these kernel parameters for the next run of the campaign")
            undone.restart = False
        if undone.restart:
            ending = {**recover.outcome_of(failure, undone), "conflicts": undone.conflicts, "extra": extra}
            return self._restart_host(ending)
        self.enter("CLEAN" if undone.clean else "DIRTY")
        outcome = recover.outcome_of(failure, undone)
        self.emit("outcome", outcome)
        self._events.sync()
        recover.seal(self.job, self._agent, outcome, undone, extra)
        self._states.append({"state": "SEALED", "step": self._step})
        return None

    def _leaves_boot(self, failure: Optional[Failure], undone: recover.Undone) -> bool:
        is_ok = failure is None and undone.clean and not undone.conflicts and not self.job.cancelled
        return is_ok and bool(self.job.order.get("keep_boot")) and kept_boot.leave(self.spool, self.job, self.journal)

    def _restart_host(self, ending: Record) -> None:
        """End a run that has booted the host with a restart. Recovery seals the run in the next boot."""

        def enter(limit_s: float) -> None:
            self.enter("REBOOTING", index=-1, limit_s=limit_s, is_over=True)

        boot.leave(self.system, self.journal, ending, enter)

    def _terminated(self, number: int, frame: object) -> None:
        self._stop = True

    def _attempt(self) -> Optional[Failure]:
        failure = self._carry_out()
        return self.cluster.cause_of(failure) if self.cluster else failure

    def _carry_out(self) -> Optional[Failure]:
        try:
            self.enter("APPLYING")
            self.journal.after_restart()
            self._apply()
            self.enter("VERIFIED")
            self._run_steps()
        except Failure as failure:
            return failure
        except OSError as error:
            return host_failure(error)
        except Exception as error:  # noqa: BLE001 - after any error, the host is restored and the run is sealed
            import traceback

            return AgentFailure(f"{type(error).__name__}: {error}", "report this", trace=traceback.format_exc())
        return None

    @property
    def stopped(self) -> bool:
        """Whether SIGTERM came."""
        return self._stop

    def check(self) -> None:
        """Raise when the run is to stop now."""
        if self.job.cancelled:
            raise Cancelled("the run was cancelled")
        if self._stop:
            raise Interrupted("the agent received SIGTERM", "start the run again")
        if self.spool.full:
            raise HostFailure(f"no space left for {self.job.path}", "free some space in the spool and start again")

    def _apply(self) -> None:
        from .. import facts

        self.scene.facts = boot.facts_for_plan(self.journal, self.job.facts or facts.core(self.system))
        check_spec(self.scene.facts, self.spec)
        self._check_scripts()
        plans = plan_settings(self.scene.facts, self.settings)
        boot.begin(self, plans)
        self.scene.facts = facts_after(self.scene.facts, self.settings)
        self.scene.data_dir = self._data_dir()
        if self.spec["target"]:
            self._make_cluster(plans)
        else:
            self._choose_account()
        self.check()
        for name, plan in plans.items():
            resolved = SETTINGS[name].resolve(self.scene, plan, self.settings[name])
            self.scene.writes[name] = resolved.writes
            self.scene.limits = self.scene.limits + resolved.limits
            self.client_prefix += plan.client_prefix
            self.tracer_prefix += plan.tracer_prefix
        self._change(plans)
        if self.scene.limits:
            out = self.job.path / "out"
            self.scene.group = control_group.make(self.system, self.journal, out, self.scene.limits)
        self.act("stopped")
        self.check()
        if self.cluster:
            self._start_server([part for plan in plans.values() for part in plan.server_prefix])
        self.verify("before")

    def _check_scripts(self) -> None:
        """Check the scripts with the tools, so that a run that cannot be executed changes nothing."""
        wrong = scripts.failures(self.system, self.spec["steps"], (self.spec["target"] or {}).get("bin_dir", ""))
        for failure in wrong:
            self.log("error", failure.message)
        if wrong:
            raise wrong[0]

    def _data_dir(self) -> str:
        """Return the data directory of the run: the target's, or that of the first step which has one."""
        steps = (step["options"].get("directory", "") for step in self.spec["steps"])
        return str((self.spec["target"] or {}).get("data_dir") or next(filter(None, steps), ""))

    def _change(self, plans: dict[str, Plan]) -> None:
        writes = [(name, write) for name in plans for write in self.scene.writes[name]]
        self.journal.intend(writes)
        for name, write in writes:
            self._write(name, write)
        self._held += [self.system.hold(hold.path, hold.data) for plan in plans.values() for hold in plan.holds]

    def _write(self, name: str, write: Write) -> None:
        try:
            record = self.journal.apply(name, write)
        except NotApplied as failure:
            last = [entry for entry in self.journal.written if entry["key"] == write.key][-1]
            self.emit("write", {**_picked(last), "found": failure.details["found"]})
            raise
        if record:
            self.emit("write", {**_picked(record), "found": record["found"]})

    def _choose_account(self) -> None:
        from ..postgres.cluster import choose_load_account

        self.account = choose_load_account(self.system, self.spec.get("os_user", ""))
        self.log("info", f"the load runs as {self.account.name}")

    def _make_cluster(self, plans: dict[str, Plan]) -> None:
        from . import collecting, targets

        self.cluster = targets.make(self, plans)
        self.cluster.prepare(plans)
        scene, cluster = self.scene, self.cluster
        scene.major, scene.conf_file, scene.sql = cluster.major, cluster.conf_file, cluster.sql
        scene.pgdata, scene.parameter_proofs = str(cluster.pgdata), cluster.parameter_proofs
        scene.parameter = cluster.parameter
        cluster.start_psql = partial(collecting.start_psql, self)
        scene.huge_pages_needed = lambda page_kb: targets.huge_pages_needed(self, cluster, page_kb)

    def _start_server(self, prefix: list[str]) -> None:
        out = self.job.path / "out"
        out.mkdir(exist_ok=True, mode=0o700)
        assert self.cluster is not None  # noqa: S101 - for the type checker
        self.scene.postmaster = self.cluster.start(prefix, out / "postgresql.log")

    def stop_server(self) -> None:
        """End PostgreSQL as its administrator would, its data on disk."""
        if self.cluster:
            self.cluster.disconnect()
        for entry in reversed(self.journal.open_processes()):
            if not end(self.system, entry):
                raise HostFailure(f"{entry['purpose']} (pid {entry['pid']}) is still running", "see its log")
            self.journal.ended(entry)

    def _run_steps(self) -> None:
        self._serve()
        for index in range(reboot.next_step(self.job), len(self.spec["steps"])):
            step = self.spec["steps"][index]
            if step["kind"] == REBOOT:
                self._step = step["name"]
                reboot.leave(self, index)
            self._lend()
            self._run_step(step)
        self._lend()  # a run may be there for its data only
        self._prove_data()
        if self._serving:
            if not self.spec["steps"]:
                self._serving.wait()
            self._serving.release()
        if self._lent:
            self._lent.settle()
        if self.cluster:
            self.cluster.disconnect()

    def _serve(self) -> None:
        """Have other machines come, where this run is theirs, too."""
        if self.spec.get("serve"):
            from .serving import Serving

            self._lend()
            self._serving = Serving(self)
            self._serving.begin()

    def _lend(self) -> None:
        """Have the data set in the cluster, once."""
        if self.spec.get("dataset"):
            from ..datasets.lend import lend

            self._lent = self._lent or lend(self)

    def _prove_data(self) -> None:
        """Check the consistency of the data set after the load."""
        if self.cluster:
            from ..datasets import consistency

            consistency.prove(self)

    def begin(self, step: str) -> None:
        """The state in which this step runs."""
        self._step = step
        self._reported.clear()
        self.enter("RUNNING")

    def _run_step(self, step: Record) -> None:
        self.begin(step["name"])
        self.scene.last = step is self.spec["steps"][-1]
        self.scene.measured = step.get("role", MEASURE) == MEASURE
        workload, options = WORKLOADS[step["kind"]], step["options"]
        stage = Stage(self, self._step, self._directory(options) or self._room())
        if "until" in step:
            stage.end_when_steady(workload.rates[0], **step["until"])
        self.check()
        self._load_caches(step)
        self.check()
        workload.measure(options, stage)
        self._warn_of_clients()

    def _load_caches(self, step: Record) -> None:
        """Once, when the data are there: later steps find in memory what earlier ones left there, which may be the
        question."""
        if not self._loaded and step.get("role") not in ("prepare", COOL):
            self._loaded = True
            self.act("warm")

    def _directory(self, options: dict[str, Any]) -> str:
        directory = options.get("directory", "")
        return paths.directory(directory, self.allowed_paths) if directory else ""

    def _room(self) -> str:
        """The parent of the run's directories, which is never the data directory of an existing cluster."""
        target = self.spec["target"] or {}
        return "/tmp" if target.get("kind") == "existing" else target.get("data_dir", "")  # noqa: S108

    def _warn_of_clients(self) -> None:
        clients = self.cluster.foreign_clients() if self.cluster else []
        if clients:
            self.log("warning", f"other clients disturbed step {self._step}: {'; '.join(clients)}")

    # Proofs

    def _requested(self) -> list[tuple[str, Any]]:
        """Settings in the order of the catalogue: those that observe a load come before those that make one."""
        return [(name, self.settings[name]) for name in SETTINGS if name in self.settings]

    def watch(self) -> None:
        for name, requested in self._requested():
            SETTINGS[name].watch(self.scene, requested)
        if self._serving:
            self._serving.watch()

    def verify(self, phase: str) -> None:
        """Emit the proofs of all settings. NotApplied at the first that fails, Cancelled if a cancel was requested."""
        proofs = ((name, SETTINGS[name].verify(self.scene, requested, phase)) for name, requested in self._requested())
        self._prove(phase, chain(proofs, self._serving.proofs_by_setting() if self._serving else ()))

    def act(self, moment: str) -> None:
        """Let settings act without a change to restore, such as dropping the page cache."""
        acts = ((name, SETTINGS[name].act(self.scene, requested, moment)) for name, requested in self._requested())
        self._prove("before", acts)

    def _prove(self, phase: str, proofs_by_setting: Iterable[tuple[str, list[Proof]]]) -> None:
        failed: list[tuple[str, Proof]] = []
        for name, proofs in proofs_by_setting:
            for proof in proofs:
                self._tell(name, phase, proof)
                failed += [] if proof.ok else [(name, proof)]
        if failed:
            self.check()  # what a cancelled run has on other hosts may be gone already
            name, proof = failed[0]
            raise NotApplied(f"{name} ({proof.subject})", proof.wanted, proof.found)

    def _tell(self, name: str, phase: str, proof: Proof) -> None:
        """Emit a proof, unless this step has already emitted the same one for as many processes."""
        size = len(proof.evidence.get("processes", ()))
        known = f"{name} {phase} {proof.subject} {proof.found} {size}"
        if known not in self._reported:
            self._reported.add(known)
            self.emit("proof", {"setting": name, "phase": phase, **proof.__dict__})

    # Interface of a stage

    @property
    def allowed_paths(self) -> list[dict[str, str]]:
        return list(self.spec.get("allowed_paths", []))

    def hold(self, descriptor: int) -> None:
        """Keep a file open until the run is over."""
        self._held.append(descriptor)

    def make_collectors(self, out: Path) -> list[Collector]:
        from . import collecting

        return collecting.make(self, out)

    def note(self, message: str) -> None:
        """Log something once in a run."""
        if message not in self._noted:
            self._noted.add(message)
            self.log("info", message)

    def scratch_path(self, data_dir: str, step: str) -> Path:
        """The name of a directory of the run below `data_dir`."""
        return Path(data_dir) / f"scratch-{self.job.run}-{step}"

    def make_scratch(self, data_dir: str, step: str) -> Path:
        path = self.scratch_path(data_dir, step)
        if not self.system.may_access([data_dir], os.X_OK, self.account.user, self.account.group):
            hint = f"allow {self.account.name} to enter it and the directories above it, or choose another directory"
            raise HostFailure(f"{self.account.name} cannot enter {data_dir}", hint)
        self.journal.making(str(path))
        owned.make_directory(path, self.account.owner)
        return path


def _picked(entry: Record) -> Record:
    return {key: entry[key] for key in ("setting", "key", "original", "wanted")}
