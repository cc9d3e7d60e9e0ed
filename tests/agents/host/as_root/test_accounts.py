"""What a user or a local account chooses never runs as root, whatever the target of the run is."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agents.errors import Failure
from agents.host import programs
from agents.host.programs import TOOL_PATH
from agents.host.system import System
from agents.measure.tracer import Tracer
from agents.postgres import gucs
from agents.postgres.cluster import APART
from agents.postgres.service import Owned, Service
from agents.records.journal import Journal
from agents.records.processes import Account, as_uid, spawn
from agents.records.spool import Job
from tests.agents.driver import OK, Connection, of
from tests.agents.theirs import DEBIANS

pytestmark = pytest.mark.needs("root")
MALLORY = 54321
PROGRAM = """#!/bin/sh
id -u >> {mark}
echo 'pgbench (PostgreSQL) 16.4'
"""


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A directory in which every account can write."""
    root = Path(tempfile.mkdtemp(prefix="accounts-"))
    root.chmod(0o1777)
    yield root
    shutil.rmtree(root)


@pytest.fixture
def planted(open_to_all: Path) -> Path:
    """Mallory's bin directory. Each program in it appends the uid that it ran with to the file `ran`."""
    bin_dir = open_to_all / "bin"
    bin_dir.mkdir()
    for name in ("postgres", "pgbench", "pg_test_timing"):
        program = bin_dir / name
        program.write_text(PROGRAM.format(mark=open_to_all / "ran"))
        program.chmod(0o755)
        os.chown(program, MALLORY, MALLORY)
    os.chown(bin_dir, MALLORY, MALLORY)
    return bin_dir


def ran_as(planted: Path) -> set[str]:
    """The uids that its programs ran with."""
    mark = planted.parent / "ran"
    return set(mark.read_text().split()) if mark.exists() else set()


