"""The demo host's SSH server behaves like a real sshd, over real connections."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

import asyncssh
import pytest

from embedded import processes
from embedded.servers.loopback import ADDRESS, Loopback
from embedded.supervisor import Supervisor

Answer = TypeVar("Answer")
KEY = asyncssh.generate_private_key("ssh-ed25519")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    secret = {"PROVING_SECRET_KEY": "not for the host"}
    with patch.dict(os.environ, secret), Supervisor(tmp_path_factory.mktemp("state")) as supervisor:
        host = Loopback(supervisor.state)
        host.prepare()
        host.authorize(KEY.export_public_key().decode())
        supervisor.start(host.service)
        yield host


def over_ssh(host: Loopback, what: Callable[[asyncssh.SSHClientConnection], Awaitable[Answer]], **options) -> Answer:
    async def session() -> Answer:
        pinned = ([asyncssh.import_public_key(host.host_key)], [], [])
        settings = {"username": host.user, "client_keys": [KEY], "known_hosts": pinned, "config": None, **options}
        async with asyncssh.connect(ADDRESS, host.port, agent_path=None, **settings) as connection:
            return await what(connection)

    return asyncio.run(asyncio.wait_for(session(), 60))


def run(host: Loopback, command: str, **options) -> asyncssh.SSHCompletedProcess:
    return over_ssh(host, lambda connection: connection.run(command, encoding=None, **options))


def test_a_command_runs_as_the_same_user_in_the_hosts_home(host: Loopback) -> None:
    done = run(host, "id -u; pwd; echo $HOME")
    assert done.stdout.decode().split() == [str(os.getuid()), str(host.home), str(host.home)]


def test_the_servers_secrets_are_not_in_a_commands_environment(host: Loopback) -> None:
    assert b"PROVING" not in run(host, "env").stdout


@pytest.mark.parametrize(("command", "status"), [("exit 7", 7), ("true", 0), ("no-such-tool", 127)])
def test_the_exit_status_is_the_commands_own(host: Loopback, command: str, status: int) -> None:
    assert run(host, command).exit_status == status


def test_death_by_signal_is_reported_as_such(host: Loopback) -> None:
    assert run(host, "kill -9 $$").exit_signal[0] == "KILL"


def test_a_megabyte_is_echoed_unchanged(host: Loopback) -> None:
    sent = os.urandom(1 << 20)
    assert run(host, "cat", input=sent).stdout == sent


def test_output_is_complete_before_the_status(host: Loopback) -> None:
    done = run(host, "head -c 3000000 /dev/zero; head -c 2000000 /dev/zero >&2; exit 3")
    assert (len(done.stdout), len(done.stderr), done.exit_status) == (3_000_000, 2_000_000, 3)


def test_a_command_that_reads_only_some_of_its_input_ends(host: Loopback) -> None:
    assert run(host, "head -c 5", input=b"12345" + bytes(1 << 20)).stdout == b"12345"


def test_a_detached_child_survives_its_session_and_is_reaped_at_its_end(host: Loopback) -> None:
    loop = "touch wait; setsid sh -c 'while [ -e wait ]; do sleep 0.1; done' >/dev/null 2>&1 </dev/null & echo $!"
    pid = int(run(host, loop).stdout)
    born = processes.read(pid)
    assert born is not None and born.state != "Z"
    (host.home / "wait").unlink()
    deadline = time.monotonic() + 60
    while processes.read(pid) is not None:  # a zombie would still be there
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_twenty_commands_at_once_on_one_connection(host: Loopback) -> None:
    async def many(connection: asyncssh.SSHClientConnection) -> list[str]:
        done = await asyncio.gather(*(connection.run(f"sleep 0.1; echo {n}") for n in range(20)))
        return [one.stdout.strip() for one in done]

    assert over_ssh(host, many) == [str(n) for n in range(20)]


def test_files_arrive_by_sftp(host: Loopback) -> None:
    sent = os.urandom(300_000)

    async def put(connection: asyncssh.SSHClientConnection) -> None:
        async with connection.start_sftp_client() as sftp, sftp.open("agent.pyz", "wb") as file:
            await file.write(sent)

    over_ssh(host, put)
    assert (host.home / "agent.pyz").read_bytes() == sent


def test_another_key_is_refused(host: Loopback) -> None:
    with pytest.raises(asyncssh.PermissionDenied):
        over_ssh(host, lambda c: c.run("true"), client_keys=[asyncssh.generate_private_key("ssh-ed25519")])


def test_another_user_is_refused(host: Loopback) -> None:
    with pytest.raises(asyncssh.PermissionDenied):
        over_ssh(host, lambda c: c.run("true"), username="somebody")


def test_a_password_is_refused(host: Loopback) -> None:
    with pytest.raises(asyncssh.PermissionDenied):
        over_ssh(host, lambda c: c.run("true"), client_keys=None, password="secret")


def test_a_client_that_pinned_another_key_turns_away(host: Loopback) -> None:
    with pytest.raises(asyncssh.HostKeyNotVerifiable):
        over_ssh(host, lambda c: c.run("true"), known_hosts=([KEY.convert_to_public()], [], []))


def test_forwarding_and_terminals_are_refused(host: Loopback) -> None:
    async def tunnel(connection: asyncssh.SSHClientConnection) -> None:
        await connection.open_connection("127.0.0.1", host.port)

    with pytest.raises(asyncssh.ChannelOpenError):
        over_ssh(host, tunnel)
    with pytest.raises(asyncssh.ProcessError):
        over_ssh(host, lambda c: c.run(check=True))


POLITE_JOB = 'trap "echo restored >> note; exit" TERM; echo $$ > pid; while :; do sleep 0.1; done'
# Starts it, and ends when it can be asked to end.
START_JOB = f"rm -f pid; setsid sh -c '{POLITE_JOB}' >/dev/null 2>&1 </dev/null & until [ -s pid ]; do sleep 0.05; done"


@pytest.mark.thorough
def test_key_and_port_stay_and_detached_jobs_end_with_the_server(tmp_path: Path) -> None:
    identities = []
    for _ in range(2):
        with Supervisor(tmp_path) as supervisor:
            host = Loopback(supervisor.state)
            host.prepare()
            host.authorize(KEY.export_public_key().decode())
            supervisor.start(host.service)
            run(host, START_JOB)
            pid = int((host.home / "pid").read_text())
            assert processes.read(pid) is not None
            identities.append((host.port, host.host_key, host.authorized_keys.read_text()))
        assert processes.read(pid) is None
    assert identities[0] == identities[1]
    assert (host.home / "note").read_text().split() == ["restored"] * 2, "each was asked before it was killed"


SERVE = """
import sys
from pathlib import Path
from embedded.servers.loopback import Loopback
from embedded.supervisor import Supervisor
with Supervisor(Path(sys.argv[1])) as supervisor:
    host = Loopback(supervisor.state)
    host.prepare()
    host.authorize(sys.argv[2])
    supervisor.start(host.service)
    print("up", flush=True)
    supervisor.serve()
"""


@pytest.mark.thorough
def test_detached_jobs_get_a_signal_to_end_even_if_the_supervisor_was_killed(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", SERVE, str(tmp_path), KEY.export_public_key().decode()]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline() == "up\n"
        host = Loopback(tmp_path)
        run(host, START_JOB)
        job = processes.read(int((host.home / "pid").read_text()))
        assert job is not None
        supervisor.kill()
    assert processes.wait_gone(lambda: [job] if processes.alive(job) else [], 60) == []
    assert (host.home / "note").read_text() == "restored\n"
