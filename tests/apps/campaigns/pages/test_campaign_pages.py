"""New campaigns, workloads, and the buttons that start and cancel."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role, User
from apps.campaigns.design.steps import single
from apps.campaigns.models import Campaign, Run, Workload
from apps.campaigns.pages import factor_rows
from apps.hosts.models import Host
from apps.hosts.services import archive_host
from tests.rows import populate
from tests.rows.factories import make_campaign, make_workload


@pytest.fixture
def operator(client: Client, db: None) -> User:
    user = populate.user(Role.OPERATOR)
    client.force_login(user)
    return user


@pytest.fixture
def host(operator: User) -> Host:
    return populate.host()


@pytest.fixture
def typed(host: Host) -> dict[str, Any]:
    """A recipe's form with two levels of its factor."""
    return {
        "recipe": "cpu-scaling",
        "host": str(host.pk),
        "name": "one or two",
        "question": "Do two cpus help?",
        "repetitions": "3",
        "order": "randomised",
        "metric": "tps",
        "delta": "2",
        "factor": ["server cpus", "server cpus", ""],
        "level": ["1 cpu", "", ""],
        "path": ["settings.cpu_affinity.server", "settings.cpu_affinity.server", ""],
        "value": ["0", "0,1", ""],
    }


def test_rows_become_factors_and_a_nameless_level_is_its_value(client: Client, typed: dict[str, Any]) -> None:
    answer = client.post(reverse("campaign_new"), typed)

    made = Campaign.objects.get()
    assert answer.headers["Location"] == reverse("campaign_detail", args=[made.pk])
    assert (made.state, made.delta, made.recipe) == (Campaign.State.DRAFT, 0.02, "cpu-scaling")
    levels = [(level["label"], level["set"]) for level in made.factors[0]["levels"]]
    assert levels == [
        ("1 cpu", {"settings.cpu_affinity.server": "0"}),
        ("0,1", {"settings.cpu_affinity.server": "0,1"}),
    ]


def test_a_recipe_proposes_levels_for_the_host(client: Client, host: Host) -> None:
    answer = client.get(reverse("campaign_new"), {"recipe": "cpu-scaling", "host": host.pk})

    assert [row.level for row in answer.context["rows"]] == ["1 cpu", "2 cpus", "4 cpus", "8 cpus", "16 cpus"]


def test_the_preview_counts_runs_and_keeps_nothing(client: Client, typed: dict[str, Any]) -> None:
    answer = client.post(reverse("campaign_preview"), typed)

    assert b"6 runs, about 48 s" in answer.content
    assert not Campaign.objects.exists() and not Workload.objects.exists()


def test_the_preview_names_sizes_that_do_not_fit_on_the_host(client: Client, typed: dict[str, Any]) -> None:
    paths = ["settings.huge_pages.use", "settings.huge_pages.pool", ""]
    rows = {"factor": ["huge", "huge", ""], "level": ["on", "on", ""], "path": paths, "value": ["on", "10000000", ""]}

    answer = client.post(reverse("campaign_preview"), typed | rows).content.decode()

    assert "Does not fit:" in answer and "<code>settings.huge_pages.pool</code> = <code>10000000</code>" in answer
    assert "bench-01</span> has 62.8 GiB of memory" in answer and "3 runs" in answer
    assert "Does not fit" not in client.post(reverse("campaign_preview"), typed).content.decode()


def test_the_preview_says_why_it_cannot_be_planned(client: Client, typed: dict[str, Any]) -> None:
    answer = client.post(reverse("campaign_preview"), typed | {"value": ["0", "99", ""]})

    assert b"cannot be planned" in answer.content and b"99" in answer.content


@pytest.mark.parametrize(
    ("changes", "row", "message"),
    [
        ({"path": ["settings.cpu_affinity.server", "sysctl.vm", ""]}, 1, "is not a path that can be set"),
        ({"value": ["0", "99", ""]}, 1, "CPUs that are online"),
        (
            {"path": ["settings.cpu_affinity.server", "settings.postgresql.work_mem", ""], "value": ["0", "much", ""]},
            1,
            "is not a number",
        ),
    ],
)
def test_an_error_in_a_level_is_shown_in_its_row(
    client: Client, typed: dict[str, Any], changes: dict[str, Any], row: int, message: str
) -> None:
    answer = client.post(reverse("campaign_new"), typed | changes)

    assert answer.status_code == 422
    errors = [each.error for each in answer.context["rows"]]
    assert message in errors[row]
    assert b"one or two" in answer.content
    assert not Campaign.objects.exists()


