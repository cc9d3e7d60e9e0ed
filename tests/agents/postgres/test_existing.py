"""Existing clusters: consents before a change, parameters in effect, and the restore."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.facts.clusters import include_path
from agents.host.system import System
from agents.postgres import cluster, guest
from agents.records.journal import Journal
from agents.records.spool import Spool
from agents.rpc import Agent
from agents.wire import protocol
from tests.agents.conftest import Connect
from tests.agents.driver import Connection, Refused, of
from tests.agents.dying import RUN, Machine, die
from tests.agents.sql.test_load_role import ATTACKS, refused
from tests.agents.theirs import DEBIANS, OWNER, Theirs
from tests.servers.remote import short_dir

pytestmark = pytest.mark.needs("postgresql-15")
Spec = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def template() -> Iterator[Theirs]:
    with short_dir() as root:
        yield Theirs(root / "template").create()


@pytest.fixture
def theirs(template: Theirs) -> Iterator[Theirs]:
    """A stopped existing cluster of another account."""
    with short_dir() as root:
        cluster = template.copy(root / "c")
        yield cluster
        cluster.stop()


@pytest.fixture
def run(agent: Connection, spec: Spec) -> Callable[..., list[dict[str, Any]]]:
    """Submits a run with this target and these settings, and gives its events."""

    def run(target: dict[str, Any], settings: dict[str, Any] | None = None, **options: Any) -> list[dict[str, Any]]:
        parts = {name: options.pop(name) for name in ("dataset", "steps") if name in options}
        if "collect" in options:
            parts["collect"] = {"interval_s": 1, "sources": options.pop("collect")}
        return agent.events(agent.submit({**spec(settings, time_s=1, **options), **parts, "target": target}))

    return run


def outcome(events: list[dict[str, Any]]) -> str:
    ended = of(events, "outcome")[0]
    return ended["outcome"] if ended["error"] is None else f"{ended['outcome']}: {ended['error']['message']}"


@pytest.mark.fast
def test_without_the_consent_to_measure_nothing_of_it_is_touched(theirs: Theirs, run: Any) -> None:
    before = theirs.start().snapshot()

    events = run(theirs.target(measure=False))

    assert "target.consent.measure" in outcome(events)
    assert theirs.snapshot() == before


@pytest.mark.proves("postgresql", where="here")
def test_parameters_that_a_reload_puts_in_effect_restart_nothing(theirs: Theirs, run: Any) -> None:
    before, pid = theirs.start().snapshot(), theirs.postmaster()

    events = run(theirs.target(), {"postgresql": {"work_mem": "8MB", "max_wal_size": "2GB"}})

    assert outcome(events) == "ok"
    proofs = [
        (p["phase"], p["found"], p["ok"]) for p in of(events, "proof", subject="work_mem") if p["phase"] != "restored"
    ]
    assert proofs == [("before", "8MB", True), ("after", "8MB", True)]
    restored = of(events, "proof", phase="restored", subject="work_mem")[0]
    assert (restored["found"]["setting"], restored["ok"]) == ("4096", True)
    assert theirs.postmaster() == pid and theirs.snapshot() == before


@pytest.mark.proves("postgresql", where="here")
@pytest.mark.proves("cpu_affinity", where="here")
def test_the_server_is_restarted_on_chosen_cpus_and_restored(theirs: Theirs, run: Any) -> None:
    before = theirs.start("-c work_mem=5MB", "-c application_name='a b'", prefix=("taskset", "-c", "1")).snapshot()

    events = run(
        theirs.target(restart=True), {"postgresql": {"shared_buffers": "32MB"}, "cpu_affinity": {"server": "0"}}
    )

    assert outcome(events) == "ok"
    assert of(events, "proof", subject="shared_buffers")[0]["found"] == "32MB"
    during = of(events, "proof", setting="cpu_affinity", phase="during")[-1]
    assert (during["found"], during["ok"]) == ("0", True)
    assert of(events, "proof", subject="cpus of the server")[0]["found"] == "1"
    assert theirs.snapshot() == before


def test_a_cluster_that_was_stopped_is_stopped_again(theirs: Theirs, run: Any) -> None:
    theirs.start()
    theirs.stop()
    before = theirs.snapshot()

    events = run(theirs.target(restart=True), {"postgresql": {"shared_buffers": "32MB"}})

    assert outcome(events) == "ok"
    assert of(events, "proof", subject="server", phase="restored")[0]["found"] == "stopped"
    assert theirs.snapshot() == before
    assert "proving_ground" not in theirs.start().snapshot()["databases"]


def test_an_existing_database_in_a_stopped_cluster_is_not_dropped(theirs: Theirs, run: Any) -> None:
    theirs.start().sql("create database proving_ground")
    theirs.stop()

    events = run(theirs.target(restart=True))

    assert "already has a database proving_ground" in outcome(events)
    assert "proving_ground" in theirs.start().snapshot()["databases"]


PLANTED = """
alter database proving_ground set search_path = public, pg_catalog;
create function public.pg_database_size(name) returns bigint language plpgsql as $f$ begin
  execute 'alter role "proving-load" superuser'; return 1; exception when insufficient_privilege then return 1; end $f$
