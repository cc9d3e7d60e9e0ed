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


@pytest.mark.parametrize("text", ["[", "[]", '{"forbid": ["rebooot"]}', '{"forbid": "reboot"}', '{"allow": []}'])
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
