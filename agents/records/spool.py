"""The spool: one directory per run, every record checksummed, every file replaced by write, fsync, rename.

<spool>/ epoch host.lock verbs.lock reserve.bin jobs/<uuid>/{job.json,state.jsonl,journal.jsonl,events.ndjson,out/,...}
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

from ..errors import AgentFailure, HostFailure, PlanFailure, is_full
from ..host import programs
from ..host.system import System
from ..wire import protocol

RESERVE_BYTES = 64 * 1024 * 1024
UUID = re.compile(r"^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$")
Record = dict[str, Any]


def sync_dir(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace(path: Path, data: bytes) -> None:
    """Replace a file atomically: readers and a power cut see the old content or the new. Only the agent can read it.
    Only for directories of the agent: in those of other accounts use host/owned.py."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")  # another agent can replace it at the same time
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)
    sync_dir(path.parent)


def load(path: Path) -> Any:
    """Parsed JSON of a file, None when it is not there."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None


def parse_line(line: bytes) -> Optional[Record]:
    """A record whose checksum holds, else None."""
    try:
        record = json.loads(line)
        return record if record.get("crc") == protocol.checksum(record) else None
    except (ValueError, AttributeError):
        return None


def read_log(path: Path) -> tuple[list[Record], bool]:
    """Return all valid records of a log, and whether a complete line is damaged. An incomplete last line is normal."""
    lines = path.read_bytes().split(b"\n") if path.exists() else [b""]
    parsed = [parse_line(line) for line in lines[:-1]]
    damaged = any(record is None for record in parsed)
    return [record for record in parsed if record], damaged


class Log:
    """An append-only file of checksummed lines; seq continues after a crash, and a torn tail is cut off.

    `on_full` makes room when the disk is full, or raises; the record is then written once more. A log that is `mute`
    writes nothing, so that the work continues without space for records.
    """

    def __init__(self, path: Path, system: System, on_full: Callable[[], None]) -> None:
        self._path, self._system, self._on_full, self.mute = path, system, on_full, False
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.seq = self._cut_torn_tail()

    def _cut_torn_tail(self) -> int:
        """The seq of the last record that remains."""
        size, window = os.fstat(self._fd).st_size, 1 << 20
        while size:
            start = max(0, size - window)
            end, record = _last_good(os.pread(self._fd, size - start, start), start == 0)
            if record or start == 0:
                valid_end, seq = self._valid_end(record, start + end, size)
                os.ftruncate(self._fd, valid_end)
                return seq
            window *= 8
        return 0

    def _valid_end(self, record: Optional[Record], end: int, size: int) -> tuple[int, int]:
        """(bytes to keep, their newest seq). A power cut can leave garbage after the durable records. Within one boot
        only the last line can be torn; a complete line that is damaged is kept as evidence."""
        if record is None:
            return 0, 0
        if record["boot_id"] != self._system.boot_id():
            return end, int(record["seq"])
        whole = os.pread(self._fd, size - end, end)
        return end + whole.rfind(b"\n") + 1, int(record["seq"]) + whole.count(b"\n")

    def append(self, body: Record, *, durable: bool = True) -> Record:
        """Write one record and return it; with `durable` it is on disk when this returns."""
        system = self._system
        record = {
            "seq": self.seq + 1,
            "boot_id": system.boot_id(),
            "wall": system.wall(),
            "mono": system.mono(),
            **body,
        }
        if not self.mute:
            self._put(protocol.sealed(record) + b"\n", durable)
        self.seq += 1
        return record

    def _put(self, line: bytes, durable: bool) -> None:
        size = os.fstat(self._fd).st_size
        try:
            _write_all(self._fd, line, durable)
        except OSError as error:
            if not is_full(error):
                raise
            os.ftruncate(self._fd, size)
            self._on_full()
            _write_all(self._fd, line, durable)

    def resume(self) -> None:
        """Continue after records that a child wrote to the same file."""
        self.seq = self._cut_torn_tail()

    def sync(self) -> None:
        os.fsync(self._fd)


def _write_all(fd: int, data: bytes, durable: bool) -> None:
    while data:
        data = data[os.write(fd, data) :]
    if durable:
        os.fdatasync(fd)


def _last_good(data: bytes, whole: bool) -> tuple[int, Optional[Record]]:
    """Return the end of the last valid line of `data`, and its record. The first counts only if `data` is complete."""
    end = data.rfind(b"\n") + 1
    while end:
        begin = data.rfind(b"\n", 0, end - 1) + 1
        if begin or whole:
            record = parse_line(data[begin : end - 1])
            if record:
                return end, record
        end = begin
    return 0, None


class Job:
    """One run's directory."""

    def __init__(self, path: Path, system: System, on_full: Callable[[], None]) -> None:
        self.path, self.run, self._system, self._on_full = path, path.name, system, on_full
        self.facts: Optional[Record] = None  # of the host at the submit, if this process carried that out

    @property
    def order(self) -> Record:
        """job.json: {"run", "epoch", "digest", "spec", "keep_boot"}."""
        order: Record = load(self.path / "job.json")
        return order

    def log(self, name: str) -> Log:
        return Log(self.path / name, self._system, self._on_full)

    def store(self, name: str, data: bytes) -> None:
        """Replace a file of the run's; where the disk is full, as a record of a log does."""
        try:
            replace(self.path / name, data)
        except OSError as error:
            if not is_full(error):
                raise
            self._on_full()
            replace(self.path / name, data)

    @property
    def manifest(self) -> Optional[Record]:
        manifest: Optional[Record] = load(self.path / "manifest.json")
        return manifest

    @property
    def sealed(self) -> bool:
        return (self.path / "manifest.json").exists()

    @property
    def dirty(self) -> bool:
        """Whether it was sealed without proof that the host is restored, and that was not resolved since."""
        manifest = self.manifest
        return bool(manifest and not manifest["clean"] and not (self.path / "cleaned.json").exists())

    @property
    def conflicts(self) -> list[Record]:
        """Values that another user changed during the run, and that the rollback did not change."""
        return list((self.manifest or {}).get("conflicts", []))

    @property
    def cancelled(self) -> bool:
        return (self.path / "cancel").exists()

    @property
    def finishing(self) -> bool:
        """Whether those that this job serves are done with it."""
        return (self.path / "finish").exists()

    @property
    def access(self) -> Record:
        """The secrets with which the hosts of one run, or the client of a remote server, connect; {} for none."""
        access: Record = load(self.path / "access.json") or {}
        return access

    def forget_access(self) -> None:
        """Remove these secrets, after the restore."""
        (self.path / "access.json").unlink(missing_ok=True)

    def states(self) -> list[Record]:
        return read_log(self.path / "state.jsonl")[0]

    def last_event(self) -> Record:
        """Return the newest complete event, {} if there is none. Reads only the end of the file."""
        path = self.path / "events.ndjson"
        try:
            with path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                start = file.seek(max(0, size - (1 << 20)))
                return _last_good(file.read(), start == 0)[1] or {}
        except FileNotFoundError:
            return {}

    def forget(self) -> None:
        """Remove the directory; renamed first, so that a removal cut short leaves nothing that looks like a job."""
        gone = self.path.with_name(f".gone-{self.run}")
        os.rename(self.path, gone)
        sync_dir(self.path.parent)
        shutil.rmtree(gone)

    def status(self, alive: bool) -> Record:
        """The Status object of the protocol."""
        last = (self.states() or [{"state": "RECEIVED", "step": ""}])[-1]
        manifest = self.manifest or {}
        state = "ACKED" if (self.path / "ack.json").exists() else "SEALED" if manifest else last["state"]
        return {
            "run": self.run,
            "state": state,
            "step": last["step"],
            "outcome": manifest.get("outcome", ""),
            "alive": alive and not manifest,
            "last_seq": self.last_event().get("seq", 0),
            "error": manifest.get("error"),
            "clean": manifest.get("clean"),
            "conflicts": manifest.get("conflicts", []),
        }


