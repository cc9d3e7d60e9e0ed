"""`make test` as a stranger runs it: on a machine with Python, git, make and nothing else, in a fresh clone."""

from __future__ import annotations

import argparse
import fcntl
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from tests.bare import roots, variants
from tests.bare.outcome import Outcome
from tests.bare.roots import DIRECTORY, SYSTEMS, BareError, System
from tests.bare.variants import VARIANTS, Variant
from tests.lab.machines.lab import LabError
from tests.session import needs


@dataclass(frozen=True)
class Tested:
    """One run of `make test`."""

    title: str
    outcome: Outcome
    is_ci: bool

    @property
    def is_expected(self) -> bool:
        return self.outcome.is_expected(is_ci=self.is_ci)

    def __str__(self) -> str:
        wanted = "a failure for what is missing alone" if self.is_ci else "exit code 0"
        return f"{'as expected' if self.is_expected else f'NOT AS EXPECTED, which is {wanted}'}: {self.outcome}"


def main(argv: list[str]) -> int:
    # What follows -- is for pytest. argparse would take its options for those of this program.
    cut = argv.index("--") if "--" in argv else len(argv)
    options = _parse(argv[:cut])
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # removes everything, like Ctrl-C
    DIRECTORY.mkdir(mode=0o700, parents=True, exist_ok=True)  # its copies have this machine's configuration of pip
    try:
        with (DIRECTORY / "lock").open("w") as lock:
            _take(lock)
            return _test_all(options, shlex.join(argv[cut + 1 :]))
    except (BareError, LabError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        _say("interrupted; all tests have ended and their directories are removed")
        return 128 + signal.SIGINT


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bare", usage="%(prog)s [options] [-- ARGS of make test]")
    systems = ", ".join(f"{python} on {system.name}" for python, system in SYSTEMS.items())
    parser.add_argument("--python", nargs="+", choices=SYSTEMS, default=["3.11"], help=f"{systems}; default: 3.11")
    titles = "; ".join(f"{name}: {variant.title}" for name, variant in VARIANTS.items())
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS), help=f"{titles}; default: all")
    options = parser.parse_args(argv)
    missing = [need.reason for need in map(needs.find, ("root", "debootstrap")) if need.is_missing]
    if missing:
        parser.error("; ".join(missing))
    return options


def _take(lock: TextIO) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BareError(f"{DIRECTORY} is used by another make test-bare; wait until it has ended") from None


def _test_all(options: argparse.Namespace, arguments: str) -> int:
    """Return 0 if every run of `make test` ended as it should."""
    roots.remove_leftovers()
    if _git("status", "--porcelain"):
        _say("uncommitted changes are not tested")
    _say(f"commit {_git('log', '-1', '--format=%h %s')}")
    tested: list[Tested] = []
    try:
        for python in options.python:
            for name in options.only:
                tested.append(_test(python, SYSTEMS[python], name, VARIANTS[name], arguments))
    finally:
        _report(tested)
    return int(not all(each.is_expected for each in tested))


def _test(python: str, system: System, name: str, variant: Variant, arguments: str) -> Tested:
    title = f"Python {python} on {system.name}; {variant.title}"
    base = _base(system)
    log = DIRECTORY / f"{python}-{name}.log"
    log.write_text("")
    _say(f"{title} (log: {log})")
    with roots.copy(base) as root:
        outcome = variant.test(root, arguments, log)
    return Tested(title, outcome, variant.is_ci)


def _base(system: System) -> Path:
    log, began = DIRECTORY / f"build-{system.release}.log", time.monotonic()
    if not roots.base_of(system).exists():
        _say(f"building {system.name} with {', '.join(roots.PACKAGES)} (log: {log})")
        roots.build(system, log)
        _say(f"built in {time.monotonic() - began:.0f} s")
    return roots.base_of(system)


def _report(tested: list[Tested]) -> None:
    for each in tested:
        _say(each.title)
        _say(f"  {each}")
        for line in (*each.outcome.failed, *each.outcome.missing):
            _say(f"    {line}")


def _git(*arguments: str) -> str:
    command = [*variants.GIT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def _say(line: str) -> None:
    sys.stdout.write(f"bare: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
