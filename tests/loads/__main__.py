"""python -m tests.loads tpcc|twin: measures and prints the figures in docs/reference/tpcc.md and docs/guides/twin.md.

Starts the whole stack, registers this machine over SSH, and creates the campaigns with the API. Needs root.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.loads import tpcc, twin
from tests.loads.checks import Checks
from tests.servers.ground import prepare


def main(arguments: Sequence[str]) -> int:
    """Return 1 if a check fails, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.loads", description=(__doc__ or "").splitlines()[0])
    loads = parser.add_subparsers(dest="load", required=True)
    of_tpcc = loads.add_parser("tpcc", help="mix, conditions, time to load, two standbys")
    of_tpcc.add_argument("--transactions", type=int, default=20_000, help="of each run")
    of_tpcc.add_argument("--warehouses", type=int, default=10, help="of the data set that is compared with pgbench -i")
    of_twin = loads.add_parser("twin", help="a twin compared with the database that it was captured from")
    of_twin.add_argument("--production", choices=twin.SOURCES, default=twin.SOURCES[0], help="a database and its load")
    of_twin.add_argument("--repetitions", type=int, default=5)
    of_twin.add_argument("--seconds", type=int, default=8, help="of each run")
    of_twin.add_argument("--effects", nargs="*", choices=list(twin.EFFECTS), default=list(twin.EFFECTS))
    options = parser.parse_args(arguments)
    checks = Checks()
    with prepare() as ground:
        ground.stack.manage("allow_commands", "ada")
        if options.load == "tpcc":
            tpcc.measure(ground, checks, options.transactions, options.warehouses)
        else:
            twin.measure(ground, checks, options.production, options.repetitions, options.seconds, options.effects)
    print(checks.summary, flush=True)
    return int(bool(checks.failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
