"""python -m tests.faults.searches [--kills 30] [--seed 24] [--shared]: searches of real runs, one after the other,
while dispatcher, worker, web server, Valkey and PostgreSQL are killed with SIGKILL at seeded random moments. Then every
trial is checked. As root.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from datetime import date

from tests.faults.counts import document
from tests.faults.counts.ledger import load, save
from tests.faults.injection import siege
from tests.faults.injection.matrix import loop_device
from tests.faults.injection.siege import Siege
from tests.faults.searches.besieged import BesiegedSearch, order
from tests.faults.searches.findings import SearchFindings
from tests.faults.soak import say
from tests.session import needs

SEED = 24
RUNS = 42  # budget of a search


def kill_all(besieged: Siege, kills: int) -> list[BesiegedSearch]:
    """Start searches one after the other until `kills` kills are done. All of them have ended."""
    searches: list[BesiegedSearch] = []
    names = list(BesiegedSearch(besieged).services)
    for number, service in enumerate(order(besieged.chance, names, kills), 1):
        if not searches or not searches[-1].is_running:
            searches.append(BesiegedSearch(besieged))
            searches[-1].start(RUNS, seed=besieged.chance.randrange(2**32))
        searches[-1].kill(service)
        say(f"{number} of {kills}: {service}; search {len(searches)}, {searches[-1].read()['spent_runs']} runs")
    searches[-1].finish()
    return searches


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.searches")
    parser.add_argument("--kills", type=int, default=30)
    siege.arguments(parser)
    parser.set_defaults(seed=SEED)
    options = parser.parse_args(argv)
    needs.demand_root(parser)
    with (
        loop_device() as device,
        siege.prepare(options.seed, siege.read_ahead(device), shared=options.shared) as besieged,
    ):
        searches = kill_all(besieged, options.kills)
        findings = [search.audit() for search in searches]
        left = besieged.left()
    harms = [*(harm for finding in findings for harm in finding.harms), *(f"left changed: {name}" for name in left)]
    for harm in harms:
        say(harm)
    if harms:
        return 1
    sentence = describe(searches, findings, options)
    save({**load(), "searches": {"sentence": sentence}})
    document.write()
    say(sentence)
    return 0


def describe(searches: list[BesiegedSearch], findings: list[SearchFindings], options: argparse.Namespace) -> str:
    killed: Counter[str] = sum((search.killed for search in searches), Counter())
    times = ", ".join(f"{name} {count}" for name, count in sorted(killed.items()))
    trials, rounds, runs = (
        sum(getattr(finding, name) for finding in findings) for name in ("trials", "rounds", "runs")
    )
    turns = sum(search.between_rounds for search in searches)
    return (
        f"Searches under fire on {date.today().isoformat()}, seed {options.seed}: {killed.total()} kills with SIGKILL "
        f"at random moments, {turns} of them between two rounds. Killed: {times}. The {len(findings)} searches had "
        f"{rounds} rounds, {trials} trials and {runs} runs. Trials lost 0, tried twice 0, with results of other values "
        f"0. Runs and events lost or duplicated 0, settings left changed 0.{siege.caveat(options)}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
