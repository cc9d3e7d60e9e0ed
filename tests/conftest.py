"""Fixtures of several folders: users, an SSH server, and this machine as a host."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib.util import find_spec

import hypothesis
import pytest
from django.conf import settings
from django.test import override_settings

from agents.settings import SETTINGS
from apps.accounts.models import Role, User
from apps.hosts import contact
from apps.hosts.models import Host
from embedded.stack import FIRST_PORT
from tests.faults.counts.ledger import Ledger, wanted
from tests.rows import factories
from tests.servers import machines, remote
from tests.servers.ground import Ground, prepare
from tests.session.alone import alone

FIRST_CACHE_DB = 8  # of the 16 of the tests' Valkey; the server uses the first ones
PLUGINS = ("agent_builds", "bytecode", "databases", "memory", "needs", "reports", "static_files", "tiers")
pytest_plugins = [*(f"tests.session.{name}" for name in PLUGINS), "pytester"]
# Their package comes with `make e2e`; the other tests do without.
collect_ignore = [] if find_spec("playwright") else ["e2e"]
# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy machine")


def pytest_configure() -> None:
    """For parallel workers: each has its own cache, and a range of a hundred ports for its stacks."""
    worker = _worker()
    if worker:  # the first one has the default, and so has a process without workers
        os.environ["PORT"] = str(int(os.environ.get("PORT", FIRST_PORT)) + 100 * worker)
    cache = settings.CACHES["default"]
    cache["LOCATION"] = re.sub(r"\bdb=\d+", f"db={FIRST_CACHE_DB + worker}", str(cache["LOCATION"]))


def _worker() -> int:
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


def pytest_collection_finish() -> None:
    """Rows that one worker made are copied by the others (tests/rows/filled.py): theirs have other numbers."""
    factories.number_from(1 + 100_000 * _worker())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """When counts of the fault matrix are recorded, only tests with counts run."""
    if wanted():
        others = [item for item in items if "ledger" not in getattr(item, "fixturenames", ())]
        items[:] = [item for item in items if item not in others]
        config.hook.pytest_deselected(items=others)


@pytest.fixture(autouse=True)
def quick_passwords() -> Iterator[None]:
    """A fast hash of passwords, because no test needs a slow one."""
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@pytest.fixture
def admin(db: None) -> User:
    """An admin who may run commands; factories.make_user creates one who may not."""
    password = "correct horse battery"
    return User.objects.create_user("ada", password=password, role=Role.ADMIN, may_run_commands=True)


@pytest.fixture
def host_wide() -> Iterator[None]:
    """For a test that changes settings of the whole machine."""
    with alone():
        yield


@pytest.fixture(autouse=True)
def in_turns(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that proves a setting of the whole machine changes it."""
    proven = [SETTINGS[mark.args[0]] for mark in request.node.iter_markers("proves")]
    with alone() if any(setting.level == "root" for setting in proven) else nullcontext():
        yield


@pytest.fixture
def ledger(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """Where a test of the fault matrix counts what its faults did."""
    ours = Ledger(test=_who(request))
    yield ours
    file = wanted()
    if file:
        ours.keep(file)


def _who(request: pytest.FixtureRequest) -> str:
    """The test and its parameters, but for how often it injects its fault."""
    parameters = getattr(request.node, "callspec", None)
    told = {name: value for name, value in (parameters.params if parameters else {}).items() if name != "times"}
    test = request.node.nodeid.partition("[")[0]
    return f"{test}[{'-'.join(str(getattr(each, '__name__', each)) for each in told.values())}]" if told else test


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    """The whole stack, this machine registered. Not for longer: while it is up, orphans of this process come to us."""
    with prepare() as running:
        yield running


@pytest.fixture(scope="session")
def server() -> Iterator[remote.Server]:
    """The demo's SSH server, for tests that care about what lies behind it."""
    with remote.short_dir() as state, remote.serve("loopback", state) as running:
        yield running


@pytest.fixture
def register(admin: User) -> Callable[..., Host]:
    """Registers the machine behind an SSH server, key approved, not yet checked."""

    def add(server: remote.Server, name: str = "here", *, launcher: bool = False) -> Host:
        return machines.add(name, server, admin, python=sys.executable, launcher=launcher)

    return add


@pytest.fixture
def host(register: Callable[..., Host], server: remote.Server) -> Host:
    """This machine, checked and ready."""
    added = register(server)
    contact.check_host(added)
    added.refresh_from_db()
    assert added.state == Host.State.READY, added.state_reason
    return added
