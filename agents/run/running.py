"""The interface of a run in progress for its parts: steps, observers, restarts of the host. It is only a type; the run
itself is in session.py, which imports these parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional, Protocol

from ..collectors import Collector
from ..host.system import System
from ..postgres.instance import Target
from ..records.journal import Journal
from ..records.processes import Account
from ..records.spool import Job, Record, Spool
from ..settings import Scene


class Run(Protocol):
    """A run's parts, records and proofs, and what its steps use."""

    spool: Spool
    job: Job
    system: System
    journal: Journal
    account: Account
    scene: Scene
    spec: dict[str, Any]
    settings: dict[str, Any]
    client_prefix: list[str]
    tracer_prefix: list[str]
    interval_s: float
    collector_cpu_s: float

    @property
    def cluster(self) -> Optional[Target]: ...

    @property
    def allowed_paths(self) -> list[dict[str, str]]: ...

    @property
    def stopped(self) -> bool: ...

    def enter(self, state: str, **more: Any) -> None: ...

    def begin(self, step: str) -> None: ...

    def emit(self, kind: str, data: Record) -> None: ...

    def log(self, level: str, message: str) -> None: ...

    def check(self) -> None: ...

    def watch(self) -> None: ...

    def verify(self, phase: str) -> None: ...

    def act(self, moment: str) -> None: ...

    def stop_server(self) -> None: ...

    def note(self, message: str) -> None: ...

    def make_collectors(self, out: Path) -> list[Collector]: ...

    def scratch_path(self, data_dir: str, step: str) -> Path: ...
    def make_scratch(self, data_dir: str, step: str) -> Path: ...

    def hold(self, descriptor: int) -> None: ...