"""
TOUCHED = Path(f"/tmp/pa-{os.getpid()}")  # a name has at most 63 bytes
# Where a backslash escapes, the agent's literal of this name ends after `\'`, and the rest is SQL.
BACKSLASH = f"""
alter database proving_ground set standard_conforming_strings = off;
do $x$ declare s text := chr(92) || $y$')y,(select 1259::regclass c)x;/*$y$;
  r text := '*/copy(select 1)to pro' || 'gram ' || $y$$$cat>{TOUCHED}$$--$y$;
begin execute format('create schema %I', s); execute format('create table %I.%I (i int)', s, r); end $x$
"""
PROMOTED = """
do $x$ begin if (select rolsuper or rolcreatedb or rolcreaterole or rolbypassrls from pg_roles
  where rolname = session_user) then raise 'it is'; end if; end $x$
"""


@pytest.mark.fast
def test_the_load_is_not_a_superuser_and_no_superuser_calls_its_functions(theirs: Theirs, run: Any) -> None:
    theirs.start().sql("create table salaries as select 1 as salary")
    before = theirs.snapshot()
    attacks = {**ATTACKS, "borrow": f"execute 'set role {OWNER}'", "role": "execute 'create role more'"}
    steps = [{"name": name, "sql": refused(attack)} for name, attack in attacks.items()]
    steps += [{"name": "plant", "sql": PLANTED}, {"name": "backslash", "sql": BACKSLASH}]
    dataset = {"kind": "sql", "options": {"steps": steps}}
    planted = {"query": "select pg_database_size(current_database())", "times": 1}
    queries = [
        {"name": "promoted", "kind": "sql", "options": {"statements": PROMOTED}},
        {"name": "called", "kind": "sql", "options": planted},
    ]
    more: dict[str, Any] = {"dataset": dataset, "steps": queries, "collect": ["postgresql", "cpu"]}

    events = run(theirs.target(), {"cache": {"state": "warm"}}, **more)

    assert outcome(events) == "ok", of(events, "outcome")
    assert not TOUCHED.exists()
    assert theirs.snapshot() == before
    assert theirs.sql("select salary from salaries") == "1"


@pytest.mark.parametrize("statement", ["select salary from salaries", "update salaries set salary = 9"])
def test_the_role_of_the_load_neither_reads_nor_changes_tables_of_the_owner(
    theirs: Theirs, run: Any, statement: str
) -> None:
    """Even if pg_hba.conf lets it into every database: it has only what PUBLIC has there."""
    theirs.let_in("local all proving-load scram-sha-256")
    theirs.start().sql("create database payroll")
    theirs.sql("create table salaries as select 1 as salary", "payroll")
    arguments = "\n".join(["-X", "-d", "payroll", "-c", statement])
    attack = {"name": "measure", "kind": "command", "options": {"program": f"{DEBIANS}/psql", "arguments": arguments}}

    events = run(theirs.target(), dataset=None, steps=[attack])

    assert "permission denied for table salaries" in str(of(events, "outcome"))
    assert theirs.sql("select salary from salaries", "payroll") == "1"


def test_the_conditions_of_tpcc_are_checked_in_an_existing_cluster(theirs: Theirs, run: Any) -> None:
    theirs.start()
    steps = [{"name": "measure", "kind": "tpcc", "options": {"clients": 2, "transactions": 20}}]

    events = run(theirs.target(), dataset={"kind": "tpcc", "options": {}}, steps=steps)

    assert outcome(events) == "ok", of(events, "outcome")
    assert [proof["ok"] for proof in of(events, "proof", setting="dataset")] == [True] * 4


def test_an_existing_tablespace_can_be_used_and_has_its_privileges_back_afterwards(theirs: Theirs, run: Any) -> None:
    place = theirs.root / "fast"
    place.mkdir()
    shutil.chown(place, OWNER)
    theirs.start().sql(f"create tablespace fast location '{place}'")
    before = theirs.snapshot()

    events = run(theirs.target(), dataset={"kind": "pgbench", "options": {"tablespace": "fast"}})

    assert outcome(events) == "ok"
    assert theirs.snapshot() == before
    assert "proving-load" not in theirs.sql("select spcacl from pg_tablespace where spcname = 'fast'")


def test_objects_and_privileges_of_the_role_in_other_databases_are_dropped_with_it(
    theirs: Theirs, agent: Connection, spec: Spec
) -> None:
    before = theirs.start().snapshot()
    submitted = agent.submit({**spec(time_s=3), "target": theirs.target()})
    agent.events(submitted, until="RUNNING")
    theirs.sql('create schema left_behind authorization "proving-load"')
    theirs.sql('grant usage on schema public to "proving-load"')

    assert outcome(agent.events(submitted)) == "ok"
    assert theirs.snapshot() == before
    assert theirs.sql("select count(*) from pg_namespace where nspname = 'left_behind'") == "0"


def test_a_role_that_cannot_log_in_restarts_nothing_and_the_hint_has_the_line_to_add(theirs: Theirs, run: Any) -> None:
    theirs.let_in("")
    before, pid = theirs.start().snapshot(), theirs.postmaster()

    events = run(theirs.target(restart=True), {"postgresql": {"shared_buffers": "32MB"}})

    assert "proving-load cannot connect" in outcome(events)
    assert "local proving_ground proving-load scram-sha-256" in of(events, "outcome")[0]["error"]["hint"]
    assert theirs.postmaster() == pid and theirs.snapshot() == before


@pytest.mark.needs("root")
def test_an_account_of_its_own_is_let_in_by_peer_and_runs_the_load(
    theirs: Theirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The account daemon stands in for proving-load here; pg_ident.conf maps it."""
    theirs.let_in("local proving_ground proving-load peer map=guest")
    theirs.configure("guest daemon proving-load", file="pg_ident.conf")
    before = theirs.start().snapshot()
    daemon = cluster.named("daemon")
    monkeypatch.setattr(guest, "named", lambda name: daemon)
    borrowed = Borrowed(theirs.root.parent / "spool", theirs.target(), {})

    assert borrowed.die("verified", 0)

    rooms = [r["path"] for r in Journal(borrowed.job, borrowed.spool.system).records if r["entry"] == "scratch"]
    assert daemon and [Path(room).stat().st_uid for room in rooms] == [daemon.user]
    assert borrowed.restore() == "interrupted"
    assert theirs.snapshot() == before and not Path(rooms[0]).exists()


