"""One campaign on several hosts: the same runs on each, or its blocks distributed over equal hosts."""

from __future__ import annotations

from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.campaigns.design.before_start import previews
from apps.campaigns.execution import queue
from apps.campaigns.execution.schedule import by_host
from apps.campaigns.models import Campaign, Run
from apps.campaigns.queries import breaks
from apps.hosts.models import Facts, Host
from apps.hosts.usage import reservations
from apps.results.answers.summary import summary_table
from apps.results.queries import campaign_table, evidence
from common.errors import PlanError
from tests.rows.factories import FACTS, browser, end_run, make_campaign, make_host, make_user

pytestmark = pytest.mark.django_db
EACH, SPREAD = Campaign.Placement.EACH, Campaign.Placement.SPREAD


@pytest.fixture
def fleet(db: None) -> list[Host]:
    return [make_host(f"bench-{n}") for n in (1, 2, 3)]


def placed(how: str, hosts: list[Host], **fields: Any) -> Campaign:
    fields.setdefault("state", Campaign.State.RUNNING)
    return make_campaign(host=hosts[0], placement=how, further_hosts=hosts[1:], **fields)


def of(campaign: Campaign, host: Host) -> list[Run]:
    return list(campaign.runs.filter(host=host).order_by("position"))


def facts(**changes: Any) -> dict[str, Any]:
    return deepcopy(FACTS) | changes


class TestEach:
    def test_every_host_has_every_cell_in_every_block(self, fleet: list[Host]) -> None:
        campaign = placed(EACH, fleet, repetitions=2)

        cells = [[(run.block, run.label) for run in of(campaign, host)] for host in fleet]

        assert campaign.runs.count() == 12
        assert cells[0] == cells[1] == cells[2]
        assert sorted(cells[0]) == [(0, "1 cpu"), (0, "2 cpus"), (1, "1 cpu"), (1, "2 cpus")]

    def test_hosts_measure_at_the_same_time(self, fleet: list[Host]) -> None:
        campaign = placed(EACH, fleet)

        armed = campaign.runs.filter(next_tick_at__isnull=False)

        assert {run.host for run in armed} == set(fleet)

    def test_each_is_planned_by_its_own_facts(self) -> None:
        older = facts(postgresql=[FACTS["postgresql"][0] | {"bin_dir": "/usr/lib/postgresql/17/bin", "major": 17}])
        hosts = [make_host("new"), make_host("old", facts=older)]

        campaign = placed(EACH, hosts)

        assert [of(campaign, host)[0].spec["target"]["bin_dir"] for host in hosts] == [
            "/usr/lib/postgresql/18/bin",
            "/usr/lib/postgresql/17/bin",
        ]
        assert all(run.facts == run.host.facts_history.get() for run in campaign.runs.all())

    def test_a_level_that_one_host_cannot_run_is_refused_for_all(self) -> None:
        one_cpu = facts(cpus=FACTS["cpus"] | {"online": "0", "allowed": "0"})

        with pytest.raises(PlanError, match="small"):
            placed(EACH, [make_host("large"), make_host("small", facts=one_cpu)])

    def test_the_hours_are_those_of_the_longest_host(self, fleet: list[Host]) -> None:
        draft = placed(EACH, fleet, state=Campaign.State.DRAFT, repetitions=2)

        preview = previews.preview(draft)

        assert len(preview.runs) == 12
        assert [share.runs for share in preview.shares] == [4, 4, 4]
        assert preview.seconds == max(share.seconds for share in preview.shares)

    def test_two_names_of_one_machine_are_refused(self, fleet: list[Host]) -> None:
        Host.objects.filter(pk=fleet[1].pk).update(machine_id=fleet[0].machine_id)
        fleet[1].refresh_from_db()

        with pytest.raises(PlanError, match="bench-2 is the same machine as bench-1"):
            placed(EACH, fleet)

    @pytest.mark.parametrize(("how", "count"), [(Campaign.Placement.ONE, 2), (EACH, 1), (SPREAD, 1)])
    def test_further_hosts_and_placement_have_to_agree(self, fleet: list[Host], how: str, count: int) -> None:
        with pytest.raises(PlanError) as refused:
            placed(how, fleet[:count])

        assert refused.value.subject in ("placement", "further_hosts")

    def test_runs_on_different_hosts_are_not_a_change_of_one_host(self, fleet: list[Host]) -> None:
        Facts.objects.filter(host=fleet[1]).update(data=facts(kernel={"release": "6.12.0"}))
        campaign = placed(EACH, fleet, repetitions=1)

        for run in campaign.runs.order_by("position"):
            end_run(run)

        assert breaks(campaign.pk) == []


