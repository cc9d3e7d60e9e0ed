"""python -m tests.search: simulates the tables of docs/guides/search.md. Takes hours on two CPUs, less with --seeds."""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence

from tests.search.importance import explain
from tests.search.simulation import Outcome, plain, search
from tests.search.surrogate import SPACE, Surrogate, best_gain

NOISES = (0.01, 0.05, 0.15)
SAMPLERS = ("tpe", "random", "qmc")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.search", description=sys.modules["tests.search"].__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--runs", type=int, nargs="*", default=[100])
    options = parser.parse_args(arguments)
    best = best_gain()
    print(f"best possible: {_percent(best)}; {options.seeds} seeds each; Monte Carlo errors after ±")
    print("| noise | runs | method | gain | confirmed as better | holds when deployed |\n|---|---|---|---|---|---|")
    for noise in NOISES:
        for runs in options.runs:
            for sampler in SAMPLERS:
                outcomes = [search(Surrogate(noise), runs, seed, sampler) for seed in range(options.seeds)]
                print(_row(noise, runs, f"search, {sampler}", outcomes), flush=True)
            library = [plain(Surrogate(noise), runs, seed) for seed in range(options.seeds)]
            print(_row(noise, runs, "plain TPE", library), flush=True)
    print(f"with a limit that half of the space breaks; best possible: {_percent(best_gain(limited=True))}")
    for noise in NOISES:
        for sampler in SAMPLERS[:2]:
            server = Surrogate(noise, limited=True)
            outcomes = [search(server, options.runs[0], seed, sampler) for seed in range(options.seeds)]
            print(_row(noise, options.runs[0], f"with a limit, {sampler}", outcomes), flush=True)
    for noise in NOISES:
        explained = [explain(noise, options.runs[0], seed) for seed in range(options.seeds)]
        resolved = [each for each in explained if each.is_resolved]
        right, covered = sum(each.is_top_right for each in resolved), sum(each.covered for each in resolved)
        print(
            f"importance, noise {noise:.0%}: {_share(len(resolved), len(explained))} searches have an answer;", end=" "
        )
        print(f"most important setting right: {_share(right, len(resolved))};", end=" ")
        print(f"intervals with the true share: {_share(covered, len(resolved) * len(SPACE.dimensions))}", flush=True)
    false = sum(explain(0.05, options.runs[0], seed, flat=True).is_resolved for seed in range(options.seeds))
    print(f"importance, no differences: {_share(false, options.seeds)} searches have an answer", flush=True)
    for noise in NOISES:
        flat = [
            search(Surrogate(noise, faulty=False, flat=True), 75, seed, "random") for seed in range(4 * options.seeds)
        ]
        confirmed, promising = sum(each.confirmed for each in flat), sum(each.false_promising for each in flat)
        trials = sum(each.trials for each in flat)
        print(f"no differences, noise {noise:.0%}: {_share(confirmed, len(flat))} searches confirm a gain;", end=" ")
        print(f"{_share(promising, trials)} candidates are called promising", flush=True)
    return 0


def _row(noise: float, runs: int, method: str, outcomes: Sequence[Outcome]) -> str:
    gains = [outcome.gain for outcome in outcomes]
    error = statistics.stdev(gains) / math.sqrt(len(gains))
    chosen = [outcome for outcome in outcomes if outcome.confirmed]
    holds = sum(each.gain > 0 and not each.unstable and not each.breaks_limit for each in chosen)
    confirmed = "–" if method.startswith("plain") else _share(len(chosen), len(outcomes))
    gain = f"{_percent(statistics.mean(gains))} ± {100 * error:.1f}"
    return f"| {noise:.0%} | {runs} | {method} | {gain} | {confirmed} | {_share(holds, len(chosen))} |"


def _share(count: int, of: int) -> str:
    """ "94 % ± 3.4", with the Monte Carlo error in points."""
    share = count / of if of else 0.0
    return f"{100 * share:.3g} % ± {100 * math.sqrt(share * (1 - share) / max(1, of)):.1f}"


def _percent(log_gain: float) -> str:
    return f"{100 * math.expm1(log_gain):+.1f} %"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
