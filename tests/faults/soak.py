"""python -m tests.faults.soak [--minutes 30] [--faults 72] [--seed 5]: campaigns one after the other while faults of
all kinds that this machine can have are injected at seeded random moments. Then everything is counted. As root."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from random import Random

from embedded import processes
from embedded.errors import StackError
from tests.faults.counts import document
from tests.faults.counts.findings import Found
from tests.faults.counts.ledger import FAULTS, Ledger, load, save
from tests.faults.injection import siege
from tests.faults.injection.on_host import DAY_S, SESSION
from tests.faults.injection.siege import DISPATCHER, WORKER, Siege
from tests.servers import remote
from tests.session import needs

TEST = "tests/faults/soak.py"
SECOND = "second"
PGBENCH = {**siege.PGBENCH, "time_s": 2}
REPETITIONS = 5
SLEEP_S = 125.0  # longer than the visibility timeout of the server's settings
PATIENCE_S, CHECK_S = 600.0, 2.0


@dataclass
class Soak:
    """A siege with two dispatchers, and the times at which faults are removed."""

    siege: Siege
    stranger: int  # the port of an SSH server with another key
    campaigns: list[str] = field(default_factory=list)
    injected: Counter[int] = field(default_factory=Counter)
    healing: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    next_check: float = 0.0  # when the state of the campaign is read again

    def kinds(self) -> dict[int, Callable[[], object]]:
        """number -> what injects it; False when there was nothing to hit at this moment."""
        s = self.siege
        return {
            1: lambda: self.trap("before submit"),
            2: lambda: self.trap("after submit"),
            3: lambda: self.trap("before ack"),
            4: lambda: s.kill_child(WORKER),
            5: self.sleep,
            6: lambda: s.kill("valkey"),
            7: s.flush,
            8: s.kill_postgres,
            9: self.second_beat,
            10: lambda: s.proxy.reset_after(s.chance.randrange(1, 20_000)),
            11: lambda: self.until(s.chance.uniform(10, 40), s.proxy.swallow, s.proxy.heal),
            12: self.other_key,
            13: lambda: self.until(30, lambda: s.host.greet(s.chance), s.host.fall_silent),
            14: lambda: s.host.kill(SESSION),
            15: self.kill_the_guard,
            22: lambda: s.host.kill("pgbench"),
            23: lambda: s.host.kill("postgres"),
            25: self.set_clock,
            27: self.edit,
            31: lambda: s.host.log_out(),
            32: s.upgrade,
        }

    # Faults that take time, or are of two parts

    def any_dispatcher(self) -> str:
        return self.siege.chance.choice([DISPATCHER, SECOND])

    def until(self, seconds: float, act: Callable[[], object], heal: Callable[[], object]) -> None:
        act()
        self.healing.append((time.monotonic() + seconds, heal))

    def trap(self, moment: str) -> None:
        """The next dispatcher that comes to the moment dies."""
        self.siege.trap(moment)
        self.wait(lambda: self.siege.sprung)

    def sleep(self) -> None:
        name = self.any_dispatcher()
        self.until(SLEEP_S, lambda: self.siege.stop(name), lambda: self.siege.resume(name))

    def second_beat(self) -> None:
        self.until(20, self.siege.second_beat, lambda: self.siege.ground.supervisor.end("beat2"))

    def other_key(self) -> None:
        proxy, ours = self.siege.proxy, self.siege.ground.stack.loopback.port

        def swap(port: int) -> None:
            proxy.target = port
            proxy.reset()

        self.until(15, lambda: swap(self.stranger), lambda: swap(ours))

    def kill_the_guard(self) -> bool:
        """Kill the process of the run, and each process that begins a restore."""
        if not self.siege.host.kill(SESSION):
            return False
        deadline = time.monotonic() + self.siege.chance.uniform(0, 2)
        while time.monotonic() < deadline:
            processes.send(self.siege.host.connections(), signal.SIGKILL)
            time.sleep(self.siege.chance.uniform(0, 0.5))
        return True

    def set_clock(self) -> None:
        day = self.siege.chance.choice([-DAY_S, DAY_S])
        self.until(30, lambda: self.siege.host.set_clock(day), lambda: self.siege.host.set_clock(0))

    def edit(self) -> bool:
        """While the load runs: before, the run's value would be the administrator's own doing."""
        if not self.siege.measuring:
            return False
        self.siege.edit()
        return True

    # The course of it

    def wait(self, done: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
        """Until `done`: remove faults whose time has come, keep the server up and a campaign running."""
        deadline = time.monotonic() + timeout_s
        while not done():
            assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {self.siege.runs()[:3]}"
            self.heal(time.monotonic())
            self.siege.ground.supervisor.check()
            if time.monotonic() >= self.next_check:
                self.next_check = time.monotonic() + CHECK_S
                self.keep_busy()
            time.sleep(0.2)

    def heal(self, now: float) -> None:
        due = [each for each in self.healing if each[0] <= now]
        self.healing = [each for each in self.healing if each[0] > now]
        for _, heal in due:
            heal()

    def keep_busy(self) -> None:
        try:
            if not self.campaigns or self.over(self.campaigns[-1]):
                self.campaigns.append(self.siege.start(REPETITIONS, options=PGBENCH))
        except StackError as error:
            if siege.refused(error):
                raise

    def over(self, campaign: str) -> bool:
        return bool(self.siege.ground.client.get(f"campaigns/{campaign}/")["ended_at"])

    def inject(self, fault: int) -> None:
        """Once there is something to hit."""
        act = self.kinds()[fault]
        self.wait(lambda: act() not in (False, 0))
        say(f"{fault} {FAULTS[fault]}")
        self.injected[fault] += 1

    def finish(self) -> None:
        """Everything healed, every campaign at its end with its results read."""
        self.heal(float("inf"))
        for campaign in self.campaigns:
            self.siege.finish(campaign, PATIENCE_S)


def say(message: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {message}\n")
    sys.stdout.flush()


def plan(chance: Random, kinds: list[int], faults: int, seconds: float) -> list[tuple[float, int]]:
    """(second, fault): every kind as often as any other, in any order, at any moment."""
    which = (kinds * (faults // len(kinds) + 1))[:faults]
    chance.shuffle(which)
    return list(zip(sorted(chance.uniform(0, seconds) for _ in which), which, strict=True))


def run(soak: Soak, faults: int, seconds: float) -> float:
    """Seconds from the first campaign until all are at their end."""
    began = time.monotonic()
    for moment, fault in plan(soak.siege.chance, list(soak.kinds()), faults, seconds):
        soak.wait(lambda moment=moment: time.monotonic() >= began + moment, seconds)  # type: ignore[misc]
        soak.inject(fault)
    soak.wait(lambda: time.monotonic() >= began + seconds, seconds)
    soak.finish()
    return time.monotonic() - began


def keep(soak: Soak, seconds: float, options: argparse.Namespace) -> None:
    """Count, store the counts, and print them."""
    audited, outcomes, _ = soak.siege.audit(*soak.campaigns)
    left = soak.siege.left()
    say(f"{audited} {outcomes} left changed: {left}")
    ledger, total = Ledger(test=TEST), sum(soak.injected.values())
    for number, fault in enumerate(sorted(soak.injected)):
        ledger.count(fault, soak.injected[fault], audited if number == 0 else Found(), left if number == 0 else ())
    ledger.keep()
    ended = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    sentence = (
        f"Soak of {seconds / 60:.0f} minutes on {date.today().isoformat()}, seed {options.seed}: {total} faults of "
        f"{len(soak.injected)} kinds at random moments, {len(soak.campaigns)} campaigns one after the other, "
        f"{audited.runs} runs ({ended}); events lost {audited.lost}, duplicated {audited.duplicated}, overlapping runs "
        f"{audited.overlapping}, settings left changed {len(left)}.{siege.caveat(options)}"
    )
    save({**load(), "soak": {"sentence": sentence, "injected": {str(k): v for k, v in sorted(soak.injected.items())}}})
    document.write()
    say(sentence)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--faults", type=int, default=72)
    siege.arguments(parser)
    options = parser.parse_args(argv)
    needs.demand_root(parser)
    with ExitStack() as stack:
        stranger = stack.enter_context(remote.serve("loopback", Path(stack.enter_context(remote.short_dir()))))
        besieged = stack.enter_context(siege.with_device(options))
        besieged.ground.supervisor.start(besieged.dispatcher(SECOND, short=False))
        soak = Soak(besieged, stranger.port)
        took = run(soak, options.faults, options.minutes * 60)
        keep(soak, took, options)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