def test_a_restart_needs_consent(theirs: Theirs, run: Any) -> None:
    before, pid = theirs.start().snapshot(), theirs.postmaster()

    assert "permission to restart PostgreSQL, because shared_buffers" in outcome(
        run(theirs.target(), {"postgresql": {"shared_buffers": "32MB"}})
    )
    with pytest.raises(Refused, match="permission to restart PostgreSQL, because cpu_affinity"):
        run(theirs.target(), {"cpu_affinity": {"server": "0"}})
    assert theirs.postmaster() == pid and theirs.snapshot() == before


def test_connected_clients_are_listed_in_the_refusal_and_disturbed_only_with_consent(theirs: Theirs, run: Any) -> None:
    shop = theirs.start().client()
    try:
        refused = run(theirs.target(restart=True), {"postgresql": {"work_mem": "8MB"}})
        allowed = run(theirs.target(disturb_clients=True), {"postgresql": {"work_mem": "8MB"}})

        assert "their shop (nobody) from this host: 1" in outcome(refused)
        assert outcome(allowed) == "ok" and shop.poll() is None
        warnings = [log["message"] for log in of(allowed, "log", level="warning")]
        assert [warning.partition(":")[0] for warning in warnings[:2]] == [
            "other clients are disturbed, as allowed",
            "other clients disturbed step measure",
        ]
    finally:
        shop.kill()
        shop.wait()


