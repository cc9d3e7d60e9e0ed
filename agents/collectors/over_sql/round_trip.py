"""The time of trivial statements on one persistent connection, if the load reaches PostgreSQL over TCP.

psql measures each statement itself (\\timing), so pipes and the agent's schedule add nothing. The statements of one
sample follow one another at once, and their times are read with the next sample: the agent never waits for them.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from ...wire.columns import columns
from ..base import Collector, NotAvailable, rounded
from .psql import ARGV, Psql

if TYPE_CHECKING:
    from ...postgres.instance import Target

STATEMENTS = 20  # of one sample
CONNECT_S = 15.0
SILENCE_S = 30.0  # after which the collector ends
_TIME = re.compile(rb"^Time: (\d+[.,]\d+) ms")


class RoundTrip(Collector):
    name = "round_trip"
    help = "Round trip from the client host to a PostgreSQL reached over TCP: 20 trivial statements each second"
    needs_postgres = True
    needs_tcp = True
    columns = columns(
        "round trip",
        "ms",
        {"p50_ms": "median", "p95_ms": "95th percentile", "max_ms": "slowest statement"},
        gauge=True,
        better="lower",
        shown=True,
    )

    def start(self) -> None:
        cluster, start = self.subject.cluster, self.subject.start_client
        if cluster is None or start is None or not is_over_tcp(cluster):
            raise NotAvailable("the load does not reach PostgreSQL over TCP")
        self._psql, self._cost = Psql(self.system, start([cluster.tool("psql"), *ARGV], "round trip")), 0.0
        self._times: list[float] = []
        try:
            # The first statement of a new session takes longer, so it is not measured.
            self._psql.need("set application_name = 'proving_ground'; select 0;", CONNECT_S)
            self._psql.ask("\\timing on")
        except NotAvailable:
            self._psql.close()
            raise
        self._send()

    def _send(self) -> None:
        self._psql.ask("select 0;\n" * STATEMENTS)
        self._sent_at, self._times = self.system.mono(), []

    def sample(self) -> dict[str, float]:
        """Return nothing until all statements of the previous sample have been answered."""
        self._read()
        if len(self._times) < STATEMENTS:
            if self.system.mono() - self._sent_at > SILENCE_S:
                raise NotAvailable(f"PostgreSQL did not answer for {SILENCE_S:g} s")
            return {}
        values = figures(self._times)
        self._send()
        return values

    def _read(self) -> None:
        while len(self._times) < STATEMENTS and (line := self._psql.line(0.0)) is not None:
            match = _TIME.match(line)
            if match:
                self._times.append(float(match.group(1).replace(b",", b".")))

    def finish(self) -> dict[str, float]:
        self._cost = self.apart_cpu_s()
        self._psql.close()
        return {}

    def apart_cpu_s(self) -> float:
        return max(self._cost, self.system.cpu_s(self._psql.pid))


def is_over_tcp(cluster: Target) -> bool:
    """Whether clients of this PostgreSQL connect over TCP."""
    return not cluster.env.get("PGHOST", "/").startswith("/")


def figures(times_ms: list[float]) -> dict[str, float]:
    """Pure. Median, 95th percentile (both by nearest rank) and maximum of at least one time."""
    ordered = sorted(times_ms)
    percents = {"p50_ms": 50, "p95_ms": 95, "max_ms": 100}
    return {name: rounded(ordered[math.ceil(len(ordered) * percent / 100) - 1]) for name, percent in percents.items()}
