"""Create a data set in a database, step by step; after a crash, this continues with the interrupted step."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence

from ..errors import HostFailure, Unplannable, WorkloadFailure
from ..measure.stage import Lines, run_tool
from ..workloads.base import DAY_S
from .base import STEP, Data, Options, Step, size_of
from .progress import Estimate, rows_of

if TYPE_CHECKING:
    from ..postgres.instance import Target
    from ..run.running import Run

LIMIT_S = 7 * DAY_S
REPORT_S = 5.0  # between two reports; pgbench -q prints as often
# Additional space for WAL, and for sorting an index.
SPARE = 64 << 20

_COMMENT = "select shobj_description(oid, 'pg_database')::json from pg_database where datname = '{name}'"
_CREATE_INDEX = """
select json_build_object('of', greatest(blocks_total, 1), 'done', blocks_done, 'rows', tuples_done,
  'of_rows', tuples_total) from pg_stat_progress_create_index where datname = '{name}' limit 1
"""
_VACUUM = """
select json_build_object('of', greatest(heap_blks_total, 1), 'done', heap_blks_scanned)
from pg_stat_progress_vacuum where datname = '{name}' order by heap_blks_total desc limit 1
"""
_VIEWS = {"create_index": (12, _CREATE_INDEX), "vacuum": (10, _VACUUM)}


def quoted(text: str) -> str:
    """A literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


class Tools:
    """psql and pgbench of a run, with what they write kept below out/dataset."""

    def __init__(self, run: Run) -> None:
        assert run.cluster is not None  # noqa: S101 - for the type checker; planning asks for a target
        self.run, self.cluster = run, run.cluster
        self._out = run.job.path / "out" / STEP
        self._out.mkdir(parents=True, exist_ok=True, mode=0o700)

    def own(self, purpose: str, database: str, *commands: str) -> None:
        """Commands of ours, however long they take, after the end of our session. WorkloadFailure with the server's
        words."""
        self.cluster.disconnect()
        argv = [self.cluster.tool("psql"), "-X", "-q", "-w", "-v", "ON_ERROR_STOP=1", "-d", database]
        argv += [part for command in commands for part in ("-c", command)]
        run_tool(self.run, argv, purpose=f"{STEP} {purpose}", limit_s=LIMIT_S, out=self._out / purpose, as_owner=True)

    def psql(self, purpose: str, database: str, *commands: str, poll: Optional[Callable[[float], None]] = None) -> None:
        """Run each command by itself, as the account of the load. WorkloadFailure has the server's message."""
        argv = [self.cluster.tool("psql"), "-X", "-q", "-w", "-v", "ON_ERROR_STOP=1", "-d", database]
        self.execute(purpose, [*argv, *(part for command in commands for part in ("-c", command))], poll)

    def execute(
        self, purpose: str, argv: Sequence[str], poll: Optional[Callable[[float], None]] = None, stdin: str = ""
    ) -> None:
        polls, out = [poll] if poll else [], self._out / purpose
        run_tool(self.run, argv, purpose=f"{STEP} {purpose}", limit_s=LIMIT_S, out=out, polls=polls, stdin=stdin)

    def stdout(self, purpose: str) -> Path:
        return self._out / f"{purpose}.stdout"

    def stderr(self, purpose: str) -> Path:
        return self._out / f"{purpose}.stderr"

    def progress(self, done: float, eta_s: Optional[float], note: str) -> None:
        left = None if eta_s is None else round(eta_s, 1)
        self.run.emit("progress", {"step": STEP, "done": round(done, 4), "eta_s": left, "note": note})


def identify(tools: Tools, data: Data, options: Options) -> str:
    """The fingerprint of the data on this host, as it is now. HostFailure if they cannot be created."""
    return data.fingerprint(options, tools.cluster.major, data.source(options, tools))


class Making:
    """The steps of one data set in one database, which is there."""

    def __init__(self, tools: Tools, database: str, data: Data, options: Options, fingerprint: str) -> None:
        self._tools, self._database, self._fingerprint = tools, database, fingerprint
        self._cluster: Target = tools.cluster
        self._steps = data.steps(options, self._cluster.major)
        self._data, self._options = data, options
        self.seconds: dict[str, float] = {}

    def resumable(self) -> bool:
        """Whether the database holds whole steps of this data set that are worth going on from."""
        if not self._cluster.keeps_progress:
            return False
        mark = self._cluster.sql(_COMMENT.format(name=self._database), "postgres") or {}
        by_name = {step.name: step for step in self._steps}
        if mark.get("fingerprint") != self._fingerprint or not all(name in by_name for name, _ in mark["steps"]):
            return False
        began = by_name.get(mark.get("began", ""))
        self.seconds = dict(mark["steps"])
        worth = any(by_name[name].data for name in self.seconds)
        if not worth or (began and not began.atomic and began.name not in self.seconds):
            self.seconds = {}
        return bool(self.seconds)

    def go(self) -> None:
        """Do the remaining steps."""
        make_tablespaces(self._cluster, self._data.tablespaces(self._options))
        estimate = Estimate(self._steps, self.seconds)
        for step in self._steps:
            if step.name not in self.seconds:
                self._do(step, estimate)
        if identify(self._tools, self._data, self._options) != self._fingerprint:
            self.seconds = {}
            self._comment("")  # no step to continue with
            raise self._data.changed(self._options)
        self._tools.progress(1.0, 0.0, "creation, then a checkpoint")
        # As after a restore: the measurement must not include writing out the fresh data.
        if self._cluster.can_checkpoint:
            self._tools.own("checkpoint", self._database, "checkpoint")

    def _do(self, step: Step, estimate: Estimate) -> None:
        tools, system = self._tools, self._tools.run.system
        tools.run.check()
        if step.clean:
            self._tools.psql("clean", self._database, step.clean)
        self._comment(step.name)
        begin, watcher = system.mono(), _Watcher(tools, self._database, step, estimate)
        if step.argv:
            argv = [self._cluster.tool(step.tool), *step.argv, self._database]
            try:
                tools.execute(step.name, argv, watcher.poll, step.stdin)
            except WorkloadFailure as failure:
                raise self._data.explain(failure, self._options, tools) from failure
        else:
            # Several statements in one command are one transaction: the step is on record if and only if it is done.
            mark = self._mark(step.name, [*self.seconds.items(), (step.name, 0.0)])
            commands = [f"{step.sql}\n;\n{mark}"] if step.atomic else [step.sql, *([mark] if mark else [])]
            tools.psql(step.name, self._database, *commands, poll=watcher.poll)
        self.seconds[step.name] = round(system.mono() - begin, 3)
        self._comment(step.name)
        tools.progress(*estimate.tell(step, 0.0, None), f"{step.name} took {self.seconds[step.name]:.1f} s")

    def _comment(self, began: str) -> None:
        if self._cluster.keeps_progress:
            self._cluster.sql(self._mark(began, list(self.seconds.items())), "postgres")

    def _mark(self, began: str, steps: list[tuple[str, float]]) -> str:
        if not self._cluster.keeps_progress:
            return ""
        mark = {"fingerprint": self._fingerprint, "steps": steps, "began": began}
        return f"comment on database {self._database} is {quoted(json.dumps(mark))}"


