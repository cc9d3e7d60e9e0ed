"""python -m tests.search: simulates the tables of docs/guides/search.md. Takes half an hour on two CPUs."""

from __future__ import annotations

import argparse
import math
import multiprocessing
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from multiprocessing.pool import Pool

from tests.search.importance import SETTINGS, explain
from tests.search.simulation import Outcome, plain, search
from tests.search.surfaces import SURFACES
from tests.search.surrogate import Surrogate, best_gain

NOISES = (0.01, 0.05, 0.15)
SAMPLERS = ("tpe", "random", "qmc")
PARTS = ("searches", "limits", "importance", "alike")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.search", description=sys.modules["tests.search"].__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--runs", type=int, nargs="*", default=[50, 100])
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    options = parser.parse_args(arguments)
    with multiprocessing.Pool() as pool:
        if "searches" in options.parts:
            _searches(pool, options.seeds, options.runs)
        if "limits" in options.parts:
            _limits(pool, options.seeds, max(options.runs))
        if "importance" in options.parts:
            _importance(pool, options.seeds, max(options.runs))
        if "alike" in options.parts:
            _alike(pool, 4 * options.seeds)
    return 0


def _searches(pool: Pool, seeds: int, runs: Sequence[int]) -> None:
    """Print what the chosen candidates truly gain, for each surface, noise, budget and method."""
    for surface in SURFACES:
        best = best_gain(surface)
        print(f"\n{surface}; best possible: {_percent(best)}; {seeds} seeds each; Monte Carlo errors after ±")
        print("| noise | runs | method | gain | regret | confirmed as better | holds when deployed |")
        print("|---|---|---|---|---|---|---|")
        servers = [Surrogate(noise, surface=surface) for noise in NOISES]
        for server in [*servers, Surrogate(NOISES[1], bimodal=True, surface=surface)]:
            for count in runs:
                for sampler in SAMPLERS:
                    outcomes = pool.map(partial(search, server, count, sampler=sampler), range(seeds), 1)
                    print(_row(server, count, f"search, {sampler}", outcomes, best), flush=True)
                for sampler in SAMPLERS[:2]:
                    outcomes = pool.map(partial(plain, server, count, sampler=sampler), range(seeds), 1)
                    print(_row(server, count, f"plain, {sampler}", outcomes, best), flush=True)


def _limits(pool: Pool, seeds: int, runs: int) -> None:
    """Print the same on a server with a limit that half of the space breaks."""
    best = best_gain("formula", limited=True)
    print(f"\nwith a limit that half of the space breaks; best possible: {_percent(best)}")
    for noise in NOISES:
        server = Surrogate(noise, limited=True)
        for sampler in SAMPLERS[:2]:
            outcomes = pool.map(partial(search, server, runs, sampler=sampler), range(seeds), 1)
            print(_row(server, runs, f"with a limit, {sampler}", outcomes, best), flush=True)


def _importance(pool: Pool, seeds: int, runs: int) -> None:
    """Print how often the importance of settings has an answer, and how often it is right."""
    print()
    for noise in NOISES:
        explained = pool.map(partial(explain, noise, runs), range(seeds), 1)
        resolved = [each for each in explained if each.is_resolved]
        right, covered = sum(each.is_top_right for each in resolved), sum(each.covered for each in resolved)
        answered = f"{_share(len(resolved), len(explained))} searches have an answer"
        top = f"most important setting right: {_share(right, len(resolved))}"
        intervals = f"intervals with the true share: {_share(covered, len(resolved) * SETTINGS)}"
        print(f"importance, noise {noise:.0%}: {answered}; {top}; {intervals}", flush=True)
    alike = pool.map(partial(explain, 0.05, runs, flat=True), range(seeds), 1)
    false = sum(each.is_resolved for each in alike)
    print(f"importance, no differences: {_share(false, seeds)} searches have an answer", flush=True)


def _alike(pool: Pool, searches: int) -> None:
    """Print how often a search confirms a gain although no candidate differs from the default."""
    print()
    servers = [Surrogate(noise, faulty=False, flat=True) for noise in NOISES]
    for server in [*servers, Surrogate(NOISES[1], faulty=False, flat=True, bimodal=True)]:
        flat = pool.map(partial(search, server, 75, sampler="random"), range(searches), 1)
        confirmed, promising = sum(each.confirmed for each in flat), sum(each.false_promising for each in flat)
        trials = sum(each.trials for each in flat)
        gains = f"{_share(confirmed, len(flat))} searches confirm a gain"
        named = f"{_share(promising, trials)} candidates are called promising"
        print(f"no differences, noise {_noise(server)}: {gains}; {named}", flush=True)


def _row(server: Surrogate, runs: int, method: str, outcomes: Sequence[Outcome], best: float) -> str:
    gains = [outcome.gain for outcome in outcomes]
    error = statistics.stdev(gains) / math.sqrt(len(gains))
    chosen = [outcome for outcome in outcomes if outcome.confirmed]
    holds = sum(each.gain > 0 and not each.unstable and not each.breaks_limit for each in chosen)
    confirmed = "–" if method.startswith("plain") else _share(len(chosen), len(outcomes))
    gain = f"{_percent(statistics.mean(gains))} ± {100 * error:.1f}"
    regret = f"{-100 * math.expm1(statistics.mean(gains) - best):.1f} %"
    return f"| {_noise(server)} | {runs} | {method} | {gain} | {regret} | {confirmed} | {_share(holds, len(chosen))} |"


def _noise(server: Surrogate) -> str:
    return f"{server.noise:.0%}{', bimodal' if server.bimodal else ''}"


def _share(count: int, of: int) -> str:
    """ "94 % ± 3.4", with the Monte Carlo error in points."""
    share = count / of if of else 0.0
    return f"{100 * share:.3g} % ± {100 * math.sqrt(share * (1 - share) / max(1, of)):.1f}"


def _percent(log_gain: float) -> str:
    return f"{100 * math.expm1(log_gain):+.1f} %"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