class TestSpread:
    def test_a_whole_block_is_of_one_host(self, fleet: list[Host]) -> None:
        campaign = placed(SPREAD, fleet, repetitions=6)

        hosts: dict[int, set[int]] = {}
        for run in campaign.runs.all():
            hosts.setdefault(run.block, set()).add(run.host_id)

        assert campaign.runs.count() == 12
        assert [len(hosts[block]) for block in range(6)] == [1] * 6
        assert [len(of(campaign, host)) for host in fleet] == [4, 4, 4]

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            (
                {"kernel": {"release": "6.12.0", "version": "#1 SMP", "arch": "x86_64"}},
                "kernel.release (6.1.0 and 6.12.0)",
            ),
            ({"memory": FACTS["memory"] | {"total_kb": 16_000_000}}, "memory.total_kb"),
        ],
    )
    def test_hosts_that_differ_are_refused_with_their_differences(self, changes: dict[str, Any], says: str) -> None:
        with pytest.raises(PlanError) as refused:
            placed(SPREAD, [make_host("one"), make_host("other", facts=facts(**changes))])

        assert refused.value.subject == "further_hosts"
        assert says in refused.value.message

    def test_some_kilobytes_of_memory_make_no_difference(self) -> None:
        almost = facts(memory=FACTS["memory"] | {"total_kb": 8_000_100}, machine_id="f" * 32)

        assert placed(SPREAD, [make_host("one"), make_host("other", facts=almost)]).runs.count() == 6

    def test_hosts_that_would_run_it_otherwise_are_refused(self) -> None:
        with pytest.raises(PlanError, match=r"target.data_dir \(.* and /data\)"):
            placed(SPREAD, [make_host("one"), make_host("other", data_dir="/data")])

    def test_fewer_repetitions_than_hosts_are_refused(self, fleet: list[Host]) -> None:
        with pytest.raises(PlanError, match="2 cannot be spread over 3 hosts"):
            placed(SPREAD, fleet, repetitions=2)

    @pytest.mark.parametrize("state", [Host.State.UNREACHABLE, Host.State.UNFIT, Host.State.QUARANTINED])
    def test_a_host_that_fails_gives_its_queued_blocks_to_the_others(self, fleet: list[Host], state: str) -> None:
        campaign = placed(SPREAD, fleet[:2], repetitions=4)
        first, second = fleet[:2]
        begun = of(campaign, second)[0]
        end_run(begun)
        Host.objects.filter(pk=second.pk).update(state=state, state_reason="x")
        for run in of(campaign, first):
            end_run(run)

        queue.arm_idle_hosts()

        moved = [run for run in of(campaign, first) if run.state == Run.State.QUEUED]
        assert {run.block for run in moved} == {3}
        assert len(moved) == 2
        assert all(run.facts == first.facts_history.get() for run in moved)
        assert {run.block for run in of(campaign, second)} == {begun.block}

    def test_a_host_that_is_done_takes_a_block_from_one_that_is_busy(self, fleet: list[Host]) -> None:
        campaign = placed(SPREAD, fleet[:2], repetitions=4)
        first, second = fleet[:2]
        Run.objects.filter(pk=of(campaign, second)[0].pk).update(state=Run.State.RUNNING, started_at=timezone.now())
        for run in of(campaign, first):
            end_run(run)

        queue.arm_host(first.pk)

        assert {run.block for run in of(campaign, first)} == {0, 2, 3}

    def test_a_host_that_is_reserved_takes_nothing_over(self, fleet: list[Host], operator: User) -> None:
        campaign = placed(SPREAD, fleet[:2], repetitions=4)
        first, second = fleet[:2]
        Host.objects.filter(pk=second.pk).update(state=Host.State.UNFIT, state_reason="x")
        for run in of(campaign, first):
            end_run(run)
        reservations.reserve(first, timezone.now() + timedelta(hours=1), "mine", by=operator)

        queue.arm_idle_hosts()

        assert {run.block for run in of(campaign, first)} == {0, 2}


