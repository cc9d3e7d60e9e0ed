"""The cost to apply and restore ten values, against a shell script that does the same. As root.

python -m tests.benchmarks.settings --pairs 30
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scipy import stats as scipy_stats

from agents.build import build_zipapp
from tests.agents.driver import OK, Connection, of
from tests.faults.injection.cases import SYSTEM, THP, another, block_device, current, sysctl, transparent_huge_pages
from tests.faults.injection.matrix import loop_device

BY_HAND = Path(__file__).with_name("settings_by_hand.sh")
NAMES = (
    "vm.swappiness", "vm.dirty_expire_centisecs", "vm.dirty_writeback_centisecs", "vm.vfs_cache_pressure",
    "net.core.somaxconn", "net.core.netdev_max_backlog",
)  # fmt: skip
PHASES = ("apply", "restore")
Seconds = dict[str, float]


def profile(device: str) -> tuple[dict[str, Any], list[str]]:
    """(settings for the agent, the same as NAME=VALUE for the script)."""
    queue = {key: block_device(device)[device][key] for key in ("read_ahead_kb", "nomerges")}
    pages = {**transparent_huge_pages(device), "enabled": another(f"{THP}/enabled", "always", "madvise")}
    settings = {"sysctl": sysctl(*NAMES)(device), "transparent_huge_pages": pages, "block_device": {device: queue}}
    pairs = [f"{name}={_leaf(settings['sysctl'], name)}" for name in NAMES]
    pairs += [f"{THP}/{name}={word}" for name, word in pages.items()]
    return settings, pairs + [f"/sys/block/{device}/queue/{name}={value}" for name, value in queue.items()]


def _leaf(tree: Any, name: str) -> Any:
    for part in name.split("."):
        tree = tree[part]
    return tree


def agent(connection: Connection, spool: Path, settings: dict[str, Any]) -> Seconds:
    """From the order to the proof that all is in effect, and from there to the sealed proof that all is back."""
    spec = {
        "version": 1,
        "target": None,
        "settings": settings,
        "steps": [],
        "collect": {"interval_s": 1, "sources": []},
    }
    run = connection.submit(spec)
    outcome = of(connection.events(run), "outcome")
    assert outcome == [OK], outcome
    while (states := _states(spool, run))[-1]["state"] != "SEALED":
        time.sleep(0.001)
    at = {state["state"]: state["mono"] for state in states}
    seconds = {"apply": at["VERIFIED"] - at["RECEIVED"], "restore": at["SEALED"] - at["VERIFIED"]}
    seconds["start"] = at["APPLYING"] - at["RECEIVED"]
    seconds["seal"] = at["SEALED"] - at["CLEAN"]
    connection.call("ack", run=run, manifest=connection.manifest(run)[1])
    connection.call("purge", run=run)
    return seconds


def _states(spool: Path, run: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (spool / f"jobs/{run}/state.jsonl").read_text().splitlines()]


def by_hand(state_file: Path, pairs: list[str]) -> Seconds:
    seconds = {}
    for phase in PHASES:
        begun = time.monotonic()
        subprocess.run([str(BY_HAND), phase, str(state_file), *pairs], check=True, timeout=60)
        seconds[phase] = time.monotonic() - begun
    state_file.unlink()
    return seconds


def measure(count: int) -> None:
    """Alternating pairs, and what they come to."""
    with tempfile.TemporaryDirectory() as root, loop_device() as device:
        spool, state_file, program = Path(root, "spool"), Path(root, "kept"), Path(root, "agent.pyz")
        build_zipapp(program)
        begun = time.monotonic()
        connection = Connection(program, spool)
        connection.call("hello")
        connected = time.monotonic() - begun
        settings, pairs = profile(device)
        before = [current(SYSTEM, path) for path in (f"{THP}/enabled", "/proc/sys/vm/swappiness")]
        sides: list[Callable[[], Seconds]] = [
            lambda: agent(connection, spool, settings),
            lambda: by_hand(state_file, pairs),
        ]
        rows: list[list[Seconds]] = []
        for number in range(count + 1):
            order = sides if number % 2 == 0 else sides[::-1]
            pair = [side() for side in order]
            rows.append(pair if number % 2 == 0 else pair[::-1])
        connection.close()
        assert before == [current(SYSTEM, path) for path in (f"{THP}/enabled", "/proc/sys/vm/swappiness")]
    report(rows[1:], connected)  # the first warms caches, on both sides


def report(rows: list[list[Seconds]], connected: float) -> None:
    ours, hand = [row[0] for row in rows], [row[1] for row in rows]
    print(f"ten values applied, proven and put back, {len(rows)} pairs; medians, and 95 % intervals of the ratio")
    for phase in (*PHASES, "both"):
        mine = [_of(row, phase) for row in ours]
        theirs = [_of(row, phase) for row in hand]
        ratio, low, high = interval([a / b for a, b in zip(mine, theirs, strict=True)])
        shown = f"agent {_ms(mine)} ms, by hand {_ms(theirs)} ms"
        print(f"  {phase:8} {shown}, ratio {ratio:.2f} ({low:.2f} to {high:.2f}; aim <= 1.5)")
    starts, seals = ([row[name] for row in ours] for name in ("start", "seal"))
    print(f"  of the agent's: forking the run {_ms(starts)} ms, sealing it {_ms(seals)} ms")
    print(f"  once for each connection, not counted above: Python and hello {connected * 1000:.0f} ms")


def _of(row: Seconds, phase: str) -> float:
    return row["apply"] + row["restore"] if phase == "both" else row[phase]


def _ms(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1000:.1f}"


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Geometric mean of paired ratios with its 95 % interval."""
    logs = [math.log(ratio) for ratio in ratios]
    middle, spread = statistics.mean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
    reach = float(scipy_stats.t.ppf(0.975, len(logs) - 1)) * spread
    return math.exp(middle), math.exp(middle - reach), math.exp(middle + reach)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.settings", description=__doc__)
    parser.add_argument("--pairs", type=int, default=30, help="of agent and script (30)")
    measure(parser.parse_args().pairs)
    sys.exit(0)