class Spool:
    """The directory of all jobs on this host, and the locks by which they run one after another."""

    def __init__(self, root: Path, system: System) -> None:
        self.root, self.system, self.full, self.sparing = root, system, False, True
        self.jobs_dir = root / "jobs"

    def prepare(self) -> None:
        """Create missing directories. HostFailure if the agent cannot own the spool."""
        try:
            self._check_owner()
            self.jobs_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._check_owner()
            os.chmod(self.root, 0o700)
        except OSError as error:
            raise HostFailure(
                f"the spool {self.root} cannot be used: {error.strerror}", "use another --spool"
            ) from error

    def _check_owner(self) -> None:
        """Raise HostFailure if another account can change the spool: its journals could make root write any file."""
        existing = next(path for path in (self.root, *self.root.parents) if path.exists())
        if self.system.euid() == 0 and programs.owners(str(existing)) != frozenset({0}):
            message = f"another account than root can change the spool {self.root}"
            raise HostFailure(message, "it and each directory above it must belong to root; or choose another")

    def reserve(self) -> None:
        """Reserve space for the end of a run before it starts. HostFailure if there is not enough."""
        if (self.root / "reserve.bin").exists():
            return
        fd = os.open(self.root / "reserve.bin", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.posix_fallocate(fd, 0, RESERVE_BYTES)
        except OSError as error:
            (self.root / "reserve.bin").unlink()
            raise HostFailure(
                f"the spool {self.root} has no space for its reserve of {RESERVE_BYTES >> 20} MiB: {error.strerror}",
                "free some space, or use another --spool",
            ) from error
        finally:
            os.close(fd)

    def relieve(self) -> None:
        """The disk is full. A run that is under way stops, by the OSError of the disk; the reserve is for undoing and
        sealing it, when nothing of it lives that could fill that as well."""
        self.full = True
        if self.sparing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.root))
        (self.root / "reserve.bin").unlink(missing_ok=True)

    @contextmanager
    def verbs(self) -> Iterator[None]:
        """Held by each verb that reads or changes which run is active, one at a time."""
        with open(self.root / "verbs.lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def lock_host(self) -> Optional[int]:
        """A descriptor that holds the host for a run, None while a run has it. It passes on by inheritance, and the
        kernel gives it back when its last holder dies: no moment in between can be missed."""
        fd = os.open(self.root / "host.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return fd

    def wait_host(self, seconds: float) -> Optional[int]:
        """Lock the host, after waiting briefly for a holder that only reads."""
        deadline = self.system.mono() + seconds
        while True:
            lock = self.lock_host()
            if lock is not None or self.system.mono() > deadline:
                return lock
            self.system.sleep(0.005)

    def epoch(self) -> int:
        stored = load(self.root / "epoch")
        return int(stored or 0)

    def raise_epoch(self, epoch: int) -> None:
        """Remember the highest epoch. HostFailure when `epoch` is older than one seen before."""
        highest = self.epoch()
        if epoch < highest:
            raise HostFailure(
                f"epoch {epoch} is older than {highest}, the newest on this host",
                "another server or worker has the lease now and must submit it",
            )
        if epoch > highest:
            replace(self.root / "epoch", str(epoch).encode())

    def jobs(self) -> list[Job]:
        return [self._job(name) for name in self.system.names(str(self.jobs_dir)) if UUID.match(name)]

    def _job(self, run: str) -> Job:
        return Job(self.jobs_dir / run, self.system, self.relieve)

    def job(self, run: str) -> Optional[Job]:
        """The job of this uuid, None when it was never submitted here (or purged)."""
        if not UUID.match(run):
            raise PlanFailure(f"run {run!r} is not a lower-case uuid")
        job = self._job(run)
        return job if job.path.is_dir() else None

    def need(self, run: str) -> Job:
        job = self.job(run)
        if job is None:
            raise PlanFailure(f"run {run} does not exist here", "submit it, or check whether it was purged")
        return job

    def unsealed(self) -> list[Job]:
        return [job for job in self.jobs() if not job.sealed]

    def create(self, order: Record, access: Optional[Record] = None) -> Job:
        """A new job directory; it appears under its name complete with job.json, or not at all."""
        fresh = self.jobs_dir / f".new-{order['run']}"
        fresh.mkdir(mode=0o700, exist_ok=True)
        try:
            if access:
                replace(fresh / "access.json", protocol.canonical(access))
            replace(fresh / "job.json", protocol.canonical(order))
            os.rename(fresh, self.jobs_dir / order["run"])
        except OSError as error:
            raise AgentFailure(f"the job cannot be stored in {self.root}: {error.strerror}") from error
        sync_dir(self.jobs_dir)
        return self._job(order["run"])