def without_postgres(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    step = {"name": "measure", "kind": kind, "options": options}
    return {"version": 1, "target": None, "settings": {}, "steps": [step], "collect": {"interval_s": 1, "sources": []}}


def output(agent: Connection, spec: dict[str, Any]) -> str:
    run = agent.submit(spec)
    assert of(agent.events(run), "outcome") == [OK]
    return agent.file(run, "out/measure/stdout").decode().strip()


@pytest.fixture
def load_uid() -> str:
    try:
        return str(pwd.getpwnam("proving-load").pw_uid)
    except KeyError:
        return str(APART)


def test_a_command_without_postgresql_runs_as_an_account_without_rights(agent: Connection, load_uid: str) -> None:
    uid = output(agent, without_postgres("command", {"program": "id", "arguments": "-u"}))
    groups = output(agent, without_postgres("command", {"program": "id", "arguments": "-G"}))

    assert uid == load_uid and "0" not in groups.split()


def test_a_command_without_postgresql_runs_as_the_account_of_the_host(agent: Connection) -> None:
    spec = {**without_postgres("command", {"program": "id", "arguments": "-un"}), "os_user": "nobody"}

    assert output(agent, spec) == "nobody"


def test_a_command_never_runs_as_root_by_name(agent: Connection) -> None:
    run = agent.submit({**without_postgres("command", {"program": "id", "arguments": "-u"}), "os_user": "root"})

    (ended,) = of(agent.events(run), "outcome")
    assert ended["outcome"] == "failed" and "an account that is not root" in ended["error"]["message"]


def test_a_planted_tool_of_a_step_does_not_run_as_root(agent: Connection, planted: Path, load_uid: str) -> None:
    run = agent.submit(without_postgres("pg_test_timing", {"bin_dir": str(planted), "duration_s": 1}))
    agent.events(run)

    assert ran_as(planted) == {load_uid}


def test_a_planted_pgbench_does_not_check_scripts_as_root(agent: Connection, planted: Path) -> None:
    options = {"clients": 1, "time_s": 1, "scripts": [{"name": "one", "text": "select 1;", "weight": 1}]}
    step = {"name": "measure", "kind": "pgbench", "options": options}

    agent.call("check", steps=[step], bin_dir=str(planted))

    assert ran_as(planted) == {str(MALLORY)}


def test_a_pgbench_that_several_accounts_can_change_runs_as_one_that_owns_nothing(
    agent: Connection, planted: Path
) -> None:
    os.chown(planted, 0, 0)
    planted.chmod(0o777)
    options = {"clients": 1, "time_s": 1, "scripts": [{"name": "one", "text": "select 1;", "weight": 1}]}
    step = {"name": "measure", "kind": "pgbench", "options": options}

    agent.call("check", steps=[step], bin_dir=str(planted))

    assert ran_as(planted) == {str(programs.STRANGER)}


def test_whoever_owns_a_link_on_the_way_can_change_what_a_path_names(open_to_all: Path) -> None:
    """In a directory with the sticky bit, only the owner of a link can replace it."""
    link = open_to_all / "link"
    link.symlink_to("/usr")
    os.chown(link, MALLORY, MALLORY, follow_symlinks=False)

    assert programs.owners(f"{link}/bin/env") == {0, MALLORY}
    with pytest.raises(Failure, match="is not executed, because another account can change it"):
        System().run([f"{link}/bin/env"])


OWNERS = """
import os, sys
from agents.host import programs
os.chroot(sys.argv[1])
print(programs.owners("/file"))
"""


@pytest.mark.parametrize(("mode", "able"), [(0o755, frozenset({0})), (0o777, None), (0o1777, frozenset({0}))])
def test_whoever_can_write_to_the_root_directory_can_change_each_program(
    tmp_path: Path, mode: int, able: frozenset[int] | None
) -> None:
    (tmp_path / "file").touch()
    tmp_path.chmod(mode)

    shown = subprocess.run([sys.executable, "-c", OWNERS, tmp_path], capture_output=True, text=True, check=True)

    assert shown.stdout == f"{able}\n"


def test_a_program_whose_child_keeps_its_output_open_does_not_stop_the_agent(tmp_path: Path) -> None:
    began = time.monotonic()

    with pytest.raises(Failure, match="did not end within 1 s"):
        System().run(["sh", "-c", "setsid sleep 60 & sleep 60"], limit_s=1.0)

    assert time.monotonic() - began < 30


@pytest.fixture
def private_groups() -> list[pwd.struct_passwd]:
    """Two accounts, each with a group of its own name that has no other members."""
    users = Counter(account.pw_gid for account in pwd.getpwall())
    accounts = [account for account in pwd.getpwall() if account.pw_uid != 0 and users[account.pw_gid] == 1]
    groups = {group.gr_gid: group for group in grp.getgrall() if not group.gr_mem}
    found = [each for each in accounts if each.pw_gid in groups and groups[each.pw_gid].gr_name == each.pw_name]
    return found[:2]


def give(planted: Path, uid: int, gid: int) -> Path:
    """As after `make install` with the umask 002. Its owner's home is closed to others."""
    for path, mode in ((planted, 0o2770), (planted / "postgres", 0o775), (planted / "psql", 0o775)):
        if not path.exists():
            shutil.copy(planted / "postgres", path)
        os.chown(path, uid, gid)
        path.chmod(mode)
    return planted / "postgres"


def test_a_group_without_other_members_can_write_programs(
    planted: Path, private_groups: list[pwd.struct_passwd]
) -> None:
    owner = private_groups[0]
    program = give(planted, owner.pw_uid, owner.pw_gid)

    System().run_found([str(program)])

    assert programs.owners(str(program)) == {0, owner.pw_uid}
    assert ran_as(planted) == {str(owner.pw_uid)}


def test_a_system_group_without_members_can_write_programs_of_root(
    planted: Path,
) -> None:
    staff = next(group.gr_gid for group in grp.getgrall() if group.gr_name in ("staff", "utmp") and not group.gr_mem)

    assert programs.owners(str(give(planted, 0, staff))) == {0}


def test_a_group_with_another_member_cannot_write_programs(
    planted: Path, private_groups: list[pwd.struct_passwd]
) -> None:
    owner, other = private_groups

    assert programs.owners(str(give(planted, owner.pw_uid, other.pw_gid))) is None
    assert programs.owners(str(give(planted, 0, other.pw_gid))) is None


def test_a_group_that_no_file_lists_cannot_write_programs(planted: Path) -> None:
    assert programs.owners(str(give(planted, MALLORY, MALLORY))) is None


def test_a_restore_executes_programs_that_were_checked_before_the_run(
    planted: Path, private_groups: list[pwd.struct_passwd]
) -> None:
    """Their group can get a member during the run, and the cluster must be restored nevertheless."""
    owner, other = private_groups
    give(planted, owner.pw_uid, other.pw_gid)
    planted.chmod(0o2775)
    entry = {
        "bin_dir": str(planted),
        "uid": owner.pw_uid,
        "gid": owner.pw_gid,
        "groups": [],
        "os_user": owner.pw_name,
        "data_dir": str(planted.parent),
        "options": [],
        "unit": "",
    }
    with pytest.raises(Failure, match="is not executed, because another account can change it"):
        Owned(System(), entry)

    recorded = {**entry, "seq": 7}
    Owned(System(), recorded).tool("psql")
    Service(System(), cast(Any, None), recorded)._pg_ctl("start")

    assert ran_as(planted) == {str(owner.pw_uid)}


@pytest.fixture
def rooted() -> Account:
    """Root itself, as an ordinary uid in a user namespace."""
    return Account("rooted", wrapper=as_uid(1000))


def start(tmp_path: Path, argv: list[str], account: Account, **env: str) -> str:
    """The output of a process of a run."""
    system = System()
    journal, output = Journal(Job(tmp_path, system, lambda: None), system), tmp_path / "output"
    with output.open("wb") as file:
        child = spawn(journal, argv, purpose="load", account=account, env=env, stdout=file, stderr=file)
        child.wait(10.0)
    return output.read_text()


@pytest.mark.parametrize("prefix", [[], ["taskset", "-c", "0"], ["taskset", "-c", "0", "numactl", "-l"]])
def test_no_program_of_another_account_runs_with_the_rights_of_root_in_a_namespace(
    planted: Path, tmp_path: Path, rooted: Account, prefix: list[str]
) -> None:
    """Root may own the directory, and postgres in it."""
    os.chown(planted, 0, 0)
    argv = [*prefix, f"{planted}/pgbench", "--version"]

    with pytest.raises(Failure, match="pgbench is not executed, because another account can change it"):
        System().run([*rooted.wrapper, *argv])
    with pytest.raises(Failure, match="pgbench is not executed, because another account can change it"):
        start(tmp_path, argv, rooted, PATH=TOOL_PATH)

    assert ran_as(planted) == set()


def test_the_wrapper_that_was_checked_is_the_one_that_runs(planted: Path, tmp_path: Path, rooted: Account) -> None:
    """The variable PATH of the process can name others."""
    shutil.copy(planted / "pgbench", planted / "unshare")

    start(tmp_path, ["/bin/true"], rooted, PATH=f"{planted}:{TOOL_PATH}")

    assert ran_as(planted) == set()


def test_a_process_of_another_account_has_no_group_of_the_agent(tmp_path: Path) -> None:
    """Python 3.12.0 keeps all groups if the list of others is empty: for short commands it is not, and processes of a
    run, such as a server that is restored, change their groups themselves."""
    mallory = Account("mallory", user=MALLORY, group=MALLORY)
    argv = ["grep", "^Groups:", "/proc/self/status"]

    shown = System().run(argv, user=MALLORY, group=MALLORY).stdout, start(tmp_path, argv, mallory)

    assert [line.split() for line in shown] == [["Groups:", str(MALLORY)], ["Groups:"]]


FLOODS = """
import resource, sys
from agents.errors import Failure
from agents.host.system import System
resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))
try:
    System().run_found([sys.argv[1], "--version"], limit_s=30.0)
except Failure as failure:
    print(failure.message)
"""


@pytest.mark.parametrize("stream", [1, 2])
def test_a_program_that_prints_without_end_does_not_fill_memory(planted: Path, stream: int) -> None:
    program = planted / "postgres"
    program.write_text(f"#!/bin/sh\nexec cat /dev/zero >&{stream}\n")

    shown = subprocess.run([sys.executable, "-c", FLOODS, program], capture_output=True, text=True)

    assert shown.stdout == f"{program} printed more than 1 MiB\n"


def test_a_program_gets_its_input_while_it_prints() -> None:
    text = "x" * 300_000

    assert System().run(["cat"], stdin=text).stdout == text


def test_a_program_need_not_read_its_input() -> None:
    assert System().run(["true"], stdin="x" * 300_000).code == 0


def test_a_tracer_of_root_attaches_only_to_processes_of_the_server_whatever_it_answers() -> None:
    answers = [1, 4242, "1 /*", "--unsafe", None, True, 4242.0]
    scene = SimpleNamespace(server_processes=lambda: [SimpleNamespace(pid=4242)])
    run = SimpleNamespace(scene=scene, cluster=SimpleNamespace(sql=lambda query: answers))

    assert Tracer(cast(Any, run), Path("/out"), {}, "measure", 1)._backends() == [4242]


@pytest.mark.parametrize("ask", [gucs.contexts, lambda *at: gucs.check(*at, {"work_mem": "8MB"})])
def test_a_planted_server_is_not_asked_for_its_parameters_as_root(
    planted: Path, ask: Callable[[System, str], object]
) -> None:
    ask(System(), str(planted))

    assert ran_as(planted) == {str(MALLORY)}


@pytest.fixture
def postmaster(open_to_all: Path) -> Iterator[Path]:
    """The bin directory of a process of nobody's that calls itself postgres in a data directory. The programs that are
    there now append the uid that they ran with to the file `ran`."""
    nobody, bin_dir, data_dir = pwd.getpwnam("nobody"), open_to_all / "bin", open_to_all / "data"
    mark = open_to_all / "ran"
    mark.touch()
    mark.chmod(0o666)  # the kernel lets root write to no file of another account in a directory that is open to all
    bin_dir.mkdir()
    data_dir.mkdir(mode=0o700)
    (data_dir / "PG_VERSION").write_text("16\n")
    (data_dir / "postgresql.conf").write_text("port = 6543\n")
    shutil.copy(shutil.which("sleep") or "", bin_dir / "postgres")
    for path in (bin_dir, data_dir):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    account: dict[str, Any] = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    process = subprocess.Popen([bin_dir / "postgres", "300"], cwd=data_dir, **account)
    (data_dir / "postmaster.pid").write_text(f"{process.pid}\n{data_dir}\n0\n6543\n{data_dir}\n")
    (bin_dir / "postgres").unlink()
    for name, end in (("postgres", ""), ("psql", "exit 1\n")):
        (bin_dir / name).write_text(PROGRAM.format(mark=mark) + end)
        (bin_dir / name).chmod(0o755)
        os.chown(bin_dir / name, nobody.pw_uid, nobody.pw_gid)
    yield bin_dir
    process.kill()
    process.wait()


def test_a_process_named_postgres_has_nothing_run_as_root_when_drift_is_asked_for(
    agent: Connection, postmaster: Path
) -> None:
    """The facts of the host name its programs, and the request for the parameters in effect executes them."""
    facts = agent.call("facts", pg_bin_dirs=[str(postmaster)])
    planted = [each for each in facts["clusters"] if each["bin_dir"] == str(postmaster)]
    by_facts = ran_as(postmaster)
    (shown,) = agent.call("parameters", clusters=planted, names=["work_mem"])

    assert [(each["owner"], each["running"]) for each in planted] == [("nobody", True)]
    assert by_facts == {str(pwd.getpwnam("nobody").pw_uid)}
    assert "cannot query" in shown["refused"]["message"]
    assert ran_as(postmaster) == by_facts


@pytest.mark.needs("postgresql-15")  # the owner may not be able to enter the directory of ours
@pytest.mark.parametrize("name", ["postgres", "psql", "pg_ctl"])
def test_the_owner_of_a_cluster_executes_no_program_of_another_account(planted: Path, name: str) -> None:
    """Whoever names the bin directory in a request must not become the owner of the cluster."""
    owner = pwd.getpwnam("nobody")
    mixed = planted.parent / "mixed"
    mixed.mkdir()
    for program in ("postgres", "psql", "pg_ctl"):
        (mixed / program).symlink_to(
            f"{planted if program == name else DEBIANS}/{'postgres' if program == name else program}"
        )
    entry = {
        "bin_dir": str(mixed),
        "uid": owner.pw_uid,
        "gid": owner.pw_gid,
        "groups": [],
        "os_user": "nobody",
        "data_dir": str(planted.parent),
        "options": [],
        "unit": "",
    }

    with pytest.raises(Failure, match="is not executed, because another account can change it"):
        cluster = Owned(System(), entry)
        cluster.tool(name)
        Service(System(), cast(Any, None), entry)._pg_ctl("start")

    assert ran_as(planted) == set()


def test_root_executes_no_program_that_another_account_can_change(planted: Path) -> None:
    with pytest.raises(Failure, match="is not executed, because another account can change it"):
        System().run([f"{planted}/postgres"])

    assert ran_as(planted) == set()
