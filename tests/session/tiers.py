"""Which tests `make test` runs, which of them take turns, and which workers leave tests to others.

Tests that use this machine (a real agent, an SSH server, the whole stack) take most of the time. They run in
`make test-all`, or when a path names their file; `make test` runs only those marked `fast`. Tests marked `thorough` use
no more than the database, but half a second of CPU time or more; `make test` leaves them out as well.

Tests that use this machine wait much of their time, for the end of a run or for a server. Of the workers of
`make test-all`, `--spare` many only take tests that do not use it, with a low priority: in the CPU time that is left.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

# Fixtures that run the agent, a cluster, an SSH server, or the stack, or that change settings of the machine.
REAL = {
    "agent",
    "cluster",
    "connect",
    "device",
    "ground",
    "guest",
    "here",
    "host_wide",
    "house",
    "lie",
    "loop",
    "machines",
}
REAL |= {"any_server", "open_on", "production", "served", "server", "stack", "state", "template", "theirs"}
MODULES = {"remote", "machines"}  # a module that imports one of these starts SSH servers
STACKS = {"ground", "stack"}
NICE = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=("fast", "all"), help="default: fast, and all where a path is named")
    parser.addoption(
        "--spare",
        type=int,
        default=0,
        metavar="N",
        help="workers that leave tests of the machine to the others",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fast: touches this machine, and is part of make test nevertheless")
    config.addinivalue_line("markers", "thorough: takes half a second of CPU time or more; not part of make test")
    if config.option.tier is None:  # workers get the tier of the first process
        whole_suite = config.args_source is pytest.Config.ArgsSource.TESTPATHS
        config.option.tier = "fast" if whole_suite else "all"
    if not hasattr(config, "workerinput"):
        _refuse_missing(config)
    elif is_spare(os.environ["PYTEST_XDIST_WORKER"], config):
        take_what_is_left()


def is_spare(worker: str, config: pytest.Config) -> bool:
    """Whether a worker, such as gw4, is among the last of those that the session began with."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", config.getoption("numprocesses", 0) or 0))
    return workers - config.option.spare <= int(worker.removeprefix("gw")) < workers


def take_what_is_left() -> None:
    """Lower the priority of this process: of its session, which is the unit where the kernel groups processes so."""
    os.setsid()
    os.nice(NICE)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(NICE))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The scheduler of `--dist loadgroup`, for sessions with spare workers."""
    if not config.option.spare:
        return None
    from xdist.scheduler import LoadGroupScheduling

    class WithSpareWorkers(LoadGroupScheduling):
        def _assign_work_unit(self, node: WorkerController) -> None:
            if is_spare(node.gateway.id, config) and not all(is_spare(each.gateway.id, config) for each in self.nodes):
                # The name of a group has no file.
                scope = next((scope for scope in self.workqueue if "::" in scope), None)
                if scope is None:
                    node.shutdown()
                    return
                self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

    return WithSpareWorkers(config, log)


def _refuse_missing(config: pytest.Config) -> None:
    """pytest itself finds a mistyped path in its workers, whose message is lost: the session would be empty."""
    for named in config.args:
        file = config.invocation_params.dir / named.partition("::")[0]
        if not file.exists():
            raise pytest.UsageError(f"there is no file or folder {file}")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Workers side by side: tests of the machine that are in one group run one after another."""
    if touches_the_machine(item):
        item.add_marker(pytest.mark.xdist_group(group_of(item)))


def group_of(item: pytest.Item) -> str:
    """One group for each file. Tests that change settings of the whole machine would only wait for each other
    (alone.py), so they share the group of their room. So do tests that strike a whole stack."""
    room = room_of(item)
    if changes_the_machine(item) or (room == "faults" and STACKS & set(getattr(item, "fixturenames", ()))):
        return room if room in ("agents", "faults") else "server"
    return f"{room}-{item.path.stem}"


def changes_the_machine(item: pytest.Item) -> bool:
    """Takes turns with all others of this kind."""
    return "host_wide" in getattr(item, "fixturenames", ()) or item.get_closest_marker("proves") is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.tier == "all":
        return
    slow = [item for item in items if is_slow(item)]
    items[:] = [item for item in items if item not in slow]
    config.hook.pytest_deselected(items=slow)


def is_slow(item: pytest.Item) -> bool:
    """Whether `make test` leaves it out. The nearest mark counts: one test of a `thorough` file may be `fast`."""
    near = next((mark.name for mark in item.iter_markers() if mark.name in ("fast", "thorough")), "")
    return near == "thorough" or (touches_the_machine(item) and near != "fast")


def touches_the_machine(item: pytest.Item) -> bool:
    """Starts programs or changes settings here; its snapshots see what its neighbours do."""
    if REAL & set(getattr(item, "fixturenames", ())) or item.get_closest_marker("proves"):
        return True
    modules = vars(item.module).keys() if isinstance(item, pytest.Function) else set()
    return bool(MODULES & modules)


def room_of(item: pytest.Item) -> str:
    """The folder below tests/."""
    return item.path.relative_to(item.config.rootpath).parts[1]
