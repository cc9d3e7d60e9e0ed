"""python -m embedded run: both servers for one command, and no process afterwards."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import environ
import psycopg
import pytest
import redis
from django.db import connection

from embedded import paths, processes
from embedded.stack import Stack
from embedded.supervisor import Supervisor
from embedded.temporary import TemporaryStack

pytestmark = pytest.mark.fast
RUN = [sys.executable, "-m", "embedded", "run", "--"]
TELL = "import json, os; print(json.dumps(dict(os.environ)), flush=True); "


def connect(url: str) -> psycopg.Connection:
    config = environ.Env.db_url_config(url)
    where = {"host": config["HOST"], "port": config["PORT"], "dbname": config["NAME"]}
    return psycopg.connect(user=config["USER"], password=config["PASSWORD"], autocommit=True, **where)


def test_the_commands_own_status_is_returned_and_nothing_is_left() -> None:
    done = subprocess.run([*RUN, sys.executable, "-c", TELL + "raise SystemExit(5)"], capture_output=True, text=True)

    env = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (5, "")
    assert env["PROVING_DATABASE_URL"].startswith("postgres://proving:")
    assert not Path(env["PROVING_STATE_DIR"]).exists()
    assert [p for p in processes.every() if env["PROVING_STATE_DIR"].encode() in cmdline(p.pid)] == []


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_sigterm_ends_the_command_and_the_servers() -> None:
    runner = subprocess.Popen([*RUN, sys.executable, "-c", TELL + "import time; time.sleep(300)"], stdout=-1, text=True)
    assert runner.stdout is not None
    env = json.loads(runner.stdout.readline())
    children = processes.descendants(runner.pid)
    assert len(children) > 3, "a command, valkey, and postgres with its own"

    runner.send_signal(signal.SIGTERM)

    assert runner.wait(60) == 128 + signal.SIGTERM
    runner.stdout.close()
    assert [p for p in children if processes.alive(p)] == []
    assert not Path(env["PROVING_STATE_DIR"]).exists()


def test_servers_end_when_the_runner_is_killed(state: Path) -> None:
    says = [*RUN, sys.executable, "-c", TELL + "import time; time.sleep(2)"]
    with subprocess.Popen(says, stdout=-1, env={**os.environ, "TMPDIR": str(state)}) as runner:
        assert runner.stdout is not None
        runner.stdout.readline()
        children = processes.descendants(runner.pid)
        runner.kill()
    assert processes.wait_gone(lambda: [p for p in children if processes.alive(p)], 60) == []


def test_a_second_start_finds_its_data(state: Path) -> None:
    with Supervisor(state) as supervisor:
        stack = Stack(supervisor)
        stack.start_stores()
        with connect(stack.postgres.url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        redis.Redis.from_url(stack.valkey.cache_url).set("kept", "43")

    with Supervisor(state) as supervisor:
        stack = Stack(supervisor)
        stack.start_stores()
        with connect(stack.postgres.url) as connection:
            assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
        assert redis.Redis.from_url(stack.valkey.cache_url).get("kept") == b"43"


def test_the_database_wants_its_password(state: Path) -> None:
    with Supervisor(state) as supervisor:
        stack = TemporaryStack(supervisor)
        stack.start_stores()
        try:
            connect(stack.postgres.url.replace(stack.secrets["postgres_password"], "guessed"))
        except psycopg.OperationalError as error:
            assert "password authentication failed" in str(error)
        else:
            raise AssertionError("a wrong password was accepted")


def test_secrets_are_generated_once_and_private(state: Path) -> None:
    first = paths.load_secrets(state)
    assert paths.load_secrets(state) == first
    assert (state / "secrets.json").stat().st_mode & 0o777 == 0o600
    assert len(first["secret_key"]) >= 50


def test_a_long_state_directory_gets_a_short_one_for_its_sockets(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 60) / ("y" * 60)
    long.mkdir(parents=True)
    sockets = paths.socket_dir(long)
    assert len(str(sockets / paths.LONGEST_SOCKET_NAME)) < paths.SOCKET_PATH_LIMIT
    assert sockets.stat().st_mode & 0o777 == 0o700
    assert paths.socket_dir(long) == sockets, "the next start finds it again"
    sockets.rmdir()


ORPHAN = """
import subprocess, sys, time
from embedded import processes
orphan = int(subprocess.run(["sh", "-c", "sleep 0.3 >/dev/null & echo $!"], capture_output=True, text=True).stdout)
deadline = time.monotonic() + 30
while processes.read(orphan) and time.monotonic() < deadline:
    time.sleep(0.05)
sys.exit(processes.read(orphan) is not None)
"""


def test_orphans_of_the_command_are_collected_while_it_runs() -> None:
    assert subprocess.run([*RUN, sys.executable, "-c", ORPHAN], timeout=60).returncode == 0


def test_a_command_is_ended_when_its_database_dies() -> None:
    kill = "import os, signal, time; from embedded import processes; " + TELL
    # Only its own children: the servers' children come and go while they are looked at.
    kill += "[os.kill(p.pid, 9) for p in processes.descendants(os.getppid()) if p.ppid == os.getppid() and"
    kill += " b'postgres' in open(f'/proc/{p.pid}/cmdline', 'rb').read().split(b'\\0')[0]]; time.sleep(300)"
    done = subprocess.run([*RUN, sys.executable, "-c", kill], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "error: postgres ended with status -9" in done.stderr


@pytest.mark.django_db
def test_its_postgresql_takes_no_huge_pages_from_the_pool_of_a_run() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW huge_pages")

        assert cursor.fetchone() == ("off",)
