"""Commands in workloads need a permission that no role includes, when they are saved and when they run."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command

from apps.accounts import services as accounts
from apps.accounts.models import AuditEntry, Role, User
from apps.campaigns import services
from apps.campaigns.design.steps import single
from apps.campaigns.library import workloads
from apps.hosts.models import Host
from common.errors import PlanError, RoleError
from tests.rows.factories import browser, make_user
from tests.servers import campaigns

pytestmark = pytest.mark.django_db(transaction=True)

ECHO: dict[str, Any] = {
    "program": "echo",
    "arguments": "1.5 tps; $HOME `id` > /tmp/x\nlatency 7 ms",
    "patterns": "(?P<tps>[0-9.]+) tps\nlatency (?P<lat>[0-9]+)",
    "figures": {"tps": {"unit": "tps", "better": "higher"}, "lat": {"unit": "ms", "better": "lower"}},
}
SCRIPT = {"query": "select 1", "tracer": {"tool": "bpftrace", "script": "BEGIN { exit(); }"}}


def planned(host: Host, by: User, workload: Any, *levels: dict[str, Any], metric: str) -> Any:
    factor = {"name": "what", "levels": [{"label": str(n), "set": level} for n, level in enumerate(levels or ({},))]}
    return services.create_campaign(
        by=by, host=host, name="c", question="?", workload=workload, factors=[factor], repetitions=1, metric=metric
    )


@pytest.mark.parametrize(("kind", "options"), [("command", ECHO), ("sql", SCRIPT)])
def test_even_an_admin_cannot_save_code_without_the_permission(db: None, kind: str, options: dict[str, Any]) -> None:
    admin = make_user(Role.ADMIN)
    with pytest.raises(RoleError, match="may not run commands"):
        workloads.save_workload("own", single(kind, options), by=admin)

    accounts.allow_commands(admin, True, by=admin)

    assert workloads.save_workload("own", single(kind, options), by=admin).revision == 1


def test_the_user_who_starts_it_needs_the_permission_too(host: Host, admin: User, operator: User) -> None:
    accounts.allow_commands(admin, True, by=admin)
    campaign = planned(host, admin, workloads.save_workload("own", single("command", ECHO), by=admin), metric="tps")

    with pytest.raises(RoleError, match="may not run commands"):
        services.start_campaign(campaign, by=operator)
    with pytest.raises(RoleError, match="may not run commands"):
        planned(host, operator, campaign.workload, metric="tps")


def test_a_factor_cannot_add_code_without_the_permission(host: Host, admin: User) -> None:
    harmless = workloads.save_workload("harmless", single("sql", {"query": "select 1"}), by=admin)
    other = make_user(Role.ADMIN)
    level = {"workload.tracer.tool": "bpftrace", "workload.tracer.script": "BEGIN { exit(); }"}

    with pytest.raises(RoleError, match="may not run commands"):
        planned(host, other, harmless, level, metric="execution_mean")


def test_a_command_runs_without_a_shell_and_yields_its_declared_figures(host: Host, admin: User) -> None:
    accounts.allow_commands(admin, True, by=admin)
    workload = workloads.save_workload("own", single("command", ECHO), by=admin)
    campaign = planned(host, admin, workload, metric="tps")
    services.start_campaign(campaign, by=admin)

    run = campaigns.finish(campaign).runs.get()

    assert run.outcome == "ok", run.error
    assert {(row.name, row.value, row.unit, row.better) for row in run.measurements.all()} == {
        ("tps", 1.5, "tps", "higher"),
        ("lat", 7, "ms", "lower"),
    }
    assert bytes(run.artefacts.get(path="out/measure/stdout").content) == (
        b"1.5 tps; $HOME `id` > /tmp/x latency 7 ms\n"
    )


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"patterns": "(?P<tps>["}, "options.patterns"),
        ({"patterns": "[0-9]+ tps"}, "options.patterns"),
        ({"patterns": "(?P<tps>x)"}, "options.figures.lat"),
        ({"figures": {}}, "options.figures.lat"),
        ({"program": "-c"}, "options.program"),
        ({"figures": {"tps": {"unit": "tps", "better": "more"}}}, "options.figures.tps.better"),
    ],
)
def test_a_command_that_cannot_be_is_refused_by_field(admin: User, changes: dict[str, Any], field: str) -> None:
    accounts.allow_commands(admin, True, by=admin)

    with pytest.raises(PlanError) as refused:
        workloads.save_workload("own", single("command", ECHO | changes), by=admin)

    assert refused.value.subject == field


def test_an_admin_grants_it_and_it_is_written_down(admin: User, operator: User) -> None:
    answer = browser(admin).patch(f"/api/v1/users/{operator.pk}/", {"may_run_commands": True})

    assert (answer.status_code, answer.json()["may_run_commands"]) == (200, True)
    assert browser(operator).get("/api/v1/me/").json()["may_run_commands"] is True
    entry = AuditEntry.objects.get(action="user.allow_commands")
    assert (entry.actor, entry.target, entry.before, entry.after) == (
        *(admin, operator.username),
        *({"may_run_commands": False}, {"may_run_commands": True}),
    )


def test_users_cannot_grant_the_permission_to_themselves(operator: User) -> None:
    answer = browser(operator).patch(f"/api/v1/users/{operator.pk}/", {"may_run_commands": True})

    operator.refresh_from_db()
    assert (answer.status_code, operator.may_run_commands) == (403, False)


def test_the_servers_admin_grants_and_revokes_it(operator: User) -> None:
    call_command("allow_commands", operator.username)
    operator.refresh_from_db()
    assert operator.may_run_commands

    call_command("allow_commands", operator.username, "--revoke")
    operator.refresh_from_db()
    assert not operator.may_run_commands
    with pytest.raises(CommandError, match="user 'nobody' does not exist"):
        call_command("allow_commands", "nobody")
