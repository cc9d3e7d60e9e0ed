"""The rounds of a search, with campaigns that end at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.campaigns import archiving
from apps.campaigns import services as campaigns
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Facts, Host
from apps.results.models import Measurement
from apps.results.queries import campaign_table
from apps.searches import budget, queries, rounds, services
from apps.searches.models import Round, Search, Trial
from common.errors import PlanError
from tests.rows.factories import make_campaign, make_host, make_search, make_user
from tests.rows.searched import BEST_KB, advance, end_round, finish, planted

pytestmark = pytest.mark.django_db


@pytest.fixture
def search() -> Search:
    return make_search()


def state_of(search: Search) -> dict[int, tuple[Any, ...]]:
    return {trial.number: (trial.values, trial.state, trial.log_ratio, trial.low) for trial in search.trials.all()}


def test_the_first_round_runs_the_default_and_new_candidates_in_randomised_blocks(search: Search) -> None:
    advance(search)

    first = search.rounds.get()
    [factor] = first.campaign.factors
    default, *others = factor["levels"]
    assert (default["label"], default["set"]) == ("default", {"settings.cpu_affinity.server": "0"})
    assert [level["label"] for level in others] == ["trial 1", "trial 2", "trial 3"]
    for level, trial in zip(others, search.trials.all(), strict=True):
        assert level["set"]["settings.cpu_affinity.server"] == "0"
        assert level["set"]["settings.postgresql.jit"] == trial.values["jit"]
    assert (first.campaign.repetitions, first.campaign.order) == (2, "randomised")
    assert first.campaign.started_by == search.owner
    assert first.campaign.runs.count() == 8


def test_nothing_is_due_while_a_round_runs_or_its_results_are_unread(search: Search) -> None:
    assert rounds.due() == [search.pk]
    advance(search)
    assert rounds.due() == []

    campaign = end_round(search)
    Run.objects.filter(campaign=campaign).update(ingested_at=None)
    assert rounds.due() == []

    Run.objects.filter(campaign=campaign).update(ingested_at=timezone.now())
    assert rounds.due() == [search.pk]


def test_the_result_of_a_trial_is_its_mean_log_ratio_to_the_default_of_the_same_block(search: Search) -> None:
    advance(search)
    end_round(search, lambda values: 1000.0 if values else 500.0, noise=0.0)
    advance(search)

    for trial in search.trials.filter(number__lte=3):
        assert (trial.state, trial.blocks) == (Trial.State.MEASURED, 2)
        assert trial.log_ratio == pytest.approx(0.6931, abs=1e-4)


def test_good_candidates_run_again_with_new_ones_and_no_value_is_proposed_twice(search: Search) -> None:
    advance(search)
    end_round(search, lambda values: 1000.0 + values.get("work_mem", 0))
    advance(search)

    second = search.rounds.get(number=2).campaign
    labels = [level["label"] for level in second.factors[0]["levels"]]
    best = max(search.trials.filter(number__lte=3), key=lambda each: each.log_ratio or 0.0)
    assert labels == ["default", best.label, "trial 4", "trial 5"]
    assert len({str(trial.values) for trial in search.trials.all()}) == 5


def test_a_worker_that_dies_between_two_steps_loses_and_repeats_nothing(search: Search) -> None:
    rounds.settle(search.pk, timezone.now())  # it dies here: the draft is not started
    [draft] = search.rounds.all()
    assert (draft.state, draft.campaign.state) == (Round.State.STARTING, Campaign.State.DRAFT)
    planned = state_of(search)

    rounds.settle(search.pk, timezone.now())
    advance(search)
    advance(search)

    assert search.rounds.get().campaign.state == Campaign.State.RUNNING
    assert state_of(search) == planned


def test_a_claimed_start_is_not_repeated_until_the_claim_expires(search: Search) -> None:
    now = timezone.now()
    rounds.settle(search.pk, now)
    search.rounds.update(claimed_until=now + timedelta(minutes=1))

    rounds.advance(search.pk, now)
    assert search.rounds.get().campaign.state == Campaign.State.DRAFT

    rounds.advance(search.pk, now + timedelta(minutes=2))
    assert search.rounds.get().campaign.state == Campaign.State.RUNNING


@pytest.mark.thorough
def test_the_same_results_lead_to_the_same_candidates() -> None:
    same: dict[str, Any] = {"seed": 11, "budget_runs": 42}
    host = make_host()
    one, other = (make_search(make_campaign(host=host, name=name), name=name, **same) for name in "ab")

    finish(one)
    finish(other)

    assert state_of(one) == state_of(other)


@pytest.mark.thorough
def test_a_search_ends_with_a_fresh_campaign_whose_verdict_alone_counts() -> None:
    search = finish(make_search(budget_runs=90))

    assert (search.state, search.state_reason) == (Search.State.FINISHED, "")
    last = search.rounds.last()
    assert last and last.kind == Round.Kind.CONFIRMATION
    assert budget.of(search).spent_runs <= search.budget_runs
    default, level = campaign_table(last.campaign).levels
    assert (default.label, level.verdict) == ("default", "better")
    best = search.trials.get(number=int(level.label.removeprefix("trial ")))
    assert best.values["jit"] == "off" and BEST_KB / 8 < best.values["work_mem"] < BEST_KB * 8
    confirmation = queries.confirmation(search)
    assert confirmation and confirmation.is_better and len(confirmation.findings) == 1


@pytest.mark.thorough
def test_a_search_without_a_better_candidate_ends_without_a_confirmation(search: Search) -> None:
    finish(search, lambda values: 500.0 if values else 1000.0)

    assert (search.state, search.state_reason) == (Search.State.FINISHED, rounds.NOTHING_BETTER)
    assert not search.rounds.filter(kind=Round.Kind.CONFIRMATION).exists()


def test_failed_trials_have_a_reason_and_do_not_run_again(search: Search) -> None:
    advance(search)
    end_round(search, lambda values: None if values.get("work_mem", 0) == worst(search) else planted(values))
    advance(search)

    failed = search.trials.get(state=Trial.State.FAILED)
    assert failed.values["work_mem"] == worst(search)
    assert failed.reason == "a run failed"
    levels = search.rounds.get(number=2).campaign.factors[0]["levels"]
    assert failed.label not in [level["label"] for level in levels]


def worst(search: Search) -> int:
    return max(trial.values["work_mem"] for trial in search.trials.filter(number__lte=3))


def test_a_round_with_a_failed_default_fails_no_candidate_and_pauses(search: Search) -> None:
    advance(search)
    end_round(search, lambda values: None)
    advance(search)

    assert search.state == Search.State.PAUSED
    assert "has a result of the default and of a candidate" in search.state_reason
    assert {trial.state for trial in search.trials.all()} == {Trial.State.ASKED}

    services.resume_search(search, by=search.owner)
    advance(search)
    labels = [level["label"] for level in search.rounds.get(number=2).campaign.factors[0]["levels"]]
    assert labels == ["default", "trial 1", "trial 2", "trial 3"]


@pytest.mark.parametrize("outcome", [Run.Outcome.INTERRUPTED, Run.Outcome.CANCELLED])
def test_a_trial_whose_runs_were_interrupted_or_cancelled_waits_and_runs_again(search: Search, outcome: str) -> None:
    advance(search)
    end_round(search)
    lost = Run.objects.filter(campaign=search.rounds.get().campaign, cell={"values": "trial 2"})
    Measurement.objects.filter(run__in=lost).delete()
    lost.update(outcome=outcome)

    advance(search)

    assert search.trials.get(number=2).state == Trial.State.ASKED
    levels = search.rounds.get(number=2).campaign.factors[0]["levels"]
    assert "trial 2" in [level["label"] for level in levels]


def test_trials_that_wait_leave_the_runs_of_the_confirmation() -> None:
    search = make_search(budget_runs=40)
    for _ in range(3):  # 3 rounds of 8 runs without a result of the default leave 16 runs, of which 10 are reserved
        advance(search)
        end_round(search, lambda values: None)
        advance(search)
        services.resume_search(search, by=search.owner)
    finish(search, lambda values: 2000.0 if values else 1000.0)

    assert search.rounds.filter(kind=Round.Kind.CONFIRMATION).exists()
    assert budget.of(search).spent_runs <= search.budget_runs


def test_a_candidate_whose_results_vary_is_unstable_and_not_promoted() -> None:
    search = make_search(budget_runs=200)
    flips = {"count": 0}

    def figures(values: dict[str, Any]) -> float:
        if values.get("work_mem") != first_value(search):
            return 600.0 if values else 500.0
        flips["count"] += 1
        return 1200.0 if flips["count"] % 2 else 700.0

    for _ in range(3):
        advance(search)
        end_round(search, figures)
    advance(search)

    trial = search.trials.get(number=1)
    assert (trial.state, trial.reason) == (Trial.State.UNSTABLE, rounds.VARIES)
    assert trial.blocks >= 4
    levels = search.rounds.last().campaign.factors[0]["levels"]  # type: ignore[union-attr]
    assert trial.label not in [level["label"] for level in levels]


def first_value(search: Search) -> Any:
    return search.trials.get(number=1).values["work_mem"]


def test_a_candidate_that_cannot_be_planned_is_refused_and_the_others_run(search: Search) -> None:
    rounds.settle(search.pk, timezone.now())
    search.rounds.all().delete()
    Trial.objects.filter(number=2).update(values={"work_mem": 3, "jit": "on"})  # below what PostgreSQL accepts

    advance(search)

    refused = search.trials.get(number=2)
    assert refused.state == Trial.State.REFUSED
    assert "out of range" in refused.reason
    levels = search.rounds.get().campaign.factors[0]["levels"]
    assert [level["label"] for level in levels] == ["default", "trial 1", "trial 3"]


def test_a_campaign_that_cannot_be_planned_pauses_the_search_and_fails_no_candidate(search: Search) -> None:
    Facts.objects.filter(host=search.campaign.host).delete()

    advance(search)

    assert search.state == Search.State.PAUSED
    assert {trial.state for trial in search.trials.all()} == {Trial.State.ASKED}


def test_a_cancelled_round_pauses_the_search(search: Search) -> None:
    advance(search)
    campaigns.cancel_campaign(search.rounds.get().campaign, by=search.owner)
    advance(search)

    assert search.state == Search.State.PAUSED
    assert search.state_reason.endswith("was cancelled")
    assert budget.of(search).spent_runs == 0


def test_a_host_that_cannot_start_runs_pauses_the_search_until_it_is_resumed(search: Search) -> None:
    host = search.campaign.host
    Host.objects.filter(pk=host.pk).update(state=Host.State.QUARANTINED, state_reason="dirty")
    advance(search)
    assert search.state == Search.State.PAUSED
    assert "quarantined" in search.state_reason

    Host.objects.filter(pk=host.pk).update(state=Host.State.READY)
    other = make_user(Role.OPERATOR)
    services.resume_search(search, by=other)
    advance(search)

    assert (search.owner, search.state) == (other, Search.State.RUNNING)
    assert search.rounds.get().campaign.state == Campaign.State.RUNNING


@pytest.mark.parametrize("lost", [{"role": Role.VIEWER}, {"is_active": False}])
@pytest.mark.parametrize("planned", [False, True])
def test_an_owner_who_may_no_longer_start_campaigns_pauses_the_search(
    search: Search, lost: dict[str, Any], planned: bool
) -> None:
    if planned:
        rounds.settle(search.pk, timezone.now())
    User.objects.filter(pk=search.owner.pk).update(**lost)
    advance(search)

    assert search.state == Search.State.PAUSED
    assert not Campaign.objects.filter(search_round__search=search, state=Campaign.State.RUNNING).exists()


@pytest.mark.parametrize("step", [rounds.settle, rounds.advance])
def test_stopping_a_search_cancels_its_round_started_or_not_and_confirms_nothing(search: Search, step: Any) -> None:
    step(search.pk, timezone.now())
    services.stop_search(search, by=search.owner)
    advance(search)

    assert search.state == Search.State.STOPPED and search.ended_at
    assert search.rounds.get().campaign.state == Campaign.State.CANCELLED


def test_the_draft_of_a_round_cannot_be_deleted(search: Search) -> None:
    rounds.settle(search.pk, timezone.now())

    with pytest.raises(PlanError, match="a search refers to"):
        archiving.delete_campaign(search.rounds.get().campaign, by=search.owner)


def test_a_paused_search_plans_nothing_until_it_is_resumed(search: Search) -> None:
    advance(search)
    services.pause_search(search, by=search.owner)
    end_round(search)
    assert rounds.due() == []
    advance(search)
    assert search.rounds.count() == 1

    services.resume_search(search, by=search.owner)
    assert advance(search).rounds.count() == 2


def test_the_remaining_time_covers_open_runs_and_the_rest_of_the_budget(search: Search) -> None:
    advance(search)
    assert budget.of(search).remaining_s == pytest.approx(40 * search.run_s)

    end_round(search)  # 8 runs of 10 s
    assert budget.of(search).remaining_s == pytest.approx(32 * 10)


@pytest.mark.thorough
def test_an_extended_search_continues_and_is_confirmed_again(search: Search) -> None:
    finish(search)
    before = search.rounds.count()

    services.extend_search(search, by=search.owner, runs=30)
    finish(search)

    kinds = [search_round.kind for search_round in search.rounds.all()]
    assert kinds[before - 1] == kinds[-1] == Round.Kind.CONFIRMATION
    assert len(kinds) > before + 1
    assert budget.of(search).spent_runs <= search.budget_runs == 70
