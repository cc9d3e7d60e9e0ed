"""One step of a run: its processes, its raw output, and what observes it while it is measured."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Iterator, Optional, Sequence

from ..errors import WorkloadFailure
from ..host import owned, paths
from ..records.processes import DEVNULL, PIPE, Account, Child, end, environment, spawn
from ..wire.protocol import digest
from .observer import Observer
from .steady import Steadiness, sentence
from .tracer import Tracer

if TYPE_CHECKING:
    from ..postgres.instance import Target
    from ..run.running import Run
    from ..workloads import Trace

POLL_S = 0.1  # longest time between two checks of a process and of a cancel; its end wakes us at once
FAR = 1e9

Poll = Callable[[float], Optional[float]]  # gets the seconds since the start, returns when to call it again


class Stage:
    """A step as its workload sees it; `Run` is the rest of the run."""

    def __init__(self, run: Run, step: str, data_dir: str) -> None:
        self._run, self.step, self._data_dir = run, step, data_dir
        self.out = run.job.path / "out" / step
        self.out.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._rooms: dict[str, Path] = {}
        self.began = 0.0  # by the wall clock, when the load began
        self._reported = 0.0
        self._rate = ""
        self._steadiness: Optional[Steadiness] = None

    @property
    def cluster(self) -> Target:
        cluster = self._run.cluster
        if cluster is None:
            raise WorkloadFailure(f"step {self.step} needs PostgreSQL, but the run has no target")
        return cluster

    @property
    def scratch(self) -> Path:
        """A directory of this step's own below data_dir, which the load generator may write; removed with the run."""
        if self._data_dir not in self._rooms:
            self._rooms[self._data_dir] = self._run.make_scratch(self._data_dir, self.step)
        return self._rooms[self._data_dir]

    def room(self, directory: str) -> Path:
        """The same in another directory, which must be allowed."""
        real = paths.directory(directory, self._run.allowed_paths)
        if real not in self._rooms:
            self._rooms[real] = self._run.make_scratch(real, self.step)
        return self._rooms[real]

    def allowed(self, directory: str) -> str:
        """Return the real path of an allowed directory of the host, for reading."""
        return paths.directory(directory, self._run.allowed_paths)

    def claim(self, path: str) -> str:
        """The real path of a file or device that the tool may write: allowed, and not of another user. A new file is
        removed with the run."""
        return paths.claim(self._run, path)

    def clock(self) -> float:
        """Seconds, from any moment on."""
        return self._run.system.mono()

    def tool(self, name: str) -> str:
        if self._run.cluster:
            return self._run.cluster.tool(name)
        return self._run.system.tool(name)

    @property
    def seed(self) -> int:
        """A number of this run and step: other runs get others, the same one gets it again after a restart."""
        return int(digest([self._run.job.run, self.step])[:8], 16)

    def earlier(self, step: str) -> Path:
        """The evidence of a step that has been."""
        return self._run.job.path / "out" / step

    def check(self) -> None:
        """Raise when the run is to stop now."""
        self._run.check()

    def progress(self, done: float, note: str) -> None:
        """Report the progress of work beside the load, at most once a second."""
        now = self._run.system.mono()
        if now >= self._reported + 1.0:
            self._reported = now
            event = {"step": self.step, "done": round(done, 4), "eta_s": None, "note": note}
            self._run.emit("progress", event)

    def log(self, level: str, message: str) -> None:
        self._run.log(level, message)

    def keep(self, path: Path) -> None:
        """Move a file that the tool wrote to the step's evidence."""
        owned.take(path, self.out / path.name)

    def end_when_steady(self, rate: str, window_s: float, within: float) -> None:
        """Have `measure` end the load itself once this column of its samples is steady."""
        self._rate, self._steadiness = rate, Steadiness(window_s, within)

    def _steady(self) -> bool:
        return self._steadiness is not None and self._steadiness.reached

    def _tell_steadiness(self, after_s: float) -> None:
        if self._steadiness is not None:
            summary = self._steadiness.as_json(after_s)
            level, text = sentence(summary, self._rate)
            self._run.emit("log", {"level": level, "message": f"{self.step}: {text}", "steady": summary})

    def sample(self, source: str, t: float, values: dict[str, float]) -> None:
        if self._steadiness is not None and self._rate in values:
            self._steadiness.add(t, values[self._rate])
        self._run.emit("sample", {"step": self.step, "source": source, "t": round(t, 3), "values": values})

    def execute(self, argv: Sequence[str], *, purpose: str, limit_s: float, directory: str = "") -> None:
        """Run a tool on the client's CPUs until it ends. Its output is in out/<step>/<purpose>.stdout and .stderr."""
        argv = [*self._run.client_prefix, *argv]
        run_tool(self._run, argv, purpose=purpose, limit_s=limit_s, out=self.out / purpose, directory=directory)

    def measure(
        self,
        argv: Sequence[str],
        *,
        limit_s: float,
        total_s: Optional[float],
        on_line: Callable[[str], None],
        watched: str = "stderr",
        go: str = "",
        directory: str = "",
        poll: Optional[Poll] = None,
        trace: Optional[Trace] = None,
    ) -> None:
        """Run the load generator with collectors and proofs. Its output is in out/<step>/stdout and stderr.

        `on_line` gets each whole line of the `watched` one at once, and `poll` the seconds since the start while it
        runs. A tool that waits for a start signal gets `go` on its stdin, once the tracer is attached.
        WorkloadFailure if the tool fails.
        """
        run, files = self._run, (self.out / "stdout", self.out / "stderr")
        argv = [*run.client_prefix, *argv]
        run.act("measure")
        observer = Observer(run, self.step, self.out, total_s)
        if not go:
            self._begin(observer)
        child = start_tool(run, argv, "measure", files, PIPE if go else DEVNULL, directory)
        run.scene.client, run.scene.step = child.pid, self.step
        tracer = self._attach(trace)
        if go:
            self._begin(observer)
            _tell(child, go)
        lines = Lines(self.out / watched, on_line)
        polls = [lines.poll, observer.poll, *([poll] if poll else [])]
        code = follow(run, child, limit_s, polls, observer.begun, self._steady)
        took = observer.ended()
        lines.close()
        run.scene.client = None
        _finish(run, child, code, argv, files)
        if tracer:
            tracer.stop()
        observer.finish()
        self._tell_steadiness(took)

    def _begin(self, observer: Observer) -> None:
        observer.begin()
        self.began = self._run.system.wall()

    def _attach(self, trace: Optional[Trace]) -> Optional[Tracer]:
        """The tracer, attached. After an error, undo ends it, like the load."""
        if not trace or not trace.options:
            return None
        tracer = Tracer(self._run, self.out, trace.options, trace.application, trace.connections)
        tracer.start()
        return tracer


