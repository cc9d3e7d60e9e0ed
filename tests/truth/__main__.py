"""python -m tests.truth NAME ...: simulate, print the figures and publish them."""

from __future__ import annotations

import argparse
import sys
import time

from tests.truth import SCENARIOS, report
from tests.truth.scenario import broken, simulate


def main(arguments: list[str]) -> int:
    """1 where a scenario breaks its limits that is not known to."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth", description=sys.modules["tests.truth"].__doc__)
    parser.add_argument("names", nargs="*", help="how names of scenarios begin, or all")
    parser.add_argument("--campaigns", type=int, help="as many of each")
    options = parser.parse_args(arguments)
    chosen = [
        each
        for each in SCENARIOS.values()
        if "all" in options.names or each.name.startswith(tuple(options.names) or "\0")
    ]
    if not chosen:
        print("\n".join(SCENARIOS))
        return 0
    measured, wrong = report.read(), False
    for scenario in chosen:
        begun = time.monotonic()
        measured[scenario.name] = simulate(scenario, options.campaigns or scenario.campaigns)
        breaks = broken(scenario, measured[scenario.name])
        wrong |= bool(breaks) and not scenario.open
        line = report.row(scenario, measured[scenario.name]).strip()
        print(line, f"{time.monotonic() - begun:.0f} s", *breaks, flush=True)
        report.write(measured)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
