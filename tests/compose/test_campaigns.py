"""Production in containers: confined, healthy, and no run lost or doubled whatever is killed."""

from __future__ import annotations

import pytest

from tests.compose import roles
from tests.compose.host import Campaign, Host
from tests.compose.stack import SERVER, SERVICES, STORES, Stack, wait

pytestmark = [pytest.mark.compose, pytest.mark.needs("root", "docker", "compose")]
RESTART_S = 60.0


def test_every_service_is_healthy(stack: Stack) -> None:
    assert set(stack.health().values()) == {"healthy"}


@pytest.mark.parametrize("service", SERVER)
def test_a_process_of_the_server_has_no_root_and_no_capability_and_writes_nothing_of_the_image(
    stack: Stack, service: str
) -> None:
    status = stack.compose("exec", "-T", service, "cat", "/proc/1/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines())

    assert fields["Uid"].split() == fields["Gid"].split() == ["10001"] * 4
    assert {fields[name] for name in ("CapPrm", "CapEff", "CapBnd")} == {"0" * 16}
    assert fields["NoNewPrivs"] == "1"
    assert stack.container(service)["HostConfig"]["ReadonlyRootfs"]


@pytest.mark.parametrize("service", SERVER)
def test_a_service_connects_as_a_role_that_cannot_change_the_schema_or_the_audit_log(
    stack: Stack, service: str
) -> None:
    assert roles.rights(stack, service) == roles.LIMITED


@pytest.mark.parametrize("service", STORES)
def test_a_store_has_no_root_and_no_capability(stack: Stack, service: str) -> None:
    status = stack.compose("exec", "-T", service, "cat", "/proc/1/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines())

    assert "0" not in fields["Uid"].split()
    assert {fields[name] for name in ("CapPrm", "CapEff", "CapBnd")} == {"0" * 16}


@pytest.mark.parametrize("service", SERVICES)
def test_a_container_has_limits_of_memory_and_processes(stack: Stack, service: str) -> None:
    limits = stack.container(service)["HostConfig"]

    assert limits["Memory"] and limits["PidsLimit"]


def test_a_campaign_runs_on_a_host_in_another_container(stack: Stack, host: Host) -> None:
    campaign = Campaign.start(host)

    campaign.wait_for_results()

    assert [(level["ok"], level["planned"]) for level in campaign.results()["levels"]] == [(2, 2), (2, 2)]
    campaign.assert_each_run_once()


@pytest.mark.parametrize("service", SERVICES)
def test_a_killed_container_comes_back_and_no_run_is_lost_or_doubled(stack: Stack, host: Host, service: str) -> None:
    restarts = stack.container(service)["RestartCount"]
    campaign = Campaign.start(host, repetitions=2, seconds=3)
    campaign.wait_for_runs(ended=1)

    stack.kill(service)

    wait(lambda: stack.container(service)["RestartCount"] == restarts + 1, RESTART_S)
    campaign.wait_for_results()
    campaign.assert_each_run_once()


def test_all_are_healthy_after_the_kills(stack: Stack) -> None:
    stack.wait_until_healthy()
