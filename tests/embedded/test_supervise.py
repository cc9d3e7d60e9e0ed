"""All started processes end: in order, on errors, after a SIGKILL of the supervisor, and if they detach."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from embedded import processes
from embedded.errors import StackError
from embedded.supervisor import Service, Stopped, Supervisor

pytestmark = pytest.mark.fast
PYTHON = sys.executable


def sleeper(name: str, argv: list[str] | None = None, ready: Callable[[], bool] = lambda: True, **kwargs) -> Service:
    return Service(name, argv or ["sleep", "300"], ready, **kwargs)


def gone(*pids: int, within_s: float = 60) -> bool:
    return not processes.wait_gone(
        lambda: [p for pid in pids if (p := processes.read(pid)) and p.state not in "ZX"], within_s
    )


def test_services_run_in_their_own_sessions_and_end_with_the_supervisor(state: Path) -> None:
    with Supervisor(state) as supervisor:
        supervisor.start(sleeper("one"), sleeper("two"))
        pids = [supervisor.pid("one"), supervisor.pid("two")]
        assert [os.getsid(pid) for pid in pids] == pids
    assert gone(*pids, within_s=0)


def test_services_end_in_reverse_order(state: Path) -> None:
    order = state / "order"
    script = "import signal, sys, time; signal.signal(15, lambda *_: (open({!r}, 'a').write({!r}), sys.exit())); "
    say = "print('up', flush=True); time.sleep(300)"
    with Supervisor(state) as supervisor:
        for name in "abc":
            argv = [PYTHON, "-c", script.format(str(order), name) + say]
            supervisor.start(sleeper(name, argv, lambda name=name: "up" in supervisor.log(name).read_text()))
    assert order.read_text() == "cba"


def test_a_service_that_ignores_its_stop_signal_is_killed_with_its_whole_session(state: Path) -> None:
    argv = ["sh", "-c", "trap '' TERM; sleep 300 & echo $!; while :; do sleep 1; done"]
    with Supervisor(state) as supervisor:
        supervisor.start(sleeper("deaf", argv, lambda: supervisor.log("deaf").stat().st_size > 0, grace_s=0.2))
        leader, child = supervisor.pid("deaf"), int(supervisor.log("deaf").read_text())
    assert gone(leader, child, within_s=0)


def test_a_detached_grandchild_is_ended(state: Path) -> None:
    argv = ["sh", "-c", "setsid sh -c 'echo $$; exec sleep 300' & wait; sleep 300"]
    with Supervisor(state) as supervisor:
        supervisor.start(sleeper("parent", argv, lambda: supervisor.log("parent").stat().st_size > 0))
        hidden = int(supervisor.log("parent").read_text())
        assert os.getsid(hidden) != supervisor.pid("parent")
    assert gone(hidden, within_s=0)


def test_a_service_that_ends_at_once_is_reported_with_the_end_of_its_log(state: Path) -> None:
    argv = ["sh", "-c", "echo no such table; exit 3"]
    with (
        pytest.raises(StackError, match=r"broken ended with status 3; the end of .*\n +no such table"),
        Supervisor(state) as supervisor,
    ):
        supervisor.start(sleeper("fine"), sleeper("broken", argv, lambda: False))


def test_a_service_that_never_becomes_ready_is_ended(state: Path) -> None:
    with pytest.raises(StackError, match=r"mute was not ready after 0.2 s"), Supervisor(state) as supervisor:
        supervisor._spawn(mute := sleeper("mute", ready=lambda: False, ready_s=0.2))
        pid = supervisor.pid("mute")
        supervisor._services["mute"] = mute
        supervisor._await_ready(mute)
    assert gone(pid, within_s=0)


def test_a_service_that_may_be_restarted_is_restarted(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Supervisor(state) as supervisor:
        supervisor.start(sleeper("web", restart=True))
        first = supervisor.pid("web")
        os.kill(first, signal.SIGKILL)
        assert gone(first)
        supervisor.check()
        assert supervisor.pid("web") != first
        assert "web ended with status -9; restarting it" in capsys.readouterr().err


def test_a_store_that_ended_stops_the_stack(state: Path) -> None:
    with pytest.raises(StackError, match="postgres ended with status -9"), Supervisor(state) as supervisor:
        supervisor.start(sleeper("postgres"))
        os.kill(supervisor.pid("postgres"), signal.SIGKILL)
        supervisor.serve()


def test_sigterm_stops_the_stack(state: Path) -> None:
    with pytest.raises(Stopped, match="SIGTERM"), Supervisor(state) as supervisor:
        supervisor.start(sleeper("one"))
        pid = supervisor.pid("one")
        os.kill(os.getpid(), signal.SIGTERM)
        supervisor.serve()
    assert gone(pid, within_s=0)


def test_a_second_supervisor_is_refused_with_the_owner_of_the_directory(state: Path) -> None:
    with Supervisor(state), pytest.raises(StackError, match=rf"in use by process {os.getpid()}"), Supervisor(state):
        pass


KILLED = """
import os, sys, time
from pathlib import Path
from embedded.supervisor import Service, Supervisor
with Supervisor(Path(sys.argv[1])) as supervisor:
    deaf = ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.2; done"]
    is_deaf = lambda: supervisor.log("deaf").stat().st_size > 0
    supervisor.start(Service("polite", ["sleep", "300"], lambda: True), Service("deaf", deaf, is_deaf))
    print(supervisor.pid("polite"), supervisor.pid("deaf"), flush=True)
    time.sleep(300)
"""


def test_children_of_a_killed_supervisor_end_and_the_next_one_sweeps_the_rest(state: Path) -> None:
    killed = subprocess.Popen([PYTHON, "-c", KILLED, str(state)], stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    polite, deaf = map(int, killed.stdout.readline().split())

    killed.kill()
    killed.wait(60)
    killed.stdout.close()

    assert gone(polite), "the parent-death signal ends it"
    assert not gone(deaf, within_s=0), "it ignores signals"
    with Supervisor(state):
        assert gone(deaf), "the next start swept it"


def test_a_sweep_spares_a_process_that_got_a_recorded_pid_later(state: Path) -> None:
    stranger = subprocess.Popen(["sleep", "300"], start_new_session=True)
    boot = processes.boot_id()
    row = f'{{"name": "web", "pid": {stranger.pid}, "start": 1}}'
    (state / "children.json").write_text(f'{{"boot_id": "{boot}", "children": [{row}]}}')
    with Supervisor(state):
        time.sleep(0.2)
        assert stranger.poll() is None
        stranger.kill()
        stranger.wait(60)


def test_processes_from_before_the_supervisor_are_not_ended(state: Path) -> None:
    other = subprocess.Popen(["sh", "-c", "sleep 300 & echo $!; wait"], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    child = int(other.stdout.readline())
    with Supervisor(state) as supervisor:
        supervisor.start(sleeper("one"))
    assert other.poll() is None
    assert processes.read(child) is not None
    os.kill(child, signal.SIGTERM)
    other.wait(60)
    other.stdout.close()


def test_orphans_are_no_longer_adopted_after_the_supervisor(state: Path) -> None:
    with Supervisor(state):
        pass
    orphan = int(
        subprocess.run(["sh", "-c", "sleep 2 >/dev/null 2>&1 & echo $!"], capture_output=True, text=True).stdout
    )
    process = processes.read(orphan)
    assert process is not None and process.ppid != os.getpid()
    assert gone(orphan)