@pytest.mark.parametrize(("field", "value"), [("repetitions", "0"), ("delta", "0"), ("host", ""), ("name", "")])
def test_an_error_in_a_field_is_shown_next_to_it(client: Client, typed: dict[str, Any], field: str, value: str) -> None:
    answer = client.post(reverse("campaign_new"), typed | {field: value})

    assert (answer.status_code, list(answer.context["form"].errors)) == (422, [field])


@pytest.mark.parametrize("named", ["work_mem", " settings.postgresql.work_mem "])
def test_a_setting_becomes_a_row_without_a_script(client: Client, typed: dict[str, Any], named: str) -> None:
    answer = client.post(reverse("campaign_new"), typed | {"add": "setting", "setting": named})

    row = answer.context["rows"][2]  # the one that was blank
    assert (row.factor, row.path, row.value) == ("work_mem", "settings.postgresql.work_mem", "4MB")
    assert row.hint == "64kB to 2TB; default 4MB"
    assert b"64kB to 2TB; default 4MB" in answer.content and not Campaign.objects.exists()


def test_a_setting_that_has_a_row_gets_no_second_one(client: Client, typed: dict[str, Any]) -> None:
    answer = client.post(reverse("campaign_new"), typed | {"add": "setting", "setting": "cpu_affinity.server"})

    assert [row.value for row in answer.context["rows"]] == ["0", "0,1", ""]


def test_a_setting_that_does_not_exist_is_refused_with_similar_names(client: Client, typed: dict[str, Any]) -> None:
    answer = client.post(reverse("campaign_new"), typed | {"add": "setting", "setting": "shared_bufers"})

    assert b"Setting shared_bufers does not exist. Did you mean shared_buffers" in answer.content
    assert len(answer.context["rows"]) == 3


def test_a_campaign_begins_with_the_setting_of_its_address(client: Client, host: Host) -> None:
    query = {"scratch": "1", "host": host.pk, "setting": "settings.sysctl.vm.swappiness"}

    answer = client.get(reverse("campaign_new"), query)

    assert [(row.factor, row.value) for row in answer.context["rows"]] == [("vm.swappiness", "60"), ("", "")]


def test_a_row_is_added_without_a_script(client: Client, typed: dict[str, Any]) -> None:
    answer = client.post(reverse("campaign_new"), typed | {"add": "row"})

    assert len(answer.context["rows"]) == 4
    assert not Campaign.objects.exists()


def test_values_have_the_type_that_the_catalogue_wants() -> None:
    rows = [
        factor_rows.FactorRow("clients", "", "workload.clients", "16"),
        factor_rows.FactorRow("report", "", "workload.report_per_command", "on"),
        factor_rows.FactorRow("buffers", "", "settings.postgresql.shared_buffers", "128"),
    ]

    sets = [
        level["set"] for factor in factor_rows.factors_of(rows, single("pgbench", {})) for level in factor["levels"]
    ]

    assert sets == [
        {"workload.clients": 16},
        {"workload.report_per_command": True},
        {"settings.postgresql.shared_buffers": "128"},
    ]


def test_starting_plans_runs_and_cancelling_ends_those_that_wait(client: Client, operator: User, host: Host) -> None:
    campaign = populate.campaign(operator, host, repetitions=2)

    client.post(reverse("campaign_action", args=[campaign.pk, "start"]))
    assert campaign.runs.count() == 6
    client.post(reverse("campaign_action", args=[campaign.pk, "cancel"]))

    campaign.refresh_from_db()
    assert campaign.state == Campaign.State.CANCELLED
    assert set(campaign.runs.values_list("outcome", flat=True)) == {Run.Outcome.CANCELLED}


