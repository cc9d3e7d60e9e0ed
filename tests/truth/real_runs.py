"""Real campaigns with a known truth: identical ones compared in pairs, and a setting whose effect is known.

    nice -n 5 python -m tests.truth.real_runs --pairs 30

It starts a stack with this machine as its host and prints three tables:

- how many of the pairs Compare calls different, as soon as they ended and with the history of all of them. Beside it:
  how many Welch's t test of the two campaigns alone calls different;
- how much TPS and CPU time per transaction of the same runs vary;
- the verdict, the mechanism and the other figures of a campaign with synchronous_commit off and on.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scipy import stats as scipy_stats

from common.verdicts import verdict as verdict_of
from common.wording import percent, signed
from tests.servers.ground import Ground, prepare
from tests.truth.campaigns import CLAIMS

LOAD = {"scale": 10, "mode": "prepared", "clients": 4, "jobs": 1, "progress_s": 1}
FIGURES = ("tps", "cpu_per_transaction")
SAMPLE = 20  # the variation of these first runs is shown beside that of all
SAME = {"name": "server cpus", "levels": [{"label": "both", "set": {"settings.cpu_affinity.server": "0-1"}}]}
COMMIT = {
    "name": "synchronous_commit",
    "levels": [{"label": value, "set": {"settings.postgresql.synchronous_commit": value}} for value in ("off", "on")],
}
EFFECT_REPETITIONS = 8  # the mechanism needs several figures to be sure


@dataclass
class Real:
    """A running stack, and how long each run measures. `values`: campaign -> figure -> one value for each run."""

    ground: Ground
    seconds: int
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def campaign(self, builtin: str, factor: dict[str, Any], repetitions: int) -> str:
        """Run a campaign to its end; its ID. SystemExit if a run failed."""
        client = self.ground.client
        options = LOAD | {"builtin": builtin, "time_s": self.seconds}
        workload = client.post("workloads/", name=builtin, kind="pgbench", options=options)
        name = str(factor["name"])
        created = client.post(
            "campaigns/", name=name, question=f"does {name} matter?", host=self.ground.host["id"],
            workload=workload["id"], factors=[factor], repetitions=repetitions,
        )  # fmt: skip
        identity = str(created["id"])
        client.post(f"campaigns/{identity}/start/")
        while not (ended := client.get(f"campaigns/{identity}/"))["results_ready"]:
            time.sleep(1)
            self.ground.supervisor.check()
        if ended["progress"]["failed"]:
            raise SystemExit(f"runs of campaign {identity} failed: {ended['progress']}")
        self.values[identity] = {figure: self._measured(identity, figure) for figure in FIGURES}
        return identity

    def _measured(self, campaign: str, figure: str) -> list[float]:
        rows = self.ground.client.get(f"measurements/?campaign={campaign}&name={figure}&page_size=200")["results"]
        return [row["value"] for row in rows]

    def compare(self, a: str, b: str) -> dict[str, Any]:
        """The comparison of two campaigns, from the API."""
        (comparison,) = self.ground.client.get(f"compare/?of=campaign:{a}&of=campaign:{b}")["comparisons"]
        return dict(comparison)

    def welch_differs(self, a: str, b: str) -> bool:
        """Whether the runs of two campaigns alone differ at 5 %."""
        logs = [[math.log(value) for value in self.values[each]["tps"]] for each in (a, b)]
        return bool(scipy_stats.ttest_ind(*logs, equal_var=False).pvalue < 0.05)


def identical_pairs(real: Real, pairs: int, repetitions: int) -> None:
    """Pairs of identical campaigns, each compared as soon as it has ended."""
    made: list[tuple[str, str, dict[str, Any]]] = []
    for number in range(pairs):
        a, b = (real.campaign("select-only", SAME, repetitions) for _ in range(2))
        made.append((a, b, real.compare(a, b)))
        print(f"pair {number + 1:2}: {_line(made[-1][2])}", flush=True)
    at_once = [comparison for _, _, comparison in made]
    later = [real.compare(a, b) for a, b, _ in made]
    judged = [comparison for comparison in at_once if "not included" not in comparison["method"]]
    print(f"\n{pairs} pairs of identical campaigns, {repetitions} runs of {real.seconds} s each; false differences:")
    print(
        f"  by Compare when they had ended     {_claimed(at_once)} of {pairs}, {len(judged)} of them with an interval"
    )
    print(f"  by Compare with the whole history  {_claimed(later)} of {pairs}")
    print(f"  intervals over 0, whole history    {sum(map(_covers_zero, later))} of {pairs}")
    print(f"  by Welch's t test without history  {sum(real.welch_differs(a, b) for a, b, _ in made)} of {pairs}")


def _claimed(comparisons: list[dict[str, Any]]) -> int:
    return sum(comparison["verdict"] in CLAIMS for comparison in comparisons)


def _covers_zero(comparison: dict[str, Any]) -> bool:
    low, high = comparison["relative_low"], comparison["relative_high"]
    return low is not None and low <= 0 <= high


def _line(comparison: dict[str, Any]) -> str:
    bounds = ""
    if comparison["relative_low"] is not None:
        bounds = f" [{signed(comparison['relative_low'])}, {signed(comparison['relative_high'])}]"
    verdict = verdict_of(comparison["verdict"]).word
    return f"{percent(comparison['relative_percent'])}{bounds} {verdict} ({comparison['method']})"


def variation(real: Real) -> None:
    """How much the figures of identical runs vary: of the first SAMPLE, of all, and within campaigns."""
    campaigns = list(real.values.values())
    print(f"\n{'run-to-run variation (CV)':32} {'tps':>8} {'CPU ms per transaction':>24}")
    for title, count in ((f"the first {SAMPLE} runs", SAMPLE), ("all runs", None)):
        cells = [_cv([value for values in campaigns for value in values[figure]][:count]) for figure in FIGURES]
        print(f"{title:32} {cells[0]:7.2f}% {cells[1]:23.2f}%")
    cells = [math.sqrt(statistics.mean(_cv(values[figure]) ** 2 for values in campaigns)) for figure in FIGURES]
    print(f"{'within campaigns':32} {cells[0]:7.2f}% {cells[1]:23.2f}%", flush=True)


def _cv(values: list[float]) -> float:
    return 100 * statistics.stdev([math.log(value) for value in values])


def effect(real: Real, builtin: str, factor: dict[str, Any], repetitions: int) -> None:
    """A campaign with a real effect: its findings about comparisons, mechanisms and other figures."""
    identity = real.campaign(builtin, factor, repetitions)
    print(f"\n{factor['name']}, {builtin}:")
    for finding in real.ground.client.get(f"campaigns/{identity}/judgements/"):
        if finding["topic"] in ("comparison", "cpu", "mechanism", "what changed"):
            print(f"  {finding['topic']}: {finding['sentence']}")
    levels = [f"level:{identity}:{level['label']}" for level in factor["levels"]]
    response = real.ground.client.get("compare/?" + "&".join(f"of={level}" for level in levels))
    for side in response["changes"]:
        for row in side["figures"][:6]:
            unit = "%" if row["is_ratio"] else row["unit"]
            print(f"  {row['title']}: {signed(row['change'])} [{signed(row['low'])}, {signed(row['high'])}] {unit}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.truth.real_runs", description=__doc__)
    parser.add_argument("--pairs", type=int, default=30, help="of identical campaigns (30)")
    parser.add_argument("--repetitions", type=int, default=5, help="runs of each level (5)")
    parser.add_argument("--seconds", type=int, default=3, help="of each run (3)")
    parser.add_argument("--values", type=Path, help="a file for the figures of each run, as JSON")
    options = parser.parse_args(arguments)
    with prepare() as ground:
        real = Real(ground, options.seconds)
        effect(real, "tpcb-like", COMMIT, EFFECT_REPETITIONS)
        real.values.clear()
        identical_pairs(real, options.pairs, options.repetitions)
        variation(real)
    if options.values:
        options.values.write_text(json.dumps(real.values))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
