"""What the launcher adds to the start of an agent: python -m tests.benchmarks.launcher --pairs 30 (as root).

In each pair, the agent answers hello once through the launcher, which verifies its signature with ssh-keygen, and once
without it. The order alternates.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from scipy import stats as scipy_stats

from agents.build import build_zipapp
from agents.wire import protocol
from agents.wire.protocol import FrameReader
from tests.servers import launched, remote
from tests.servers.launched import Signer
from tests.session import needs

HELLO = protocol.encode({"id": 1, "verb": "hello", "args": {}})
PYTHON = "/usr/bin/python3"  # that of the launcher's first line


def commands(root: Path) -> tuple[list[str], list[str]]:
    """(with the launcher, without it): the same agent, from the same file, for the same spool."""
    program, spool = root / "agent.pyz", root / "spool"
    build_zipapp(program)
    agent = program.read_bytes()
    digest, signer, installed = hashlib.sha256(agent).hexdigest(), Signer(root), launched.install(root)
    installed.trust(signer.line)
    installed.narrow(spool=str(spool))
    done = installed.run("install", stdin=signer.parcel(agent, 1))
    assert done.returncode == 0, done.stderr
    asks = ["rpc", "--spool", str(spool)]
    stored = installed.store / f"{digest}.pyz"
    return [str(installed.program), "run", digest, *asks], [PYTHON, "-I", str(stored), *asks]


Spent = tuple[float, float]  # seconds, and seconds of CPU time


def spent(argv: list[str]) -> Spent:
    """By an agent that answers hello, from its start to its end."""
    began, cpu = time.monotonic(), cpu_of_children()
    done = subprocess.run(argv, input=HELLO, capture_output=True, timeout=120, env={"PATH": "/usr/bin"}, check=False)
    took = time.monotonic() - began, cpu_of_children() - cpu
    answers = list(FrameReader().feed(done.stdout))
    assert answers and answers[0]["ok"], (answers, done.stderr)
    return took


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(count: int) -> None:
    """Alternating pairs, and what they come to."""
    with remote.short_dir() as root:
        sides = commands(root)
        for side in sides:  # warms caches
            spent(side)
        pairs = []
        for number in range(count):
            first, second = sides if number % 2 == 0 else sides[::-1]
            pair = spent(first), spent(second)
            pairs.append(pair if number % 2 == 0 else pair[::-1])
    report(pairs)


def report(pairs: list[tuple[Spent, Spent]]) -> None:
    print(f"start of the agent until it answered hello, {len(pairs)} pairs; medians")
    for index, name in enumerate(("time", "CPU time")):
        through, direct = ([side[index] * 1000 for side in sides] for sides in zip(*pairs, strict=True))
        added = [a - b for a, b in zip(through, direct, strict=True)]
        mean, error = statistics.mean(added), statistics.stdev(added) / len(added) ** 0.5
        reach = float(scipy_stats.t.ppf(0.975, len(added) - 1)) * error
        both = f"with the launcher {statistics.median(through):.0f} ms, without it {statistics.median(direct):.0f} ms"
        print(f"  {name}: {both}; added {mean:.0f} ms (95 % CI {mean - reach:.0f} to {mean + reach:.0f})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.launcher", description=__doc__)
    parser.add_argument("--pairs", type=int, default=30, help="with and without the launcher (30)")
    needs.demand_root(parser)
    measure(parser.parse_args().pairs)
    sys.exit(0)