def test_starting_names_a_quarantined_host(client: Client, operator: User, host: Host) -> None:
    campaign = populate.campaign(operator, host)
    Host.objects.update(state=Host.State.QUARANTINED, state_reason="vm.nr_hugepages")

    answer = client.post(reverse("campaign_action", args=[campaign.pk, "start"]), follow=True)

    assert b"is quarantined: vm.nr_hugepages" in answer.content
    assert not campaign.runs.exists()


def test_a_viewer_starts_nothing(client: Client, operator: User, host: Host) -> None:
    campaign = populate.campaign(operator, host)
    client.force_login(populate.user(Role.VIEWER))

    assert client.post(reverse("campaign_action", args=[campaign.pk, "start"])).status_code == 403
    assert not campaign.runs.exists()


STEP = {"steps.0.kind": "pgbench", "steps.0.name": "measure", "steps.0.role": "measure"}
SECOND = {"steps.1.kind": "pgbench", "steps.1.name": "idx2", "steps.1.role": "measure"}


def test_a_workload_is_written_from_its_fields(client: Client, db: None) -> None:
    client.force_login(populate.user(Role.TUNER))
    options = {"builtin": "tpcb-like", "clients": "8", "define": "range = 1000"}
    typed = {"name": "tpcb", **STEP, **{f"steps.0.options.{name}": text for name, text in options.items()}}

    client.post(reverse("workload_add"), typed)

    expected = {"builtin": "tpcb-like", "clients": 8, "define": {"range": "1000"}}
    assert Workload.objects.get().steps == single("pgbench", expected)


def test_a_workload_of_several_steps_is_written_and_shown(client: Client, db: None) -> None:
    client.force_login(populate.user(Role.TUNER))
    typed = {"name": "split", **STEP, **SECOND, "steps.0.role": "warm", "steps.1.options.clients": "8"}

    shown = client.post(reverse("workload_add"), typed, follow=True).content.decode()

    assert [(step["name"], step["role"]) for step in Workload.objects.get().steps] == [
        ("measure", "warm"),
        ("idx2", "measure"),
    ]
    assert "2. idx2" in shown


def test_an_unknown_option_of_a_tool_is_shown_at_its_field(client: Client, db: None) -> None:
    client.force_login(populate.user(Role.TUNER))
    typed = {"name": "tpcb", **STEP, **SECOND, "steps.1.options.clients": "many"}

    answer = client.post(reverse("workload_add"), typed)

    assert (answer.status_code, list(answer.context["form"].errors)) == (422, ["steps.1.options.clients"])


def test_a_host_that_only_names_old_results_is_not_offered_to_check_scripts(client: Client, host: Host) -> None:
    client.force_login(populate.user(Role.TUNER))
    archived = archive_host("of-old", by=populate.user(Role.ADMIN))

    offered = client.get(reverse("workload_add")).context["hosts"]

    assert host in offered and archived not in offered


@pytest.mark.parametrize(
    ("button", "names"),
    [
        ({"add": "fio"}, ["measure", "idx2", "fio"]),
        ({"drop": "0"}, ["idx2"]),
        ({"up": "1"}, ["idx2", "measure"]),
    ],
)
def test_buttons_change_the_steps_and_keep_the_input(
    client: Client, db: None, button: dict[str, str], names: list[str]
) -> None:
    client.force_login(populate.user(Role.TUNER))
    typed = {"name": "split", **STEP, **SECOND, "steps.1.options.clients": "8"}

    form = client.post(reverse("workload_add"), typed | button).context["form"]

    assert [part.name.value() for part in form.parts] == names
    assert form["name"].value() == "split"
    assert form[f"steps.{names.index('idx2')}.options.clients"].value() == "8"
    assert not Workload.objects.exists()


def test_the_page_of_a_workload_lists_the_campaigns_of_all_its_revisions_and_no_others(
    client: Client, operator: User
) -> None:
    revisions = [make_workload("look-ups", clients=clients) for clients in (1, 2)]
    for name, workload in [("first", revisions[0]), ("second", revisions[1]), ("foreign", make_workload("writes"))]:
        make_campaign(name=f"{name} campaign", workload=workload)

    page = client.get(reverse("workload_detail", args=["look-ups"])).content.decode()

    assert [name for name in ("first", "second", "foreign") if f"{name} campaign" in page] == ["first", "second"]