class TestAnswer:
    """bench-2 is twice as fast as bench-1; on all of them two cpus give 90 % more."""

    SPEED = {"bench-1": 1.0, "bench-2": 2.0, "bench-3": 1.5}

    def measure(self, campaign: Campaign, gain: dict[str, float] | None = None, but: tuple[int, ...] = ()) -> None:
        for run in campaign.runs.select_related("host").order_by("position"):
            noise = 1 + 0.002 * ((run.block * 7 + run.position * 3) % 5)
            level = 1.0 if run.label == "1 cpu" else (gain or {}).get(run.host.name, 1.9)
            outcome = Run.Outcome.FAILED if run.position in but else Run.Outcome.OK
            end_run(run, outcome, tps=1000 * self.SPEED[run.host.name] * level * noise)
        campaign.state = Campaign.State.FINISHED
        campaign.save(update_fields=["state"])

    def test_levels_are_compared_within_hosts_because_their_speeds_differ(self, fleet: list[Host]) -> None:
        campaign = placed(EACH, fleet, repetitions=3)
        self.measure(campaign)

        table = campaign_table(campaign)

        two = table.levels[1]
        assert two.verdict == "better"
        assert two.preliminary
        assert "3 hosts" in two.sentence
        assert "one mean for each of 3 hosts" in table.method
        assert two.relative_percent == pytest.approx(90, abs=1)
        assert two.relative_low is not None and two.relative_high is not None
        assert two.relative_high - two.relative_low < 2
        assert [(host.name, host.levels[1].verdict) for host in table.hosts] == [
            ("bench-1", "better"),
            ("bench-2", "better"),
            ("bench-3", "better"),
        ]
        assert table.disagreement == ""

    def test_two_hosts_have_own_verdicts_but_do_not_generalise(self, fleet: list[Host]) -> None:
        campaign = placed(EACH, fleet[:2], repetitions=5)
        self.measure(campaign)

        table = campaign_table(campaign)

        assert [host.levels[1].verdict for host in table.hosts] == ["better", "better"]
        assert table.levels[1].verdict == "points_only"
        assert "from 2 hosts; a comparison needs 3" in table.sentence

    def test_hosts_on_which_a_level_is_better_by_other_sizes_do_not_disagree(self, fleet: list[Host]) -> None:
        campaign = placed(EACH, fleet, repetitions=5)
        self.measure(campaign, gain={"bench-1": 1.03, "bench-2": 1.05, "bench-3": 1.08})

        sentence = campaign_table(campaign).disagreement

        assert sentence.startswith("The size differs between hosts: 2 cpus gives +")
        assert sentence.endswith("It is better on all 3 hosts.")

    def test_a_run_that_failed_takes_its_block_out_of_the_answer_of_all(self, fleet: list[Host]) -> None:
        """Otherwise a level without a run on the fast host would seem slower than it is."""
        campaign = placed(EACH, fleet[:2], repetitions=4)
        fast = [run.position for run in of(campaign, fleet[1]) if run.label == "2 cpus"]
        self.measure(campaign, but=tuple(fast[:1]))

        table = campaign_table(campaign)

        assert table.levels[1].relative_percent == pytest.approx(90, abs=1)
        assert "; 1 left out because their block lacks a level on its host" in table.method
        assert summary_table(campaign).figures[0].cells[1].n == 2

    def test_hosts_that_disagree_are_named(self, fleet: list[Host]) -> None:
        campaign = placed(EACH, fleet[:2], repetitions=5)
        self.measure(campaign, gain={"bench-1": 1.9, "bench-2": 0.9})

        assert campaign_table(campaign).disagreement.startswith("The hosts disagree: 2 cpus gives +")

    def test_one_host_has_its_own_table(self, fleet: list[Host]) -> None:
        campaign = placed(EACH, fleet[:2], repetitions=3)
        self.measure(campaign)

        table = campaign_table(campaign, fleet[1].pk)

        assert table.levels[0].mean == pytest.approx(2000, rel=0.02)
        assert (table.levels[0].planned, table.hosts) == (3, [])

    def test_evidence_keeps_which_host_each_run_was_on(self, fleet: list[Host]) -> None:
        campaign = placed(EACH, fleet[:2], repetitions=1)
        self.measure(campaign)

        frozen = evidence(campaign)

        assert frozen["campaign"]["further_hosts"] == ["bench-2"]
        assert [run["host"] for run in frozen["runs"]] == ["bench-1", "bench-2", "bench-1", "bench-2"]

    def test_blocks_on_several_hosts_are_compared_within_their_host(self, fleet: list[Host]) -> None:
        campaign = placed(SPREAD, fleet[:2], repetitions=4)
        self.measure(campaign)

        two = campaign_table(campaign).levels[1]

        assert two.relative_percent == pytest.approx(90, abs=1)
        assert two.verdict == "better"


