"""Commands for the machines of the lab: list, build, up, ssh, down."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from tests.lab.machines.image import ensure_image
from tests.lab.machines.lab import LabError
from tests.lab.machines.machine import Machine
from tests.lab.machines.topologies import DEFAULT, TOPOLOGIES


def main() -> int:
    options = _parser().parse_args()
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.machines", description=__doc__)
    commands = parser.add_subparsers(required=True)
    commands.add_parser("list", help="the topologies").set_defaults(run=_list)
    commands.add_parser("build", help="build the image unless it is up to date").set_defaults(run=_build)
    for name, run, text in (
        ("up", _up, "boot a machine, print how to reach it"),
        ("ssh", _ssh, "a shell or a command in the guest"),
        ("down", _down, "stop a machine and delete its disk"),
    ):
        command = commands.add_parser(name, help=text)
        command.set_defaults(run=run)
        command.add_argument("name", nargs="?", default=DEFAULT.name, choices=TOPOLOGIES, metavar="NAME")
        if name == "ssh":
            command.add_argument("command", nargs=argparse.REMAINDER)
    return parser


def _list(options: argparse.Namespace) -> int:
    sys.stdout.writelines(f"{topology}\n" for topology in TOPOLOGIES.values())
    return 0


def _build(options: argparse.Namespace) -> int:
    ensure_image()
    return 0


def _up(options: argparse.Namespace) -> int:
    machine = Machine(TOPOLOGIES[options.name])
    seconds = machine.up()
    where = " ".join(f"{name}={value}" for name, value in machine.where.items())
    sys.stdout.write(f"name={machine.name} accelerator={machine.accelerator} seconds={seconds:.0f} {where}\n")
    return 0


def _ssh(options: argparse.Namespace) -> int:
    return Machine(TOPOLOGIES[options.name]).interactive(*options.command)


def _down(options: argparse.Namespace) -> int:
    Machine(TOPOLOGIES[options.name]).down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