class _Watcher:
    """Reports a step while its tool runs."""

    def __init__(self, tools: Tools, database: str, step: Step, estimate: Estimate) -> None:
        self._tools, self._database, self._step, self._estimate = tools, database, step, estimate
        self._next, self._note = 0.0, step.title
        self._fraction: Optional[float] = None
        self._lines: Optional[Lines] = None

    def poll(self, elapsed: float) -> None:
        if self._lines is None:
            self._lines = Lines(self._tools.stderr(self._step.name), self._on_line)
        self._lines.poll(elapsed)
        if elapsed >= self._next:
            self._next = elapsed + REPORT_S
            if elapsed >= REPORT_S:
                self._ask()
            progress = self._estimate.tell(self._step, elapsed, self._fraction)
            self._tools.progress(*progress, f"{self._step.name}: {self._note}")

    def _on_line(self, line: str) -> None:
        rows = rows_of(line)
        if rows:
            self._fraction = rows[0] / rows[1] if rows[1] else None
            self._note, self._next = f"{self._step.title}, {rows[0]:,} of {rows[1]:,} rows", 0.0

    def _ask(self) -> None:
        """PostgreSQL, how far it is: by the blocks that it has read, and the rows that it has then written."""
        if self._step.done:
            self._fraction = float(self._tools.cluster.load_sql(self._step.done, self._database))
            return
        if self._step.reads:
            self._fraction = _share_read(self._tools.run, self._step.reads)
            return
        since, query = _VIEWS.get(self._step.watch, (0, ""))
        if not query or self._tools.cluster.major < since:
            return
        row: Any = self._tools.cluster.sql(query.format(name=self._database), "postgres")
        if row:
            read = row["done"] / row["of"]
            written = row["rows"] / row["of_rows"] if row.get("of_rows") else read
            self._fraction = (read + written) / 2 if row.get("of_rows") else read * (0.5 if "rows" in row else 1.0)


def _share_read(run: Run, path: str) -> Optional[float]:
    """The share of a file or directory that the running tool and its workers have read; None if that is unknown."""
    pids = [entry["pid"] for entry in run.journal.open_processes() if entry["purpose"].startswith(STEP)]
    for pid in pids:
        pids += run.system.children(pid)
    counts = [re.match(r"rchar: (\d+)", run.system.text(f"/proc/{pid}/io")) for pid in pids]
    size = size_of(run.system, path)
    return min(0.99, sum(int(count.group(1)) for count in counts if count) / size) if size else None


def make_tablespaces(cluster: Target, tablespaces: Any) -> None:
    """Create missing tablespaces whose directory is given. Unplannable for one without a directory."""
    there = cluster.sql("select json_agg(spcname) from pg_tablespace", "postgres")
    for name, directory in tablespaces.items():
        if name not in there:
            _create_tablespace(cluster, name, directory, there)
        if cluster.load_role:
            cluster.sql(f'grant create on tablespace "{name}" to {cluster.load_role}', "postgres")


def _create_tablespace(cluster: Target, name: str, directory: str, there: list[str]) -> None:
    if not directory:
        accepted = f"{', '.join(there)}, or a tablespace with its directory"
        raise Unplannable("dataset.tablespace", name, accepted)
    if cluster.home is None:
        raise Unplannable(
            "dataset.tablespaces",
            name,
            f"{', '.join(there)}: the agent does not create tablespaces in an existing cluster",
        )
    cluster.sql(f'create tablespace "{name}" location {quoted(directory)}', "postgres")


def check_room(run: Run, directory: str, need: int, what: str) -> None:
    """HostFailure if `need` bytes do not fit. `what`: the beginning of the message, up to that number."""
    space = run.system.space(directory)
    if need and space and space[1] * 1024 < need + SPARE:
        free = space[1] * 1024
        raise HostFailure(
            f"{what} {gigabytes(need)}, but {directory} has only {gigabytes(free)} free",
            "free some space, choose a smaller data set, or set another data directory for the host",
            need_bytes=need,
            free_bytes=free,
        )


def gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
