"""Base class of workloads: pure `check`, `argv`, `duration` and `writes`; measured through a Stage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterable, Optional, Sequence

from ..collectors.per_transaction import PER_TRANSACTION
from ..errors import PlanFailure, Unplannable
from ..host.paths import Named
from ..measure import tracer
from ..wire.columns import Columns

if TYPE_CHECKING:
    from typing import Protocol

    from ..postgres.instance import Target
    from ..run.bench import Bench

    class Stage(Protocol):
        """A step of a run, as its workload sees it (stage.py)."""

        step: str
        out: Path
        began: float

        @property
        def scratch(self) -> Path: ...

        @property
        def cluster(self) -> Target: ...

        def tool(self, name: str) -> str: ...

        @property
        def seed(self) -> int: ...

        def earlier(self, step: str) -> Path: ...

        def check(self) -> None: ...

        def progress(self, done: float, note: str) -> None: ...

        def log(self, level: str, message: str) -> None: ...

        def keep(self, path: Path) -> None: ...

        def clock(self) -> float: ...

        def room(self, directory: str) -> Path: ...

        def claim(self, path: str) -> str: ...

        def sample(self, source: str, t: float, values: dict[str, float]) -> None: ...

        def allowed(self, directory: str) -> str: ...

        def execute(self, argv: Sequence[str], *, purpose: str, limit_s: float, directory: str = "") -> None: ...

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
            poll: Optional[Callable[[float], None]] = None,
            trace: Optional[Trace] = None,
        ) -> None: ...


Options = dict[str, Any]
Schema = dict[str, Any]

DAY_S = 86400.0


@dataclass(frozen=True)
class Metric:
    """A figure that a step of this kind yields: its unit, and which direction is better ("higher" or "lower")."""

    unit: str
    better: str


@dataclass(frozen=True)
class Trace:
    """The tracer of a load, and how to recognise the load's backends: the number and name of its connections."""

    options: Options
    application: str
    connections: int


# Figures of an author's own, as options declare them: name -> unit and direction.
FIGURES: Schema = {
    "type": "object",
    "propertyNames": {"type": "string", "pattern": r"^[A-Za-z_][A-Za-z0-9_]{0,39}$"},
    "additionalProperties": {
        "type": "object",
        "properties": {
            "unit": {"type": "string", "pattern": r"^[^\x00-\x1f]{1,20}$"},
            "better": {"type": "string", "enum": ["higher", "lower"]},
        },
        "required": ["unit", "better"],
        "additionalProperties": False,
    },
}
# Additional figures of a traced step.
TRACED = {"tracer ns per event": Metric("ns", "lower")}
# Figures of a step that counts transactions, from collectors.
OF_TRANSACTIONS = {name: Metric(each.unit, each.better) for name, each in PER_TRANSACTION.items() if each.better}


@dataclass(frozen=True)
class Context:
    """Paths that an argument list needs: the tool, where its output goes, where it may write."""

    program: str
    out: str
    scratch: str


def declared(options: Options) -> dict[str, Metric]:
    """Pure. The figures of an author's own."""
    return {name: Metric(each["unit"], each["better"]) for name, each in options.get("figures", {}).items()}


class Workload(ABC):
    """Base of all workloads; see the registry in workloads/__init__.py."""

    kind: str
    title: str
    help: str
    schema: Schema
    metrics: dict[str, Metric]  # what campaigns may compare, by the names that the server's measure/ gives
    main: tuple[str, ...] = ()  # those of them that a summary of many steps shows; all where none is named
    measures = True  # whether a step of it can yield figures
    tools: tuple[str, ...] = ()
    needs_postgres = False
    needs_directory = False
    dataset = ""  # the kind of data set that it needs; "" for any
    samples: dict[str, Columns] = {}  # source -> the columns of the time series that a step of it yields
    rates: tuple[str, ...] = ()  # columns of its source that add up to its throughput
    ends_when_steady = False  # whether a warm-up may wait until its throughput is steady
    bundled = False  # its tool comes with PostgreSQL: with that of the option bin_dir
    since: dict[str, int] = {}  # option -> the first PostgreSQL version whose tool has it

    def check(self, options: Options) -> None:
        """Pure. Unplannable for what the schema cannot say."""

    def check_version(self, options: Options, major: int) -> None:
        """Pure. Unplannable for an option that the tool of this PostgreSQL lacks."""
        for name, first in self.since.items():
            default = self.schema["properties"][name].get("default")
            if major < first and options.get(name, default) != default:
                accepted = f"PostgreSQL {first} or later; {self.kind} of {major} lacks it"
                raise Unplannable(f"{self.kind}.{name}", options[name], accepted)

    def follows(self, options: Options) -> Optional[str]:
        """Pure. The earlier step of the same run whose result these options need."""
        return None

    def loop(self, options: Options) -> str:
        """Pure. "closed" where a transaction waits for the end of the last one, "open" where it does not, "" if
        that does not apply."""
        return ""

    def named(self, name: str) -> str:
        """Pure. The name in `metrics` of a figure, also where a tool makes names out of its jobs or scripts."""
        return name

    def needs(self, options: Options) -> tuple[str, ...]:
        """Pure. The tools that a step with these options wants on the host."""
        return (*self.tools, *([tracer.requested(options)["tool"]] if self.traces(options) else []))

    def connections(self, options: Options) -> int:
        """Pure. How many connections to PostgreSQL a step with these options opens at once; 0 if unknown."""
        return 0

    def traces(self, options: Options) -> bool:
        """Pure. Whether it starts a tracer beside the load."""
        return bool(tracer.requested(options))

    def code(self, options: Options) -> dict[str, str]:
        """Pure. Field -> text of each program, script or SQL that its author brings, which needs a permission."""
        script = (options.get("tracer") or {}).get("script")
        return {"tracer.script": script} if script else {}

    def figures(self, options: Options) -> dict[str, Metric]:
        """Pure. The figures of a step with these options; most tools yield the same with all options."""
        return self.metrics

    def metric(self, name: str) -> Optional[Metric]:
        """Pure. The metric of that name; None for none."""
        return self.metrics.get(self.named(name))

    def is_main(self, name: str) -> bool:
        """Pure. Whether a summary of many steps shows this figure."""
        return self.named(name) in (self.main or self.metrics)

    def paths(self, options: Options) -> list[Named]:
        """Pure. The paths that the options name; the host's owner must have allowed each."""
        return []

    @abstractmethod
    def argv(self, options: Options, context: Context) -> list[str]:
        """Pure. The argument list that is measured."""

    def duration(self, options: Options) -> Optional[float]:
        """Pure. Seconds of the measured part if the options determine them, for progress and limits."""
        return None

    def for_time(self, options: Options, seconds: int) -> Optional[Options]:
        """Pure. Options with which the same load runs for this time, reports a rate each second and keeps nothing else;
        None if the tool cannot do that."""
        return None

    def scripts(self, options: Options) -> list[tuple[str, str]]:
        """Pure. (name, text) of the files that `parse` passes to its tool, besides the options."""
        return []

    def parse(self, options: Options, bench: Bench) -> Iterable[PlanFailure]:
        """Errors that the tool reports for the scripts in these options; Unplannable if it lacks an option. Nothing is
        run, and no server is needed."""
        return ()

    def writes(self, options: Options) -> bool:
        """Pure. Whether it may change its data set; True if that is unknown."""
        return self.needs_postgres

    @abstractmethod
    def measure(self, options: Options, stage: Stage) -> None:
        """Run the tool; its raw output stays in stage.out."""