def test_without_parameters_neither_an_include_nor_a_reload_is_needed(theirs: Theirs, run: Any) -> None:
    conf = theirs.data / "postgresql.conf"
    conf.write_text(conf.read_text().replace("include_dir 'conf.d'", ""))
    loaded = theirs.start().sql("select pg_conf_load_time()")
    link = theirs.root / "link"
    link.symlink_to(theirs.data)

    events = run({**theirs.target(), "include": "", "data_dir": str(link)}, {"cpu_affinity": {"client": "0"}})

    assert outcome(events) == "ok"
    assert theirs.sql("select pg_conf_load_time()") == loaded


def test_without_an_include_the_hint_has_the_line_to_add(theirs: Theirs, run: Any) -> None:
    conf = theirs.data / "postgresql.conf"
    conf.write_text(conf.read_text().replace("include_dir 'conf.d'", "#include_dir 'conf.d'"))

    events = run(theirs.target(restart=True))

    assert "target.include" in outcome(events)
    assert "include_if_exists 'proving_ground.conf'" in of(events, "outcome")[0]["error"]["hint"]


def leave_pending(theirs: Theirs) -> None:
    """Change a parameter that needs a restart, and wait until the server has read the change."""
    theirs.sql("alter system set max_connections = 30")
    theirs.sql("select pg_reload_conf()")
    deadline = time.monotonic() + 60
    while theirs.sql("select pending_restart from pg_settings where name = 'max_connections'") != "t":
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda t: t.include.write_text("work_mem = 1MB\n"), "did not create"),
        (lambda t: t.include.symlink_to("/etc/hostname"), "did not create"),
        (lambda t: t.sql("create database proving_ground"), "already has a database proving_ground"),
        (lambda t: t.sql('create role "proving-load"'), "already has a role proving-load"),
        (lambda t: t.sql("alter system set work_mem = '3MB'"), "was changed after"),
        (leave_pending, "needs a restart to take effect"),
    ],
    ids=["another file", "a link", "a database", "a role", "an edit without reload", "a pending restart"],
)
def test_objects_of_the_owner_are_not_touched(theirs: Theirs, run: Any, spoil: Any, message: str) -> None:
    theirs.start()
    spoil(theirs)
    before, pid = theirs.snapshot(), theirs.postmaster()

    events = run(theirs.target(restart=True), {"postgresql": {"shared_buffers": "32MB"}})

    assert message in outcome(events)
    assert of(events, "state")[-1]["state"] == "CLEAN"
    assert theirs.postmaster() == pid and theirs.snapshot() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"port": 5498}, "5499, its current port"),
        ({"os_user": "daemon"}, "the owner of"),
        ({"bin_dir": "the other"}, "not 15"),
        ({"unit": "postgresql@15-main.service"}, "target.unit"),
    ],
)
def test_a_target_that_contradicts_the_host_is_refused(
    theirs: Theirs, run: Any, bin_dir: str, change: dict[str, Any], message: str
) -> None:
    before = theirs.start().snapshot()
    change = {"bin_dir": bin_dir} if "bin_dir" in change else change

    ending = outcome(run({**theirs.target(restart=True), **change}))

    assert message in ending and ending.startswith("failed")
    assert theirs.snapshot() == before


