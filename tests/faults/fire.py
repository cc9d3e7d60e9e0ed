"""python -m tests.faults.fire [--runs 1000] [--quiet 100] [--every 20] [--seed 5]

A campaign of short runs while worker, Redis, PostgreSQL and SSH are killed in turn; before it, some of the same runs
undisturbed, for the ratio. As root.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import date
from itertools import cycle
from typing import Any

from embedded.errors import StackError
from tests.faults.counts import document
from tests.faults.counts.findings import Found
from tests.faults.counts.ledger import Ledger, load, save
from tests.faults.injection import siege
from tests.faults.injection.siege import DISPATCHER, WORKER, Siege
from tests.faults.soak import say
from tests.session import needs

TEST = "tests/faults/fire.py"
# A whole run, settings and all, whose load takes no time.
COMMAND = {
    "program": "/bin/echo",
    "arguments": "42 answers",
    "patterns": "(?P<answers>[0-9]+) answers",
    "figures": {"answers": {"unit": "1", "better": "higher"}},
}
PATIENCE_S = 2 * 3600.0
MOMENT_S, POLL_S = 0.2, 2.0  # between two checks of the services, two questions to the server


def start(besieged: Siege, runs: int) -> str:
    """A campaign of ten levels."""
    return besieged.start(
        runs // len(siege.VALUES),
        kind="command",
        options=COMMAND,
        factors=[{"name": "knob", "levels": besieged.levels(*siege.VALUES)}],
        metric="answers",
        sources=["cpu"],
    )


def victims(besieged: Siege) -> dict[int, Callable[[], object]]:
    """number of the fault -> what injects it; SSH is reset in mid-frame, then its server is killed, then again."""
    ways = cycle([lambda: besieged.proxy.reset_after(besieged.chance.randrange(1, 5000)), besieged.kill_sshd])
    return {
        1: lambda: [besieged.kill(service) for service in (DISPATCHER, WORKER)],
        6: lambda: besieged.kill("valkey"),
        8: besieged.kill_postgres,
        10: lambda: next(ways)(),
    }


def over(besieged: Siege, campaign: str) -> bool:
    return siege.answered(lambda: bool(besieged.ground.client.get(f"campaigns/{campaign}/")["results_ready"]))


def burn(besieged: Siege, campaign: str, every_s: float) -> Counter[int]:
    """Kill in turn until the campaign is over; how often each. Without `every_s`, only wait."""
    killed: Counter[int] = Counter()
    turns, due = cycle(victims(besieged).items()), time.monotonic() + every_s
    next_check, deadline = 0.0, time.monotonic() + PATIENCE_S
    while time.monotonic() < next_check or not over(besieged, campaign):
        assert time.monotonic() < deadline, besieged.runs(campaign)[-3:]
        next_check = next_check if time.monotonic() < next_check else time.monotonic() + POLL_S
        besieged.ground.supervisor.check()
        if every_s and time.monotonic() >= due:
            fault, kill = next(turns)
            kill()
            killed[fault] += 1
            due += every_s
            say(f"{sum(killed.values())} kills, {done(besieged, campaign)} runs done")
        time.sleep(MOMENT_S)
    return killed


def done(besieged: Siege, campaign: str) -> Any:
    try:
        return besieged.ground.client.get(f"campaigns/{campaign}/")["progress"]["done"]
    except StackError:
        return "?"


def timed(besieged: Siege, runs: int, act: Callable[[str], Counter[int]]) -> tuple[str, float, Counter[int]]:
    """(campaign, seconds per run, what `act` did to it)."""
    campaign, began = start(besieged, runs), time.monotonic()
    killed = act(campaign)
    return campaign, (time.monotonic() - began) / runs, killed


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.fire")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--quiet", type=int, default=100)
    parser.add_argument("--every", type=float, default=20.0)
    siege.arguments(parser)
    options = parser.parse_args(argv)
    needs.demand_root(parser)
    with siege.with_device(options) as besieged:
        besieged.ground.stack.manage("allow_commands", "ada")
        _, alone_s, _ = timed(besieged, options.quiet, lambda campaign: burn(besieged, campaign, 0))
        say(f"undisturbed: {options.quiet} runs, {alone_s:.2f} s each")
        campaign, each_s, killed = timed(besieged, options.runs, lambda each: burn(besieged, each, options.every))
        return keep(besieged, campaign, killed, options, alone_s, each_s)


def keep(
    besieged: Siege, campaign: str, killed: Counter[int], options: argparse.Namespace, alone_s: float, each_s: float
) -> int:
    """Count, store the counts, and print them."""
    audited, outcomes, cells = besieged.audit(campaign)
    left = besieged.left()
    say(f"{audited} {outcomes} measured once: {cells} left changed: {left}")
    ledger = Ledger(test=TEST)
    for number, fault in enumerate(sorted(killed)):
        ledger.count(fault, killed[fault], audited if number == 0 else Found(), left if number == 0 else ())
    assert (cells, outcomes) == (options.runs, {"ok": options.runs})
    ledger.keep()
    sentence = (
        f"Campaign under fire on {date.today().isoformat()}, seed {options.seed}: {options.runs} runs, worker, Redis, "
        f"PostgreSQL and SSH killed in turn every {options.every:g} s, {sum(killed.values())} kills in all. It ended "
        f"complete, each of {cells} cells measured exactly once; events lost {audited.lost}, duplicated "
        f"{audited.duplicated}, overlapping runs {audited.overlapping}, settings left changed {len(left)}. It took "
        f"{each_s:.2f} s a run; the same undisturbed ({options.quiet} runs just before) {alone_s:.2f} s: "
        f"{each_s / alone_s:.2f} times as long.{siege.caveat(options)}"
    )
    save({**load(), "fire": {"sentence": sentence, "killed": {str(k): v for k, v in sorted(killed.items())}}})
    document.write()
    say(sentence)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
