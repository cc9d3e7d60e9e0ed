"""The stack of docker-compose.yml in an engine, with a container as its host, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compose import images
from tests.compose.engine import Engine, running_engine
from tests.compose.host import NAME, Host
from tests.compose.stack import BUILD_S, Stack

FIGURES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FIGURES] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[FIGURES]:
        terminalreporter.section("compose")
        for line in config.stash[FIGURES]:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def figures(pytestconfig: pytest.Config) -> list[str]:
    """Lines for the end of the output."""
    return pytestconfig.stash[FIGURES]


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    with running_engine() as engine:
        yield engine


@pytest.fixture(scope="session")
def stack(engine: Engine, figures: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The stack: image built, every service healthy."""
    stand_ins = images.provide_all(engine)
    figures.append(f"stand-ins for {', '.join(stand_ins)}" if stand_ins else "base images of the registry")
    stack = Stack.prepare(engine, tmp_path_factory.mktemp("checkout"))
    remove(stack)  # what a killed session left
    try:
        stack.compose("build", timeout_s=BUILD_S)
        size = int(engine.docker("image", "inspect", "--format={{.Size}}", "proving-ground"))
        figures.append(f"image: {size / 1e6:.0f} MB")
        figures.append(f"healthy after {stack.start():.0f} s")
        yield stack
        figures.extend(f"memory of {name}: {usage}" for name, usage in stack.memory().items())
    finally:
        remove(stack)


def remove(stack: Stack) -> None:
    """Remove host, containers, network and volumes; images stay."""
    stack.engine.has("rm", "--force", "--volumes", NAME)
    stack.stop("--volumes", "--remove-orphans")


@pytest.fixture(scope="session")
def host(stack: Stack) -> Host:
    return Host.register(stack)