def test_a_line_that_overrides_the_included_file_is_named(theirs: Theirs, run: Any) -> None:
    theirs.configure("work_mem = 6MB")
    theirs.start()

    ending = outcome(run(theirs.target(), {"postgresql": {"work_mem": "8MB"}}))

    line = len((theirs.data / "postgresql.conf").read_text().splitlines())
    assert ending.startswith("not_in_effect") and f"6MB of {theirs.data}/postgresql.conf line {line}" in ending


def test_a_parameter_that_drifts_fails_the_run_and_is_not_restored(
    theirs: Theirs, agent: Connection, spec: Spec
) -> None:
    theirs.start()
    run_spec = {**spec({"postgresql": {"work_mem": "8MB"}}, time_s=3), "target": theirs.target()}
    run = agent.submit(run_spec)
    agent.events(run, until="RUNNING")
    theirs.sql("alter system set work_mem = '9MB'")
    theirs.sql("select pg_reload_conf()")

    events = agent.events(run)

    assert outcome(events).startswith("not_in_effect") and "postgresql.auto.conf line" in outcome(events)
    assert [conflict["key"] for conflict in agent.manifest(run)[0]["conflicts"]] == ["postgresql.work_mem"]
    assert theirs.sql("show work_mem") == "9MB" and not theirs.include.exists()


@pytest.mark.parametrize("settings", [{"work_mem": "8MB"}, {"shared_buffers": "32MB"}], ids=["reload", "restart"])
def test_the_next_contact_after_a_killed_supervisor_restores_the_cluster(
    theirs: Theirs, connect: Connect, spec: Spec, tmp_path: Path, settings: Any
) -> None:
    from tests.agents.run.test_run import supervisor

    before, agent = theirs.start().snapshot(), connect()
    run = agent.submit({**spec({"postgresql": settings}, time_s=60), "target": theirs.target(restart=True)})
    agent.events(run, until="RUNNING")
    time.sleep(0.4)
    os.kill(supervisor(tmp_path, run), signal.SIGKILL)

    hello = connect().call("hello")

    assert (hello["busy"], hello["dirty"]) == (None, [])
    assert theirs.snapshot() == before


RELOADED, RESTARTED = {"work_mem": "8MB"}, {"shared_buffers": "32MB"}
# An odd number of boundaries between two kills: some are before a record, some after one.
SOME, EVERY = 11, 1


@pytest.mark.parametrize(
    ("settings", "step"),
    [
        pytest.param(RELOADED, SOME, id="reload"),
        pytest.param(RESTARTED, SOME, id="restart"),
        pytest.param(RESTARTED, EVERY, id="every boundary", marks=pytest.mark.slow),
    ],
)
def test_the_cluster_is_restored_after_a_supervisor_is_killed_at_a_boundary(
    theirs: Theirs, settings: Any, step: int
) -> None:
    before, at, died, outcomes = theirs.start().snapshot(), 1, True, []
    while died:
        borrowed = Borrowed(theirs.root.parent / str(at), theirs.target(restart=True), settings)
        died = borrowed.die("run", at)
        outcomes.append(borrowed.restore())
        assert theirs.snapshot() == before, at
        at += step

    assert len(outcomes) * step > 50 and set(outcomes) == {"interrupted", "ok"}, borrowed.job.manifest


