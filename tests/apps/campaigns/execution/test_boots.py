"""Campaigns that boot the host with other kernel parameters: permissions, durations, and the wait of the server."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.design import plan
from apps.campaigns.design.before_start import previews
from apps.campaigns.execution.jobs import Job
from apps.campaigns.execution.supervision import restart_under_way
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host
from common.errors import PlanError
from tests.rows.factories import FACTS, browser, end_run, make_campaign, make_host

PATH = "settings.kernel_command_line.isolcpus"
FACTORS = [
    {
        "name": "CPU 3",
        "levels": [{"label": "shared", "set": {PATH: None}}, {"label": "isolated", "set": {PATH: "3"}}],
    }
]
BOOT = {"kexec": "/usr/sbin/kexec", "image": "/boot/vmlinuz-6.1.0", "initrd": "/boot/initrd.img-6.1.0", "problem": ""}
NO_KEXEC = "the program kexec is missing: install kexec-tools"
UNBOOTABLE = {**BOOT, "problem": NO_KEXEC, "grub": {"problem": "no grub.cfg is in /boot/grub or /boot/grub2"}}
WITH_GRUB = {**BOOT, "problem": NO_KEXEC, "grub": {"problem": ""}}
KERNEL = {**FACTS["kernel"], "cmdline": "root=/dev/vda ro"}
BOOTABLE = FACTS | {"level": "root", "boot": BOOT, "kernel": KERNEL}


def host_of(**fields: Any) -> Host:
    allowed = {"facts": BOOTABLE, "level": "root", "may_reboot": True, "supervisor": "systemd"}
    return make_host(**{**allowed, **fields})


def campaign_on(host: Host, **fields: Any) -> Campaign:
    return make_campaign(host=host, factors=FACTORS, repetitions=1, **fields)


def test_only_levels_with_parameters_boot_the_host_twice_and_the_estimate_counts_that(db: None) -> None:
    preview = previews.preview(campaign_on(host_of()))

    by_label = {run.cell["CPU 3"]: run for run in preview.runs}
    assert {label: plan.restarts(run.spec) for label, run in by_label.items()} == {"shared": 0, "isolated": 2}
    assert preview.restarts == 2
    isolated, shared = (plan.seconds(by_label[label].spec) for label in ("isolated", "shared"))
    assert isolated - shared == 2 * plan.REBOOT_S


def test_the_duration_of_a_restart_is_half_that_of_both_boots_of_a_run(operator: User) -> None:
    host = host_of()
    campaign = campaign_on(host)
    services.start_campaign(campaign, by=operator)
    for run in campaign.runs.all():
        run.manifest = {"timings": {"REBOOTING": 90.0}} if plan.restarts(run.spec) else {"timings": {}}
        end_run(run)

    assert previews.preview(campaign).restart_s == 45.0


@pytest.mark.parametrize(
    ("fields", "message", "hint"),
    [
        ({"may_reboot": False}, "must not be restarted by campaigns", "an admin can allow it"),
        ({"supervisor": "detached"}, "has no systemd units of Proving Ground", "an admin can install them"),
        ({"facts": BOOTABLE | {"level": "user"}}, "which cannot restart it", "register the host with sudo"),
        ({"facts": BOOTABLE | {"boot": UNBOOTABLE}}, "'kexec' is not possible on", NO_KEXEC),
        ({"facts": BOOTABLE | {"boot": WITH_GRUB}}, "'kexec' is not possible on", "set boot_with to grub"),
        ({"facts": FACTS | {"level": "root"}}, "is not possible on", "check the host: its facts are older"),
    ],
)
def test_a_host_that_may_or_can_not_is_refused(db: None, fields: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(PlanError) as refused:
        previews.preview(campaign_on(host_of(**fields)))

    assert refused.value.subject.startswith("settings.kernel_command_line")
    assert message in refused.value.message and hint in refused.value.hint


def test_the_api_names_the_field_and_what_is_accepted(operator: User) -> None:
    levels = [{"label": "all", "set": {PATH: "0-3"}}]
    host = host_of()

    answer = browser(operator).post(
        "/api/v1/campaigns/",
        {"recipe": "cpu-scaling", "host": host.pk, "factors": [{"name": "isolated", "levels": levels}]},
    )

    assert (answer.status_code, answer.json()["field"]) == (400, PATH)
    assert "a list without at least one of 0-3" in answer.json()["hint"]


def test_a_run_does_not_start_after_an_admin_has_withdrawn_the_consent(operator: User) -> None:
    campaign = campaign_on(host_of())
    services.start_campaign(campaign, by=operator)
    Host.objects.update(may_reboot=False)
    by_label = {run.label: run for run in campaign.runs.all()}

    Job(by_label["shared"], by_label["shared"], has_started=False).check()
    with pytest.raises(PlanError, match="must not be restarted"):
        Job(by_label["isolated"], by_label["isolated"], has_started=False).check()


def test_a_host_that_boots_has_the_time_that_the_setting_names() -> None:
    now = timezone.now()
    settings = {"kernel_command_line": {"isolcpus": "3"}}
    run = Run(agent_state="REBOOTING", agent_state_at=now, spec={"settings": settings, "steps": []})
    quick = Run(
        agent_state="REBOOTING",
        agent_state_at=now - timedelta(seconds=61),
        spec={"settings": {"kernel_command_line": {"isolcpus": "3", "boot_limit_s": 60}}, "steps": []},
    )

    restart, late = restart_under_way(run), restart_under_way(quick)

    assert restart is not None and restart.is_in_time and restart.limit_s == 1800
    assert late is not None and not late.is_in_time


def grouped(host: Host, order: str = "fewest_restarts", **fields: Any) -> Campaign:
    """Two blocks of two boots with two runs each."""
    boots = [{"label": f"skew_tick {n}", "set": {"settings.kernel_command_line.skew_tick": n}} for n in (0, 1)]
    pools = [{"label": size, "set": {"settings.postgresql.shared_buffers": size}} for size in ("64MB", "128MB")]
    factors = [{"name": "boot", "levels": boots}, {"name": "memory", "levels": pools}]
    return make_campaign(host=host, factors=factors, repetitions=2, order=order, **fields)


def test_in_the_order_fewest_restarts_the_runs_of_a_boot_need_two_restarts(db: None) -> None:
    shared, single = (previews.preview(grouped(host_of(), order)) for order in ("fewest_restarts", "as_given"))

    assert (shared.restarts, single.restarts) == (8, 16)
    assert single.seconds - shared.seconds == 8 * plan.REBOOT_S


def test_a_run_leaves_its_boot_only_to_the_next_run_of_its_block_that_needs_the_same(operator: User) -> None:
    campaign = grouped(host_of())
    services.start_campaign(campaign, by=operator)

    runs = list(campaign.runs.order_by("position"))

    assert [keeps(run) for run in runs] == [True, False, True, False, True, False, True, False]


@pytest.mark.parametrize("change", ["as_given", "paused", "retried", "other parameters", "outside the window"])
def test_a_run_leaves_no_boot_if(operator: User, change: str) -> None:
    campaign = grouped(host_of(), "as_given" if change == "as_given" else "fewest_restarts")
    services.start_campaign(campaign, by=operator)
    first, second = campaign.runs.order_by("position")[:2]
    if change == "paused":
        Campaign.objects.update(state=Campaign.State.PAUSED)
    if change == "retried":
        Run.objects.filter(pk=second.pk).update(retry_of=campaign.runs.order_by("position")[7])
    if change == "outside the window":
        tomorrow = (timezone.now().weekday() + 2) % 7
        Host.objects.update(windows=[{"days": [tomorrow], "from": "01:00", "to": "02:00"}], time_zone="UTC")
        first = Run.objects.get(pk=first.pk)
    if change == "other parameters":
        second.spec["settings"]["kernel_command_line"]["mitigations"] = "off"
        second.save()

    assert not keeps(first)


def test_limits_of_time_do_not_need_another_boot(operator: User) -> None:
    campaign = grouped(host_of())
    services.start_campaign(campaign, by=operator)
    first, second = campaign.runs.order_by("position")[:2]
    second.spec["settings"]["kernel_command_line"]["contact_limit_s"] = 60
    second.save()

    assert keeps(first)


def test_runs_that_share_boots_do_not_say_how_long_a_restart_takes(operator: User) -> None:
    campaign = grouped(host_of())
    services.start_campaign(campaign, by=operator)
    for run in campaign.runs.all():
        run.manifest = {"timings": {"REBOOTING": 10.0}}
        end_run(run)

    assert previews.preview(campaign).restart_s == plan.REBOOT_S


def keeps(run: Run) -> bool:
    """Whether the run is to keep its boot when it is submitted; afterwards it has ended."""
    is_left = Job(run, run, has_started=True).leaves_boot
    end_run(run)
    return is_left
