"""Scripts and SQL of users are code: saving and dispatching them needs the permission to run commands."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts import services as accounts
from apps.accounts.models import Role, User
from apps.campaigns import lifecycle, recipes, services
from apps.campaigns.design.steps import single
from apps.campaigns.library import code, datasets, own_recipes, preparing, workloads
from apps.campaigns.models import Campaign
from apps.hosts.models import Host
from common.errors import PlanError, RoleError
from tests.rows.factories import browser, make_recipe, make_user
from tests.servers import campaigns

pytestmark = pytest.mark.django_db(transaction=True)

REFUSED = "may not run commands, and {} is a program, a script or SQL"
ATTACKS = [
    "select 1;",
    "\\set x 1\nselect :x;",
    "select 1; \\shell touch /tmp/x",
    "/* */ \\shell touch /tmp/x",
    "copy (select 1) to program 'touch /tmp/x';",
]
SQL_DATA = {"steps": [{"name": "make", "sql": "create table t (i int)"}]}


def builtin(by: User) -> Any:
    return workloads.save_workload("builtin", single("pgbench", {"builtin": "select-only", "time_s": 1}), by=by)


def planned(host: Host, by: User, workload: Any, *levels: dict[str, Any], **more: Any) -> Campaign:
    named = [{"label": str(place), "set": level} for place, level in enumerate(levels or ({},))]
    fields = {"name": "c", "question": "?", "repetitions": 1, "metric": "tps"} | more
    return services.create_campaign(
        by=by, host=host, workload=workload, factors=[{"name": "f", "levels": named}], **fields
    )


@pytest.mark.parametrize("script", ATTACKS)
def test_a_level_of_a_factor_cannot_add_a_script_without_the_permission(
    host: Host, admin: User, operator: User, script: str
) -> None:
    workload = workloads.save_workload("plain", single("pgbench", {"time_s": 1}), by=admin)

    with pytest.raises((RoleError, PlanError)) as refused:
        planned(host, operator, workload, {"workload.script": script})

    shell = "shell" in script or "program" in script
    assert (
        ("without" in refused.value.hint) if shell else (REFUSED.format("steps.measure.script") in str(refused.value))
    )


@pytest.mark.parametrize(
    ("kind", "options", "field"),
    [
        ("pgbench", {"script": "select 1;"}, "script"),
        ("pgbench", {"scripts": [{"name": "a", "text": "select 1;"}]}, "scripts.a"),
        ("pgbench", {"define": {"x": "1; drop table t"}}, "define.x"),
        ("sql", {"query": "select 1"}, "query"),
        ("sql", {"statements": "create table t ()"}, "statements"),
        ("sql", {"query": "select count(*) from placed", "before": "select lo_import('/etc/passwd')"}, "before"),
        ("sysbench", {"directory": "/srv/lua", "script": "tpcc.lua"}, "script"),
        ("sysbench", {"action": "prepare", "more": {"create_table_options": "; copy t to program 'id'"}}, "more"),
        ("command", {"program": "echo"}, "program"),
    ],
)
def test_a_tuner_saves_no_workload_with_code_without_the_permission(
    tuner: User, kind: str, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(RoleError, match=REFUSED.format(f"steps.measure.{field}").partition(" is")[0]):
        workloads.save_workload("own", single(kind, options), by=tuner)

    accounts.allow_commands(tuner, True, by=None)
    assert workloads.save_workload("own", single(kind, options), by=tuner).revision == 1


def test_the_refusal_names_an_admin_who_grants_the_permission(tuner: User, admin: User) -> None:
    with pytest.raises(RoleError) as refused:
        workloads.save_workload("own", single("sql", {"query": "select 1"}), by=tuner)

    assert f"an admin ({admin.username}) grants it: manage.py allow_commands NAME" in refused.value.hint


def test_builtin_scripts_and_numbers_need_no_permission(tuner: User) -> None:
    options = {"builtin": "tpcb-like", "define": {"share": 0.25, "n": "10"}}

    assert workloads.save_workload("plain", single("pgbench", options), by=tuner).revision == 1


def test_every_recipe_that_comes_with_the_program_needs_no_permission(tuner: User) -> None:
    for name, recipe in recipes.catalogue().items():
        assert not [each for run in recipes.planned(recipe) for each in code.in_spec(run.spec)], name


def test_a_text_of_a_recipe_is_code_again_once_it_is_changed_or_in_another_place(tuner: User) -> None:
    text = "select count(*) from placed"
    workloads.save_workload("same", single("sql", {"query": text}), by=tuner)

    for kind, options in (
        ("sql", {"query": f"{text} "}),
        ("pgbench", {"script": text}),
        ("command", {"program": text}),
    ):
        with pytest.raises(RoleError, match="may not run commands"):
            workloads.save_workload("changed", single(kind, options), by=tuner)


@pytest.mark.parametrize(
    ("kind", "options", "field"),
    [("sql", SQL_DATA, "dataset.steps.make.sql"), ("dump", {"path": "/backup/shop.dump"}, "dataset.path")],
)
def test_code_of_a_data_set_needs_the_permission_to_save_and_to_prepare(
    host: Host, tuner: User, kind: str, options: dict[str, Any], field: str
) -> None:
    refused = pytest.raises(RoleError, match=REFUSED.format(field))
    with refused:
        datasets.save_dataset("own", kind, options, by=tuner)

    accounts.allow_commands(tuner, True, by=None)
    own = datasets.save_dataset("own", kind, options, by=tuner)
    with refused:
        preparing.prepare(own, host, by=make_user(Role.OPERATOR))
    other = make_user(Role.ADMIN)
    with refused:
        planned(host, other, builtin(other), dataset=own)


def test_clone_retry_start_extend_and_api_ask_for_it_again(host: Host, admin: User, operator: User) -> None:
    accounts.allow_commands(admin, True, by=None)
    workload = workloads.save_workload("own", single("pgbench", {"script": "select 1/0;", "time_s": 1}), by=admin)
    campaign = planned(host, admin, workload)
    refused = pytest.raises(RoleError, match=REFUSED.format("steps.measure.script"))

    with refused:
        lifecycle.clone_campaign(campaign, by=operator)
    with refused:
        services.start_campaign(campaign, by=operator)
    answer = browser(operator).post(
        "/api/v1/campaigns/",
        {
            "host": host.pk,
            "name": "c",
            "question": "?",
            "workload": workload.pk,
            "repetitions": 1,
            "factors": [{"name": "f", "levels": [{"label": "a", "set": {}}]}],
        },
    )
    assert (answer.status_code, "may not run commands" in answer.content.decode()) == (403, True)

    services.start_campaign(campaign, by=admin)
    campaigns.finish(campaign)
    with refused:
        lifecycle.retry_failed(campaign, by=operator)
    with refused:
        lifecycle.extend_campaign(campaign, by=operator, repetitions=1)


def test_a_recipe_of_the_team_does_not_bypass_the_permission(host: Host, tuner: User, operator: User) -> None:
    steps = [{"name": "q", "role": "measure", "kind": "pgbench", "options": {"script": "select 2;", "time_s": 1}}]
    with pytest.raises(RoleError, match=REFUSED.format("steps.q.script")):
        make_recipe("ours", by=tuner, steps=steps)

    accounts.allow_commands(tuner, True, by=None)
    make_recipe("ours", by=tuner, steps=steps)
    assert own_recipes.get("ours")["steps"][0]["options"]["script"] == "select 2;"
    with pytest.raises(RoleError, match=REFUSED.format("steps.q.script")):
        services.create_from_recipe(by=operator, host=host, recipe="ours")


def test_a_queued_run_is_refused_at_dispatch_after_the_permission_is_revoked(host: Host, admin: User) -> None:
    accounts.allow_commands(admin, True, by=None)
    workload = workloads.save_workload("own", single("pgbench", {"script": "select 1;", "time_s": 1}), by=admin)
    campaign = planned(host, admin, workload)
    services.start_campaign(campaign, by=admin)
    assert campaign.started_by == admin
    accounts.allow_commands(admin, False, by=None)

    run = campaigns.finish(campaign).runs.get()

    assert run.outcome == "failed"
    assert run.error["message"].startswith(f"{admin}, who started this campaign, may not run")
    assert run.error["subject"] == "steps.measure.script"