@pytest.mark.parametrize("was", ["running", "stopped"])
def test_a_recovery_killed_at_a_boundary_is_taken_up_again(theirs: Theirs, was: str) -> None:
    theirs.start()
    if was == "stopped":
        theirs.stop()
    before, at, killed = theirs.snapshot(), 1, True
    while killed:
        borrowed = Borrowed(theirs.root.parent / str(at), theirs.target(restart=True), {"shared_buffers": "32MB"})
        assert borrowed.die("verified", 0)
        assert theirs.sql("show shared_buffers") == "32MB"
        killed = borrowed.die("restore", at)
        assert borrowed.restore() == "interrupted"
        assert theirs.snapshot() == before, at
        at += SOME


@pytest.mark.parametrize("up", [True, False], ids=["started by the boot", "not started"])
@pytest.mark.parametrize("early", [True, False], ids=["files went back early", "they did not"])
def test_after_a_power_cut_the_cluster_is_restored_in_the_next_boot(theirs: Theirs, early: bool, up: bool) -> None:
    before = theirs.start().snapshot()
    borrowed = Borrowed(theirs.root.parent / "spool", theirs.target(restart=True), {"shared_buffers": "32MB"})
    assert borrowed.die("verified", 0)
    theirs.crash()

    borrowed.boot.write_text("the next boot")
    if early:
        Journal(borrowed.job, borrowed.spool.system).restore("persistent")
        assert not theirs.include.exists()
    if up:
        theirs.start()

    assert borrowed.restore() == "interrupted"
    assert theirs.snapshot() == before


class Borrowed:
    """A spool with one submitted job that borrows a cluster and measures nothing. The cluster's owner can get at
    `root`: what becomes their pg_ctl reads there which boot this is."""

    def __init__(self, root: Path, target: dict[str, Any], parameters: dict[str, Any]) -> None:
        root.mkdir()
        self.root, self.boot = root, root / "boot"
        self.boot.write_text("this boot")
        self.spool = Spool(root / "spool", Machine(self.boot))
        self.spool.prepare()
        settings, collect = {"postgresql": parameters}, {"interval_s": 1, "sources": []}
        spec = {"version": 1, "target": target, "settings": settings, "steps": [], "collect": collect}
        self.job = self.spool.create({"run": RUN, "epoch": 1, "digest": protocol.digest(spec), "spec": spec})
        self.job.log("state.jsonl").append({"state": "RECEIVED", "step": ""})

    def die(self, mode: str, at: int) -> bool:
        return die(mode, self.root, at)

    def restore(self) -> str:
        agent, deadline = Agent(self.spool, "test", lambda *ignored: None), time.monotonic() + 60
        # What the dead agent has just forked holds the host's lock until it executes its command.
        while agent.hello()["busy"] and time.monotonic() < deadline:
            time.sleep(0.01)
        agent.restore()
        assert (agent.hello()["busy"], agent.hello()["dirty"]) == (None, []), self.job.manifest
        return str((self.job.manifest or {})["outcome"])


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("include_dir = 'conf.d'", "/etc/pg/conf.d/zz_proving_ground.conf"),
        ("  INCLUDE_DIR '/etc/more'  # of ours", "/etc/more/zz_proving_ground.conf"),
        ("include_if_exists 'proving_ground.conf'", "/etc/pg/proving_ground.conf"),
        ("include_if_exists '../pg/proving_ground.conf'", "/etc/pg/proving_ground.conf"),
        ("include_if_exists 'theirs.conf'", ""),
        ("#include_dir = '...'", ""),
        ("include 'proving_ground.conf'", ""),
    ],
)
def test_the_file_that_we_may_write_is_one_that_is_included(text: str, path: str) -> None:
    assert include_path("/etc/pg/postgresql.conf", f"port = 5432\n{text}\n") == path


def test_a_short_command_of_the_owner_has_the_groups_of_the_owner() -> None:
    """Debian's ssl key is readable for a group of its own, and postgres -C reads it."""
    shown = System().run(["id", "-G"], user=65534, group=65534, groups=[4242])

    assert shown.stdout.split() == ["65534", "4242"]
