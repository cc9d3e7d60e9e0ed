"""The verbs: frames in on stdin, frames out on stdout, one at a time."""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Callable, Optional, Sequence

from . import version
from .errors import AgentFailure, Failure, HostFailure, PlanFailure, host_failure
from .host import policy
from .host.system import System
from .records import contact, evidence
from .records.spool import Job, Record, Spool
from .recovery import kept_boot, reboot, units
from .run.launching import launch
from .wire import protocol
from .wire.frames import Wire

MAX_READ = 4 * 1024 * 1024
MAX_WAIT_S = 10.0
POLL_S = 0.03
LETTING_GO_S = 5.0
RECENT_S = 1.0  # the server asks for the facts right before it submits a run, which needs them again

Launch = Callable[[Spool, Job, int, str], None]
# Waits for a number of seconds. Returns True, earlier, if a request arrives or the descriptor can be read.
Pause = Callable[[float, Optional[int]], bool]


class Agent:
    """Answers the verbs of the protocol on one spool. `launch` starts a run that outlives us and has the host lock;
    `pause` is how a verb waits, by default deaf to the other side."""

    def __init__(self, spool: Spool, agent_id: str, launch: Launch, pause: Optional[Pause] = None) -> None:
        self.spool, self.system, self._id, self._launch = spool, spool.system, agent_id, launch
        self._pause: Pause = pause or self._sleep
        self._facts: tuple[float, Record] = -RECENT_S, {}  # when they were last read, and the facts
        self._verbs = {verb: getattr(self, verb) for verb in protocol.VERBS}

    def _sleep(self, seconds: float, ended: Optional[int]) -> bool:
        self.system.sleep(min(seconds, POLL_S))
        return False

    def answer(self, request: Record) -> Record:
        """The answer frame of one request; failures are answers, too."""
        number = request.get("id")
        try:
            verb = self._verbs.get(request.get("verb", ""))
            if verb is None:
                raise PlanFailure(f"unknown verb {request.get('verb')!r}", f"known: {', '.join(protocol.VERBS)}")
            return {"id": number, "ok": True, "result": verb(**request.get("args", {}))}
        except Failure as failure:
            error = failure.as_json()
        except OSError as problem:
            error = host_failure(problem).as_json()
        except TypeError as problem:
            error = PlanFailure(f"{request.get('verb')}: {problem}").as_json()
        except Exception as problem:  # noqa: BLE001 - the connection stays; the server gets the error
            import traceback

            error = AgentFailure(f"{type(problem).__name__}: {problem}", trace=traceback.format_exc()).as_json()
        return {"id": number, "ok": False, "error": error}

    def hello(self) -> Record:
        units.refresh(self.spool, self._id)
        contact.note(self.spool)
        recovered = self._recover()
        supervised = units.state(self.spool, self._id)
        jobs = self.spool.jobs()
        unsealed = [job.run for job in jobs if not job.sealed]
        return {
            "agent": self._id,
            "version": version.VERSION,
            "commit": version.COMMIT,
            "protocol": protocol.VERSION,
            "python": ".".join(map(str, sys.version_info[:3])),
            "level": self.system.level(),
            "supervisor": "systemd" if supervised in units.INSTALLED else "detached",
            "units": supervised,
            "machine_id": self.system.machine_id(),
            "boot_id": self.system.boot_id(),
            "epoch": self.spool.epoch(),
            "busy": unsealed[0] if unsealed else None,
            "dirty": [*(job.run for job in jobs if job.dirty), *kept_boot.stuck(self.spool)],
            "conflicts": [job.run for job in jobs if job.conflicts],
            "sealed": [job.run for job in jobs if job.sealed],
            "recovered": recovered,
            "wall": self.system.wall(),
            "mono": self.system.mono(),
        }

    def facts(self, pg_bin_dirs: Sequence[str] = (), pg_data_dirs: Sequence[str] = ()) -> Record:
        from . import facts

        read_at = self.system.mono()
        present = facts.full(self.system, pg_bin_dirs, pg_data_dirs, self.spool.root / "versions.json")
        known = kept_boot.own_facts(self.spool, present)
        self._facts = read_at, known
        return known

    def health(self, paths: Sequence[str]) -> Record:
        from .host import health

        return health.read_health(self.system, paths)

    def discover(self, settings: Record) -> Record:
        """The present value of each setting, and whether the requested one could be applied. Changes nothing."""
        from . import facts
        from .run.discover import read_setting

        kept_boot.check_ended(self.spool)
        known = facts.core(self.system)
        return {name: read_setting(self.system, known, name, requested) for name, requested in settings.items()}

    def parameters(self, clusters: Sequence[Record], names: Sequence[str]) -> list[Record]:
        """Return the parameters that are in effect in the clusters of this host."""
        from .postgres import parameters

        return parameters.read_parameters(self.system, clusters, names)

    def check(self, steps: Sequence[Record], bin_dir: str = "") -> Record:
        """Return the errors that the tools of this host find in the scripts of these steps."""
        from .run import scripts

        return {"failures": [failure.as_json() for failure in scripts.failures(self.system, steps, bin_dir)]}

    def remote(self, server: Record, bin_dir: str, access: Record) -> Record:
        """Check a remote server, and change nothing there."""
        from .postgres.remote_server import check

        return check.read_facts(self.system, server, bin_dir, access)

    def submit(
        self,
        run: str,
        epoch: int,
        digest: str,
        spec: Record,
        access: Optional[Record] = None,
        keep_boot: bool = False,
    ) -> Record:
        known = self.spool.job(run)
        if known:
            return self._resubmit(known, epoch, digest)
        if protocol.digest(spec) != digest:
            raise PlanFailure(f"the digest of run {run} does not match its spec", "send digest(spec)")
        from .run.planning import check_spec

        facts = self._recent_facts()
        check_spec(facts, spec)
        with self.spool.verbs():
            lock = self._claim(run, epoch)
            try:
                kept_boot.make_way(self.spool, run, spec["settings"])
                self.spool.reserve()
                order = {"run": run, "epoch": epoch, "digest": digest, "spec": spec, "keep_boot": keep_boot}
                job = self.spool.create(order, access)
                job.facts = None if kept_boot.take(self.spool, job) else facts
                job.log("state.jsonl").append({"state": "RECEIVED", "step": ""})
                self._start(job, lock)
            finally:
                os.close(lock)
        return self._status(job)

    def _recent_facts(self) -> Record:
        from . import facts

        read_at, known = self._facts
        is_recent = self.system.mono() - read_at < RECENT_S
        return known if is_recent else kept_boot.own_facts(self.spool, facts.core(self.system))

    def _start(self, job: Job, lock: int) -> None:
        try:
            self._launch(self.spool, job, lock, self._id)
        except HostFailure:
            if job.states()[-1]["state"] == "RECEIVED" and kept_boot.give_back(self.spool, job):
                job.forget()  # nothing has happened yet, and the same uuid may be tried again
            raise

    def _resubmit(self, job: Job, epoch: int, digest: str) -> Record:
        if job.order["digest"] != digest:
            raise PlanFailure(f"run {job.run} was already submitted with another spec", "use a new uuid")
        self._recover()
        with self.spool.verbs():
            self.spool.raise_epoch(epoch)
        return self._status(job)

    def _claim(self, run: str, epoch: int) -> int:
        """The host lock for a new run. PlanFailure or HostFailure when this host must not start it now."""
        self.spool.raise_epoch(epoch)
        lock = self._lock_free_host()
        if lock is None:
            busy = ", ".join(job.run for job in self.spool.unsealed())
            raise HostFailure(
                f"run {run} must wait: run {busy} is active on this host", "submit it when that run is sealed"
            )
        self._recover_dead(lock)
        self._settle_boot()
        waiting = [job.run for job in self.spool.unsealed()]
        if waiting:
            os.close(lock)
            raise HostFailure(
                f"run {run} must wait: run {waiting[0]} is restarting this host or starting", "submit later"
            )
        dirty, stuck = [job.run for job in self.spool.jobs() if job.dirty], kept_boot.stuck(self.spool)
        if stuck:
            os.close(lock)
            message = f"this host is quarantined: restarts did not end the kernel parameters of run {stuck[0]}"
            raise HostFailure(message, "see its boot loader, and restart it by hand", dirty=stuck)
        if dirty:
            os.close(lock)
            raise HostFailure(
                f"this host is quarantined: it could not be restored after run {', '.join(dirty)}",
                "see the manifest of that run, restore the host, then call restore",
                dirty=dirty,
            )
        return lock

    def _lock_free_host(self) -> Optional[int]:
        """Take the host lock. A run that was just sealed needs a moment to release it."""
        deadline = self.system.mono() + LETTING_GO_S
        while True:
            lock = self.spool.lock_host()
            if lock is not None or self.spool.unsealed() or self.system.mono() > deadline:
                return lock
            self.system.sleep(0.005)

    def _recover(self) -> list[Record]:
        """Roll back and seal a run that died, if there is one. A live run holds the lock, and is not touched."""
        if not self.spool.unsealed() and not kept_boot.found(self.spool):
            return []
        return self._with_host(lambda lock: [*self._recover_dead(lock), *self._settle_boot()])

    def _with_host(self, act: Callable[[int], list[Record]]) -> list[Record]:
        """What `act` returns for the lock of the host; [] while a run has it."""
        with self.spool.verbs():
            lock = self.spool.lock_host()
            if lock is None:
                return []
            try:
                return act(lock)
            finally:
                os.close(lock)

    def _settle_boot(self) -> list[Record]:
        done = None if self.spool.unsealed() else kept_boot.settle(self.spool)
        return [done] if done else []

    def _recover_dead(self, lock: int) -> list[Record]:
        """Restore the host after a dead run, resume one after a planned restart, wait while a restart is under way."""
        done: list[Record] = []
        for job in self.spool.unsealed():
            what = reboot.verdict(job, self.system).what
            if what == "resume":
                # Recorded before the attempt, so that a host that fails while resuming does not resume again.
                job.log("state.jsonl").append({"state": "APPLYING", "step": job.states()[-1]["step"]})
                self._launch(self.spool, job, lock, self._id)
                return [*done, {**self._status(job), "did": ["the run continues after the planned restart"]}]
            if what == "dead" and not units.coming(self.spool, job):
                done.append(self._put_back(job))
        return done

    def _put_back(self, job: Job) -> Record:
        from .records.journal import Journal
        from .recovery.recover import descriptions, recover

        before = Journal(job, self.system).log.seq
        recover(self.spool, job, self._id)
        return {**self._status(job), "did": descriptions(Journal(job, self.system), before)}

    def _status(self, job: Job) -> Record:
        return job.status(alive=not job.sealed)

    def status(self, run: str) -> Record:
        job = self.spool.need(run)
        if not job.sealed:
            self._recover()
        return self._status(job)

    def read(
        self, run: str, path: str, offset: int, limit: int = MAX_READ, wait_s: float = 0.0, gather: bool = False
    ) -> Record:
        job = self.spool.need(run)
        file, seal = str(evidence.inside(job, path)), str(job.path / "manifest.json")
        deadline, enough = self.system.mono() + min(wait_s, MAX_WAIT_S), offset + (limit if gather else 1)
        ended, over = self._end_of(job) if gather else None, False
        try:
            while True:
                sealed = os.path.exists(seal)  # read first: the size then includes everything before the seal
                size, left = evidence.size(file), deadline - self.system.mono()
                if size >= enough or sealed or left <= 0 or over:
                    break
                over = self._pause(left, ended)
        finally:
            if ended is not None:
                os.close(ended)
        data = evidence.durable(Path(file), offset, min(limit, MAX_READ)) if size > offset else b""
        if not sealed and b"\n" not in data:
            self._recover()  # no news, or half a line: its process may have died
        return {"data": base64.b64encode(data).decode(), "size": size, "sealed": sealed}

    def _end_of(self, job: Job) -> Optional[int]:
        """A descriptor that can be read when the run's process has ended: right after the seal, or it died."""
        last = (job.states() or [{}])[-1]
        known = "pid" in last and self.system.is_same(last["pid"], last["start"], last["boot_id"])
        return self.system.pidfd(last["pid"]) if known else None

    def collect(self, run: str, limit: int = MAX_READ) -> Record:
        """Several files in one reply instead of one request per file: most of them are small."""
        job, left = self._sealed(run), min(limit, MAX_READ)
        files: dict[str, str] = {}
        seal = (job.path / "manifest.json").read_bytes()
        named = [(each["path"], each["size"]) for each in json.loads(seal)["files"]]
        for path, size in [("manifest.json", len(seal)), *named]:
            if 0 < size <= left and evidence.size(str(evidence.inside(job, path))):
                data = evidence.durable(evidence.inside(job, path), 0, size)
                files[path], left = base64.b64encode(data).decode(), left - len(data)
        return {"files": files}

    def nudge(self) -> Record:
        return {}

    def cancel(self, run: str) -> Record:
        return self._flag(run, "cancel")

    def finish(self, run: str) -> Record:
        return self._flag(run, "finish")

    def _flag(self, run: str, name: str) -> Record:
        job = self.spool.need(run)
        if not job.sealed:
            job.store(name, b"")
        return self.status(run)

    def ack(self, run: str, manifest: str) -> Record:
        job = self._sealed(run)
        import hashlib

        actual = hashlib.sha256((job.path / "manifest.json").read_bytes()).hexdigest()
        if actual != manifest:
            raise PlanFailure(f"manifest.json of run {run} has sha256 {actual}, not {manifest}", "read it again")
        if not (job.path / "ack.json").exists():
            job.store("ack.json", protocol.canonical({"manifest": manifest, "wall": self.system.wall()}))
        return self._status(job)

    def _sealed(self, run: str) -> Job:
        job = self.spool.need(run)
        if not job.sealed:
            raise PlanFailure(f"run {run} is not sealed yet", "read its events until it is sealed")
        return job

    def restore(self) -> Record:
        recovered = self._recover()
        again = self._with_host(lambda lock: [self._again(job) for job in self.spool.jobs() if job.dirty])
        return {"recovered": [*recovered, *again]}

    def _again(self, job: Job) -> Record:
        """Another try at a run that was sealed dirty."""
        from .records.journal import Journal
        from .recovery.recover import clean_again, descriptions

        before = Journal(job, self.system).log.seq
        unproven = clean_again(self.spool, job)
        did = descriptions(Journal(job, self.system), before) + [f"still not restored: {each}" for each in unproven]
        return {**self._status(job), "clean": not unproven, "did": did}

    def end_boot(self) -> Record:
        ended = self._with_host(lambda lock: [] if self.spool.unsealed() else kept_boot.end(self.spool))
        return {"recovered": ended}

    def install(self) -> Record:
        policy.permit(policy.read(self.system), policy.UNITS, "install")
        with self.spool.verbs():
            return {"written": units.install(self.spool, self._id)}

    def uninstall(self) -> Record:
        policy.permit(policy.read(self.system), policy.UNITS, "uninstall")
        self._recover()
        with self.spool.verbs():
            kept_boot.check_ended(self.spool)
            return {"removed": units.uninstall(self.spool)}

    def purge(self, run: str) -> Record:
        job = self.spool.need(run)
        if not (job.path / "ack.json").exists() or job.dirty:
            reason = "left the host unrestored" if job.dirty else "was not acknowledged"
            raise PlanFailure(f"run {run} {reason}", "ack it first" if not job.dirty else "restore first")
        job.forget()
        return {}


def main(root: Path, agent_id: str) -> None:
    system = System()
    spool = Spool(root, system)
    spool.prepare()
    wire = Wire(POLL_S)
    wire.serve(Agent(spool, agent_id, launch, wire.pause).answer)