def _tell(child: Child, go: str) -> None:
    """Send a few bytes, which fit the pipe. A process that has ended does not read them; its exit code is reported."""
    if child.popen.stdin is None:
        return
    with suppress(BrokenPipeError), child.popen.stdin as stdin:
        stdin.write(go.encode())


def run_tool(
    run: Run,
    argv: Sequence[str],
    *,
    purpose: str,
    limit_s: float,
    out: Path,
    polls: Sequence[Poll] = (),
    directory: str = "",
    as_owner: bool = False,
    stdin: str = "",
) -> None:
    """Start, wait, and complain with the tool's own words when it failed. A file beside its output holds `stdin`."""
    files = (out.with_name(out.name + ".stdout"), out.with_name(out.name + ".stderr"))
    with _reading(out.with_name(out.name + ".stdin"), stdin) as source:
        child = start_tool(run, argv, purpose, files, source, directory=directory, as_owner=as_owner)
    _finish(run, child, follow(run, child, limit_s, polls, run.system.mono()), argv, files)


@contextmanager
def _reading(path: Path, text: str) -> Iterator[int]:
    """A descriptor for reading the text. A file, because a pipe blocks its writer after 64 kB."""
    if not text:
        yield DEVNULL
        return
    path.write_text(text)
    with path.open("rb") as file:
        yield file.fileno()


def start_tool(
    run: Run,
    argv: Sequence[str],
    purpose: str,
    files: tuple[Path, Path],
    stdin: int = DEVNULL,
    directory: str = "",
    as_owner: bool = False,
) -> Child:
    """A program of the load; with `as_owner` it connects to PostgreSQL as we do."""
    env = {} if run.cluster is None else run.cluster.env if as_owner else run.cluster.load_env
    account: Account = run.cluster.account if as_owner and run.cluster else run.account
    run.emit("command", {"purpose": purpose, "argv": [*account.wrapper, *argv], "env": env})
    with files[0].open("wb") as stdout, files[1].open("wb") as stderr:
        return spawn(
            run.journal,
            argv,
            purpose=purpose,
            account=account,
            env=environment(run.job.run, env),
            directory=directory or "/",
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )


def follow(
    run: Run,
    child: Child,
    limit_s: float,
    polls: Sequence[Poll],
    begin: float,
    enough: Callable[[], bool] = lambda: False,
) -> int:
    """Exit code of the child, 0 if we ended it on purpose. Cancelled, or WorkloadFailure limit_s after `begin` on the
    monotonic clock; then undo ends the child. `polls` get the seconds since `begin`."""
    due = [0.0]
    while True:
        code = child.wait(min(POLL_S, max(0.0, begin + min(due) - run.system.mono())))
        elapsed = run.system.mono() - begin
        if code is not None:
            return code
        run.check()
        if elapsed > limit_s:
            raise WorkloadFailure(f"{child.entry['purpose']} did not end within {limit_s:g} s", "shorten it")
        due = [FAR, *(poll(elapsed) or FAR for poll in polls)]
        if enough():
            return _ended(run, child)


def _ended(run: Run, child: Child) -> int:
    if not end(run.system, child.entry):
        raise WorkloadFailure(f"{child.entry['purpose']} (pid {child.pid}) is still running", "check the host")
    child.wait(POLL_S)
    return 0


def _finish(run: Run, child: Child, code: int, argv: Sequence[str], files: tuple[Path, Path]) -> None:
    run.journal.ended(child.entry)
    if code:
        raise WorkloadFailure(
            f"{child.entry['purpose']} ended with {_ending(code)}: {Path(argv[0]).name}",
            "read the last lines of its output",
            argv=list(argv),
            code=code,
            stderr=files[1].read_bytes()[-2000:].decode(errors="replace"),
        )


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


class Lines:
    """Whole lines of a growing file. A line may end with a carriage return: fio overwrites its status line."""

    def __init__(self, path: Path, on_line: Callable[[str], None]) -> None:
        self._file, self._on_line, self._rest = path.open("rb", buffering=0), on_line, b""

    def poll(self, elapsed: float) -> None:
        read = self._rest + self._file.read()
        whole = max(read.rfind(b"\n"), read.rfind(b"\r")) + 1
        self._rest = read[whole:]
        for line in read[:whole].decode(errors="replace").splitlines():
            self._on_line(line)

    def close(self) -> None:
        self.poll(0.0)
        self._file.close()
