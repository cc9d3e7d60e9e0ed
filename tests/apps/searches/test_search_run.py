"""A search of real runs on this machine finds a planted best value, whatever happens to its worker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.campaigns import services as campaigns
from apps.campaigns.design.steps import single
from apps.campaigns.library import workloads
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Host
from apps.results.queries import campaign_table
from apps.searches import budget, rounds, services
from apps.searches.models import Round, Search, Trial
from tests.servers.campaigns import PGBENCH, drive

pytestmark = pytest.mark.django_db(transaction=True)
# 1 ms at 64 MB, and 4 ms more for each time that work_mem is halved or doubled.
PLANTED = """
select pg_sleep(0.001 + 0.004 * abs(ln(pg_size_bytes(current_setting('work_mem')) / (64 * 1024 * 1024.0)) / ln(2.0)));
"""
BEST_KB = 64 * 1024


@pytest.fixture
def base(host: Host, admin: User) -> Campaign:
    options = {name: value for name, value in PGBENCH.items() if name != "builtin"}
    workload = workloads.save_workload(
        "planted", single("pgbench", options | {"script": PLANTED, "time_s": 1}), by=admin
    )
    default = {"name": "work_mem", "levels": [{"label": "4MB", "set": {"settings.postgresql.work_mem": "4MB"}}]}
    about = {"name": "planted", "question": "Which work_mem is best?"}
    return campaigns.create_campaign(by=admin, host=host, workload=workload, factors=[default], seed=1, **about)


@pytest.fixture
def search(base: Campaign, admin: User) -> Search:
    sizes = {"candidates": 3, "blocks": 1, "finalists": 1, "confirmation_blocks": 3}
    space = ["work_mem 64kB to 1GB log", "jit on, off"]
    return services.create_search(base, by=admin, name="planted", space=space, budget_runs=18, seed=3, **sizes)


def advance_to(search: Search, done: Callable[[], bool], *, killed: bool = False) -> None:
    """Do what workers do until `done`. `killed`: each task runs twice, as after a worker that died."""

    def step() -> bool:
        for key in rounds.due() * (2 if killed else 1):
            rounds.advance(key, timezone.now() + timedelta(minutes=5 if killed else 0))
        search.refresh_from_db()
        return done()

    drive(step, timeout_s=300)


def test_a_search_finds_the_planted_value_and_a_fresh_campaign_confirms_it(search: Search) -> None:
    advance_to(search, lambda: search.state != Search.State.RUNNING, killed=True)

    assert (search.state, search.state_reason) == (Search.State.FINISHED, "")
    *searched, confirmation = search.rounds.select_related("campaign")
    assert [each.kind for each in searched] == [Round.Kind.SEARCH] * len(searched)
    assert confirmation.kind == Round.Kind.CONFIRMATION
    ran = Run.objects.filter(campaign__search_round__search=search)
    assert budget.of(search).spent_runs == ran.count() <= search.budget_runs
    assert {run.outcome for run in ran} == {Run.Outcome.OK}, [run.error for run in ran]
    trials = list(search.trials.all())
    assert [trial.number for trial in trials] == list(range(1, len(trials) + 1))
    assert {trial.state for trial in trials} == {Trial.State.MEASURED}
    _, level = campaign_table(confirmation.campaign).levels
    best = search.trials.get(number=int(level.label.removeprefix("trial ")))
    assert level.verdict == "better"
    assert BEST_KB / 4 <= best.values["work_mem"] <= BEST_KB * 4
    for run in confirmation.campaign.runs.exclude(cell={"values": "default"}):
        assert any(line.startswith("postgresql work_mem: ") for line in run.proof["lines"])
