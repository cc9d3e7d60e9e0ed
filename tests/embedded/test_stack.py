"""The whole stack: migrated, serving, restarted after a kill, and without processes after its stop."""

import os
import signal
import subprocess
import sys
import threading
import time
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from embedded import processes
from embedded.errors import StackError
from embedded.servers.postgres import RUNTIME_USER
from embedded.stack import ADDRESS, Stack
from embedded.supervisor import Supervisor
from tests.embedded.test_run import connect


def roles(stack: Stack) -> set[str]:
    """Which roles of PostgreSQL web, worker, dispatcher and beat work as."""
    with connect(stack.postgres.url) as connection:
        query = "SELECT usename FROM pg_stat_activity WHERE application_name ~ '^proving-(web|worker|dispatcher|beat)'"
        return {row[0] for row in connection.execute(query).fetchall()}


@pytest.mark.fast
@pytest.mark.needs("user namespaces")
def test_root_without_user_namespaces_is_advised_to_be_an_ordinary_user(state: Path) -> None:
    """This process becomes root in a namespace that forbids further ones, as a container does."""
    prepare = (
        "import sys; from pathlib import Path; from embedded.servers.postgres import Postgres;"
        " Postgres(Path(sys.argv[1]), 'secret').prepare()"
    )
    forbid = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
    argv = ["unshare", "--user", "--map-root-user", "sh", "-c", forbid, "-", sys.executable, "-c", prepare, str(state)]

    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)

    assert "unshare failed" in done.stderr and "run it as an ordinary user" in done.stderr, done.stderr


def test_the_stack_serves_survives_kills_and_leaves_nothing(state: Path) -> None:
    others = set(processes.descendants(os.getpid()))
    with Supervisor(state) as supervisor:
        stack = Stack(supervisor)
        stack.start()
        assert roles(stack) == {RUNTIME_USER}
        for name in ("web", "worker", "dispatcher", "beat"):
            before = supervisor.pid(name)
            os.kill(before, signal.SIGKILL)
            deadline = time.monotonic() + 60
            while supervisor.pid(name) == before:  # its threads end one by one, and only then can it be waited for
                assert time.monotonic() < deadline
                supervisor.check()
                time.sleep(0.01)
        deadline = time.monotonic() + 60
        while not stack.web.ready():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        ours = set(processes.descendants(os.getpid())) - others
        assert len(ours) >= 13, "two stores, sshd, web, worker, dispatcher, beat, and children of theirs"
    assert [p for p in ours if processes.alive(p)] == []


def test_the_stack_does_not_start_on_a_port_that_another_server_took(state: Path) -> None:
    with Supervisor(state) as supervisor:
        stack = Stack(supervisor)
        with HTTPServer((ADDRESS, stack.port), SimpleHTTPRequestHandler) as other:
            threading.Thread(target=other.serve_forever, daemon=True).start()
            with pytest.raises(StackError, match=f"Connection in use: .*{stack.port}"):
                supervisor.start(stack.web)
            other.shutdown()
