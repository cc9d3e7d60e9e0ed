"""Which tests `make test` runs, and which of them take turns.

Tests that use this machine (a real agent, an SSH server, the whole stack) take most of the time. They run in
`make test-all`, or when a path names their file; `make test` runs only those marked `fast`. Tests marked `thorough` use
no more than the database, but half a second of CPU time or more; `make test` leaves them out as well.
"""

from __future__ import annotations

import pytest

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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=("fast", "all"), help="default: fast, and all where a path is named")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fast: touches this machine, and is part of make test nevertheless")
    config.addinivalue_line("markers", "thorough: takes half a second of CPU time or more; not part of make test")
    if config.option.tier is None:  # workers get the tier of the first process
        whole_suite = config.args_source is pytest.Config.ArgsSource.TESTPATHS
        config.option.tier = "fast" if whole_suite else "all"
    if not hasattr(config, "workerinput"):
        _refuse_missing(config)


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
    (alone.py), so they share the group of their room."""
    room = room_of(item)
    if room == "faults" or changes_the_machine(item):
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
