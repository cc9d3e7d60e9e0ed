"""Nuisance controls become steps and settings of specs, and real runs prove them."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns.design import nuisance, plan
from apps.campaigns.design.steps import Step, single
from apps.campaigns.models import Run
from apps.hosts.models import Host
from common.errors import PlanError
from tests.rows.factories import browser
from tests.servers import campaigns

LOAD = {"builtin": "select-only", "transactions": 100, "log": "reduced", "clients": 2}
SPEC: dict[str, Any] = {
    "target": {"kind": "private"},
    "settings": {},
    "steps": single("pgbench", LOAD),
}


def names(spec: dict[str, Any]) -> list[str]:
    return [step["name"] for step in spec["steps"]]


def two_measured() -> list[Step]:
    return [{**single("pgbench", LOAD)[0], "name": name} for name in ("idx1", "idx2")]


def test_no_nuisance_control_is_on_by_default() -> None:
    assert nuisance.applied(SPEC, {}) == SPEC


def test_all_nuisance_controls_together_are_in_their_order() -> None:
    requested = {"cool_down_s": 3, "checkpoint": True, "drop_caches": "run", "warm_up": {"time_s": 30}}

    spec = nuisance.applied(SPEC, requested)

    assert names(spec) == ["cool-down", "warm-up", "checkpoint", "measure"]
    assert [step["role"] for step in spec["steps"]] == ["cool", "warm", "prepare", "measure"]
    assert spec["settings"] == {"cache": {"state": "cold"}}
    assert SPEC["settings"] == {}


def test_a_host_that_is_restarted_cools_down_afterwards() -> None:
    spec = plan.restarted(nuisance.applied(SPEC, {"cool_down_s": 3}))

    assert names(spec) == ["restart", "cool-down", "measure"]


def test_a_warm_up_is_the_load_of_the_first_measured_step_by_time_and_without_its_logs() -> None:
    warm = nuisance.applied(SPEC, {"warm_up": {"time_s": 30}})["steps"][0]

    assert warm["options"] == {"builtin": "select-only", "clients": 2, "time_s": 30, "progress_s": 1}
    assert "until" not in warm


def test_a_warm_up_until_steady_says_its_rule_and_is_limited() -> None:
    warm = nuisance.applied(SPEC, {"warm_up": {"until": "steady", "limit_s": 600}})["steps"][0]

    assert warm["until"] == {"window_s": 5, "within": 0.02}
    assert warm["options"]["time_s"] == 600


def test_each_measured_step_gets_its_checkpoint() -> None:
    spec = nuisance.applied({**SPEC, "steps": two_measured()}, {"checkpoint": True})

    assert names(spec) == ["checkpoint", "idx1", "checkpoint-2", "idx2"]


def test_names_that_a_workload_has_are_not_taken() -> None:
    own = [{"name": "warm-up", "role": "warm", "kind": "wait", "options": {}}, *SPEC["steps"]]

    assert names(nuisance.applied({**SPEC, "steps": own}, {"warm_up": {"time_s": 1}}))[1] == "warm-up-2"


@pytest.mark.parametrize(
    ("settings", "when", "cache"),
    [
        ({}, "run", {"state": "cold"}),
        ({"cache": {"state": "warm", "relations": "t"}}, "run", {"state": "reloaded", "relations": "t"}),
        ({"cache": {"state": "reloaded"}}, "step", {"state": "reloaded", "before": "step"}),
    ],
)
def test_dropping_caches_is_the_setting_cache_which_reloads_the_chosen_relations(
    settings: dict[str, Any], when: str, cache: dict[str, str]
) -> None:
    assert nuisance.applied({**SPEC, "settings": settings}, {"drop_caches": when})["settings"]["cache"] == cache


@pytest.mark.parametrize(
    ("steps", "target", "requested", "field"),
    [
        (single("sql", {"query": "select 1"}), {}, {"warm_up": {"time_s": 5}}, "nuisance.warm_up"),
        (single("fio", {"rw": "read"}), {}, {"warm_up": {"until": "steady", "limit_s": 5}}, "nuisance.warm_up"),
        (single("fio", {"rw": "read"}), None, {"checkpoint": True}, "nuisance.checkpoint"),
    ],
)
def test_a_control_that_a_workload_does_not_support_is_refused(
    steps: list[Step], target: Any, requested: dict[str, Any], field: str
) -> None:
    with pytest.raises(PlanError) as refused:
        nuisance.applied({**SPEC, "steps": steps, "target": target}, requested)

    assert refused.value.subject == field


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"cool_down_s": -1}, "nuisance.cool_down_s"),
        ({"drop_caches": "often"}, "nuisance.drop_caches"),
        ({"warm_up": {"time_s": 0}}, "nuisance.warm_up.time_s"),
        ({"warm_up": {"until": "steady"}}, "nuisance.warm_up"),
        ({"warm_up": {"until": "bored", "limit_s": 5}}, "nuisance.warm_up.until"),
        ({"polish": True}, "nuisance"),
    ],
)
def test_an_invalid_nuisance_control_is_refused_by_field(raw: dict[str, Any], field: str) -> None:
    with pytest.raises(PlanError) as refused:
        nuisance.check(raw)

    assert refused.value.subject == field


def kinds_of(run: Run, kind: str) -> list[dict[str, Any]]:
    return list(run.events.filter(kind=kind).order_by("seq").values_list("data", flat=True))


@pytest.mark.django_db(transaction=True)
def test_a_checkpoint_is_made_by_the_server_right_before_the_measured_step(host: Host, admin: User) -> None:
    logs = {"name": "log", "levels": [{"label": "on", "set": {"settings.postgresql.log_checkpoints": "on"}}]}

    campaign = campaigns.finish(campaigns.start(host, admin, logs, time_s=1, nuisance={"checkpoint": True}))

    run = campaign.runs.get()
    log = bytes(run.artefacts.get(path="out/postgresql.log").content or b"").decode()
    began = [event["step"] for event in kinds_of(run, "measuring")]
    assert run.outcome == Run.Outcome.OK, run.error
    assert began == ["checkpoint", "measure"]
    assert "checkpoint starting: immediate force wait" in log
    assert not run.measurements.exclude(step="measure").exists()


@pytest.mark.django_db(transaction=True)
def test_a_run_cools_down_and_warms_up_for_the_requested_time(host: Host, admin: User) -> None:
    requested = {"cool_down_s": 1.5, "warm_up": {"time_s": 2}}

    campaign = campaigns.finish(campaigns.start(host, admin, time_s=1, nuisance=requested))

    run = campaign.runs.get()
    took = {each["step"]: each["ended"] - each["began"] for each in kinds_of(run, "measured")}
    assert run.outcome == Run.Outcome.OK, run.error
    assert list(took) == ["cool-down", "warm-up", "measure"]
    # The events have times of the wall clock, which need not run as fast as the clock of the tools.
    assert took["cool-down"] >= 1.5 * 0.99 and took["warm-up"] >= 2 * 0.99


@pytest.mark.django_db(transaction=True)
def test_a_warm_up_ends_by_itself_once_it_is_steady_and_says_why(host: Host, admin: User) -> None:
    until = {"until": "steady", "limit_s": 90, "window_s": 1, "within": 0.5}

    campaign = campaigns.finish(campaigns.start(host, admin, time_s=1, nuisance={"warm_up": until}))

    run = campaign.runs.get()
    entry = next(event for event in kinds_of(run, "log") if "steady" in event)
    took = next(each for each in kinds_of(run, "measured") if each["step"] == "warm-up")
    assert run.outcome == Run.Outcome.OK, run.error
    assert entry["steady"]["reached"] and entry["level"] == "info"
    assert 6 <= entry["steady"]["after_s"] < 60
    assert took["ended"] - took["began"] == pytest.approx(entry["steady"]["after_s"], abs=1)
    assert "steady after" in entry["message"] and "MSER" in entry["message"]


@pytest.mark.django_db(transaction=True)
def test_a_warm_up_that_does_not_get_steady_is_flagged_and_the_run_continues(host: Host, admin: User) -> None:
    until = {"until": "steady", "limit_s": 3, "window_s": 1}

    campaign = campaigns.finish(campaigns.start(host, admin, time_s=1, nuisance={"warm_up": until}))

    run = campaign.runs.get()
    entry = next(event for event in kinds_of(run, "log") if "steady" in event)
    page = browser(admin).get(reverse("run_detail", args=[run.pk])).content.decode()
    assert (run.outcome, entry["level"], entry["steady"]["reached"]) == (Run.Outcome.OK, "warning", False)
    assert "not steady after 3" in page


@pytest.mark.needs("root")
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("host_wide")
def test_the_page_cache_is_dropped_before_each_run_and_each_measured_step(host: Host, admin: User) -> None:
    requested = {"drop_caches": "step", "warm_up": {"time_s": 1}}

    campaign = campaigns.finish(campaigns.start(host, admin, time_s=1, nuisance=requested))

    run = campaign.runs.get()
    story = [
        event.data.get("state") or event.data["subject"]
        for event in run.events.filter(kind__in=("state", "proof")).order_by("seq")
        if event.kind == "state" or event.data["setting"] == "cache"
    ]
    dropped = "times that the page cache was dropped"
    assert run.outcome == Run.Outcome.OK, run.error
    assert story.count(dropped) == 2
    assert story.index(dropped) < story.index("VERIFIED") < story.index("RUNNING")
    assert story[::-1].index(dropped) < story[::-1].index("RUNNING")