class TestShown:
    def test_the_api_makes_starts_and_follows_it(self, fleet: list[Host], operator: User) -> None:
        draft = placed(EACH, fleet[:2], state=Campaign.State.DRAFT)
        client, address = browser(operator), f"/api/v1/campaigns/{draft.pk}/"

        assert [share["runs"] for share in client.get(f"{address}preview/").json()["shares"]] == [6, 6]
        started = client.post(f"{address}start/").json()

        assert started["placement"] == "each"
        assert [(each["host_name"], each["total"]) for each in client.get(f"{address}hosts/").json()] == [
            ("bench-1", 6),
            ("bench-2", 6),
        ]
        results = client.get(f"{address}results/?host={fleet[1].pk}").json()
        assert [level["planned"] for level in results["levels"]] == [3, 3]

    def test_the_page_shows_each_host_and_why_nothing_begins_there(self, fleet: list[Host], operator: User) -> None:
        ana = make_user(Role.OPERATOR, "ana")
        reservations.reserve(fleet[1], timezone.now() + timedelta(hours=1), "firmware update", by=ana)
        campaign = placed(EACH, fleet[:2])

        text = browser(operator).get(f"/campaigns/{campaign.pk}/").content.decode()

        assert "Host by host" in text
        assert "reserved by ana until" in text
        assert [each.why != "" for each in by_host(campaign, timezone.now())] == [False, True]

    def test_the_form_places_it(self, fleet: list[Host], operator: User) -> None:
        workload = make_campaign().workload
        typed = {
            "host": fleet[0].pk, "placement": "each", "further_hosts": [fleet[1].pk], "priority": 3, "name": "n",
            "question": "q", "workload": workload.pk if workload else "", "repetitions": 2, "order": "randomised",
            "design": "factorial", "metric": "tps", "delta": 2, "reboot": "never", "sources": ["cpu"],
            "factor": "cpus", "level": "one", "path": "settings.cpu_affinity.server", "value": "0",
        }  # fmt: skip
        client = browser(operator)

        preview = client.post("/campaigns/preview/", typed, format="multipart").content.decode()
        assert "At the same time: 2 runs on bench-1" in preview
        client.post("/campaigns/new/", typed, format="multipart")

        made = Campaign.objects.get(name="n")
        assert (made.placement, made.priority, list(made.further_hosts.all())) == ("each", 3, [fleet[1]])
