"""A search from the command line, with a running server."""

from __future__ import annotations

import math

import pytest

from apps.accounts.models import Role, User
from apps.searches.models import Search
from tests.cli.program import Program
from tests.rows import searched
from tests.rows.factories import make_campaign, make_host, make_search

pytestmark = pytest.mark.thorough

VARY = ("--vary", "work_mem 1MB to 64MB log", "--vary", "jit on, off")


def test_a_search_is_created_listed_paused_and_stopped(proving: Program, people: dict[Role, User]) -> None:
    campaign = make_campaign(host=make_host("db1"), name="Memory")

    made = proving.json("search", "create", "Memory", "--name", "tune", *VARY, "--budget", "75")

    search = Search.objects.get(pk=made["id"])
    assert (search.campaign, search.budget_runs, search.owner) == (campaign, 75, people[Role.TUNER])
    assert "tune" in proving.run("ls", "searches").stdout
    assert proving.json("search", "pause", "tune")["state"] == "paused"
    assert proving.json("search", "resume", "tune")["state"] == "running"
    assert proving.json("search", "extend", "tune", "--runs", "25")["budget_runs"] == 100
    assert "tune: stopped, 0 of 100 runs" in proving.run("search", "stop", "tune").stdout


def test_a_search_has_a_budget_in_minutes_and_shows_what_is_left(proving: Program, people: dict[Role, User]) -> None:
    make_campaign(host=make_host("db1"), name="Memory")

    made = proving.json("search", "create", "Memory", "--name", "tune", *VARY, "--minutes", "120")

    assert (made["budget_runs"], made["budget_minutes"]) == (None, 120)
    assert proving.json("search", "extend", "tune", "--minutes", "30")["budget_minutes"] == 150
    assert "tune: running, 0 runs, 0 of 150 minutes, at most about 1" in proving.run("search", "show", "tune").stdout


def test_a_constraint_is_shown_with_the_value_of_each_trial_that_breaks_it(
    proving: Program, people: dict[Role, User]
) -> None:
    make_campaign(host=make_host("db1"), name="Memory")
    limit = ("--constraint", "latency_avg <= 0.1 ms")
    made = proving.json("search", "create", "Memory", "--name", "tune", *VARY, "--budget", "75", *limit)
    search = Search.objects.get(pk=made["id"])
    searched.advance(search)
    searched.end_round(search)
    searched.advance(search)

    text = proving.run("search", "show", "tune").stdout

    assert "constraint: latency_avg <= 0.1 ms" in text
    assert "breaks a constraint" in text
    assert "the limit is at most 0.1 ms" in " ".join(text.split())


def test_a_search_is_shown_with_its_best_trials_first_and_its_verdict(
    proving: Program, people: dict[Role, User]
) -> None:
    made = make_search(make_campaign(name="Memory"), people[Role.TUNER], name="tune")
    searched.finish(made)

    text = proving.run("search", "show", "tune").stdout

    assert "tune: finished, " in text
    assert "is better than default" in text
    best = max(made.trials.all(), key=lambda each: each.log_ratio or 0.0)
    first = text[text.index("tps (95 % CI)") :].splitlines()[1:3]
    assert any(line.split()[:2] == [str(best.number), "measured"] for line in first), text


def test_a_trial_that_halves_a_latency_is_shown_with_minus_50_percent(
    proving: Program, people: dict[Role, User]
) -> None:
    made = make_search(make_campaign(name="Memory", metric="latency_avg"), people[Role.TUNER], name="tune")
    searched.finish(made)
    made.trials.update(log_ratio=math.log(2), low=math.log(2), high=math.log(4))

    text = proving.run("search", "show", "tune").stdout

    assert "latency_avg (95 % CI)" in text
    assert "-50.0 % [-75.0, -50.0]" in text


def test_a_space_that_is_wrong_is_refused_with_what_is_accepted(proving: Program) -> None:
    make_campaign(name="Memory")

    refused = proving.run(
        "search", "create", "Memory", "--name", "tune", "--vary", "work_mem 2MB to 1MB", "--budget", "75"
    )

    assert refused.returncode == 2
    assert "is not a range" in refused.stderr


def test_values_of_trials_are_shown_with_their_units_in_the_order_of_the_settings(
    proving: Program, people: dict[Role, User]
) -> None:
    make_campaign(host=make_host("db1"), name="Memory")
    made = proving.json("search", "create", "Memory", "--name", "tune", *VARY, "--budget", "75")
    search = searched.advance(Search.objects.get(pk=made["id"]))
    search.trials.filter(number=1).update(values={"jit": "off", "work_mem": 16 * 1024})

    text = " ".join(proving.run("search", "show", "tune").stdout.split())

    assert "work_mem=16MB, jit=off" in text


def test_a_search_with_a_second_metric_shows_the_front_and_confirms_picked_trials(
    proving: Program, people: dict[Role, User]
) -> None:
    make_campaign(host=make_host("db1"), name="Memory")
    second = ("--second-metric", "latency_avg")
    made = proving.json("search", "create", "Memory", "--name", "both", *VARY, "--budget", "75", *second)
    search = searched.advance(Search.objects.get(pk=made["id"]))
    searched.end_round(search)
    searched.advance(search)

    picked = proving.json("search", "pick", "both", "2", "3")
    text = " ".join(proving.run("search", "show", "both").stdout.split())

    assert picked["picked"] == [2, 3]
    assert "Pareto front of tps and latency_avg" in text
    assert "picked to confirm: trial 2, 3" in text
    assert "front" in text.split("trial state")[1]
