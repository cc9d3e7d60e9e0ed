"""The catalogue of collectors: one file per source of the host's own numbers, or of the server's."""

from __future__ import annotations

from .base import Collector, NotAvailable, Subject
from .cgroup import Cgroup
from .cpu import Cpu
from .disk import Disk
from .frequency import Frequency
from .memory import Memory
from .network import Network
from .numa import Numa
from .over_sql.postgresql import PostgreSQL
from .over_sql.round_trip import RoundTrip
from .perf import Perf
from .pressure import Pressure
from .processes import Processes

_ALL = (Cpu, Memory, Numa, Disk, PostgreSQL, Processes, Pressure, Cgroup, Network, RoundTrip, Frequency, Perf)
COLLECTORS: dict[str, type[Collector]] = {collector.name: collector for collector in _ALL}
USUAL = [name for name, collector in COLLECTORS.items() if collector.usual]  # for runs that name none

__all__ = ["COLLECTORS", "USUAL", "Collector", "NotAvailable", "Subject"]
