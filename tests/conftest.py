"""Fixtures that several rooms share: people, an SSH server, and this machine as a host."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib.util import find_spec

import pytest

from agents.settings import SETTINGS
from apps.accounts.models import Role, User
from apps.hosts import contact, services
from apps.hosts.models import Host
from embedded.postgres import bin_dir
from tests import remote
from tests.alone import alone
from tests.faults.ledger import Ledger, wanted
from tests.ground import Ground, prepare

# Their package comes with `make e2e`; the other tests do without.
collect_ignore = [] if find_spec("playwright") else ["e2e"]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Workers side by side: what touches this machine goes in two lines, in each one test after the other. Where both
    change what the machine has only once they take turns (alone.py)."""
    if touches_the_machine(item):
        item.add_marker(pytest.mark.xdist_group("agent" if room_of(item) == "agents" else "server"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Where a test on the whole stack fails, what its services said last is shown with the failure."""
    report = yield
    ground = getattr(item, "funcargs", {}).get("ground")
    if ground is not None and report.failed:
        report.sections.append(("the stack's services", ground.supervisor.said()))
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where figures of the fault matrix are kept, only the tests that count are run."""
    if wanted():
        others = [item for item in items if "ledger" not in getattr(item, "fixturenames", ())]
        items[:] = [item for item in items if item not in others]
        config.hook.pytest_deselected(items=others)


def touches_the_machine(item: pytest.Item) -> bool:
    """Runs of the agent, in its own rooms or behind an SSH server: their snapshots see what neighbours do."""
    assert isinstance(item, pytest.Function)
    behind_ssh = {"server", "ground"} & set(item.fixturenames) or {"remote", "machines"} & vars(item.module).keys()
    return room_of(item) in ("agents", "embedded", "faults") or bool(behind_ssh)


def room_of(item: pytest.Item) -> str:
    """The folder below tests/."""
    return item.path.relative_to(item.config.rootpath).parts[1]


@pytest.fixture
def admin(db: None) -> User:
    return User.objects.create_user("ada", password="correct horse battery", role=Role.ADMIN)


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
def register(admin: User) -> Callable[[remote.Server], Host]:
    """Registers the machine behind an SSH server, key approved, not yet checked."""

    def add(server: remote.Server, name: str = "here") -> Host:
        identity = services.create_identity(f"key-{name}", by=admin)
        server.authorize(identity.public_key)
        host = services.add_host(
            by=admin,
            name=name,
            address="127.0.0.1",
            port=server.port,
            user=server.user,
            identity=identity,
            python=sys.executable,
            spool_dir=str(server.home / "spool"),
            data_dir=str(server.home / "clusters"),
            pg_bin_dirs=[str(bin_dir())],
        )
        offered = services.fetch_host_key(host, by=admin)
        services.approve_host_key(host, offered.fingerprint, by=admin)
        return host

    return add


@pytest.fixture
def host(register: Callable[[remote.Server], Host], server: remote.Server) -> Host:
    """This machine, checked and ready."""
    added = register(server)
    contact.check_host(added)
    added.refresh_from_db()
    assert added.state == Host.State.READY, added.state_reason
    return added
