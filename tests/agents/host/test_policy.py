"""Actions that an admin of a host forbids are refused in the plan of a campaign, and by the agent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.errors import HostFailure, Unplannable
from agents.host import policy
from agents.host.system import System
from agents.records.spool import Spool
from agents.rpc import Agent
from agents.run.launching import launch
from agents.run.planning import check_spec
from tests.servers import machine

Spec = Callable[..., dict[str, Any]]
EXISTING = {
    "kind": "existing",
    "bin_dir": machine.BIN_DIR,
    "data_dir": "/var/lib/postgresql/17/main",
    "config_file": "/etc/postgresql/17/main/postgresql.conf",
    "port": 5432,
    "os_user": "postgres",
    "unit": "",
    "include": "",
    "consent": {"measure": True, "restart": True, "disturb_clients": True},
}
REBOOT = {"name": "restart", "kind": "reboot", "options": {"limit_s": 60}}
DISK = {"kind": "device", "path": "/dev/nvme0n1"}


class Narrowed(System):
    """This machine, with such a policy.json."""

    def __init__(self, text: str) -> None:
        self._text = text

    def policy(self) -> str:
        return self._text


@pytest.mark.parametrize(
    ("word", "change"),
    [
        ("reboot", {"steps": [REBOOT]}),
        ("existing", {"target": EXISTING}),
        ("device", {"allowed_paths": [DISK]}),
        ("block_device", {"settings": {"block_device": {"data": {"read_ahead_kb": 128}}}}),
        ("sysctl", {"settings": {"sysctl": {"vm.swappiness": 10}}}),
        ("pgbench", {}),
    ],
)
def test_a_forbidden_word_refuses_every_spec_that_needs_it(spec: Spec, word: str, change: dict[str, Any]) -> None:
    run_spec = {**spec(), **change}
    facts = machine.facts(policy={"forbid": [word]})

    with pytest.raises(Unplannable, match="nothing; this host forbids"):
        policy.check(facts["policy"], run_spec)
    with pytest.raises(Unplannable, match="nothing; this host forbids"):
        check_spec(facts, run_spec)


def test_everything_that_is_not_forbidden_is_allowed(spec: Spec) -> None:
    check_spec(machine.facts(policy={"forbid": ["reboot", "device", "command"]}), spec())


@pytest.mark.parametrize(
    ("narrowed", "field", "change"),
    [
        ({"os_users": ["postgres"]}, "target.os_user", {"os_user": "root"}),
        ({"os_users": ["postgres"]}, "target.os_user", {"os_user": ""}),
        ({"directories": ["/srv/bench"]}, "target.data_dir", {"data_dir": "/srv/bench2"}),
        ({"directories": ["/srv/bench"]}, "target.data_dir", {"data_dir": "/srv/bench/../other"}),
    ],
)
def test_accounts_and_directories_are_those_of_the_list(
    spec: Spec, narrowed: dict[str, Any], field: str, change: dict[str, str]
) -> None:
    run_spec = spec()
    run_spec["target"] |= change

    with pytest.raises(Unplannable, match=field):
        policy.check(narrowed, run_spec)


@pytest.mark.parametrize(("narrowed", "account"), [({"os_users": ["postgres"]}, ""), ({"os_users": []}, "postgres")])
def test_a_load_without_postgresql_runs_as_an_account_of_the_list_too(
    spec: Spec, narrowed: dict[str, Any], account: str
) -> None:
    with pytest.raises(Unplannable, match="os_user"):
        policy.check(narrowed, {**spec(), "target": None, "os_user": account})


class Launched(Narrowed):
    """The same, where a launcher started the agent."""

    def launcher(self) -> str:
        return "/usr/local/sbin/proving-agent"


@pytest.mark.parametrize("account", ["", "proving-load"])
def test_behind_the_launcher_the_load_has_an_account_of_its_own_by_default(spec: Spec, account: str) -> None:
    run_spec = spec()
    run_spec["target"]["os_user"] = account

    policy.check(policy.read(Launched("")), run_spec)


@pytest.mark.parametrize(
    "change", [{"target": EXISTING | {"kind": "private"}}, {"target": None, "os_user": "postgres"}]
)
def test_behind_the_launcher_no_other_account_is_used_unless_the_admin_names_it(
    spec: Spec, change: dict[str, Any]
) -> None:
    run_spec = {**spec(), **change}

    with pytest.raises(Unplannable, match=r"os_user.*postgres.*proving-load"):
        policy.check(policy.read(Launched("")), run_spec)
    policy.check(policy.read(Launched('{"os_users": ["postgres"]}')), run_spec)


def test_behind_the_launcher_scripts_that_run_as_root_are_refused_unless_the_admin_allows_them(spec: Spec) -> None:
    run_spec = spec(tracer={"tool": "stap", "script": 'probe begin { system("id") }'})

    with pytest.raises(Unplannable, match="this host forbids scripts of bpftrace and stap"):
        policy.check(policy.read(Launched("")), run_spec)
    policy.check(policy.read(Launched('{"allow": ["tracer_script"]}')), run_spec)


@pytest.mark.parametrize(
    "text", ["[", "[]", '{"forbid": ["rebooot"]}', '{"forbid": "reboot"}', '{"allow": ["reboot"]}', '{"allowed": []}']
)
def test_an_invalid_policy_file_allows_nothing(text: str) -> None:
    with pytest.raises(HostFailure, match="cannot be read"):
        policy.read(Narrowed(text))


def test_the_agent_refuses_forbidden_requests_of_a_hostile_server(spec: Spec, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", Narrowed(json.dumps({"forbid": ["pgbench", "units"]})))
    spool.prepare()
    agent, run_spec = Agent(spool, "test", launch), spec()
    from agents.wire.protocol import digest

    run = "11111111-2222-3333-4444-555555555555"
    order = {"run": run, "epoch": 1, "digest": digest(run_spec), "spec": run_spec}

    submitted = agent.answer({"id": 1, "verb": "submit", "args": order})
    installed = agent.answer({"id": 2, "verb": "install", "args": {}})

    assert "this host forbids the workload pgbench" in submitted["error"]["message"]
    assert "this host forbids installing and uninstalling" in installed["error"]["message"]
    assert spool.jobs() == []
