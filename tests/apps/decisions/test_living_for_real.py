"""On a real host: PostgreSQL changes, a decision becomes stale, and a campaign confirms it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.management import call_command

from apps.accounts.models import User
from apps.campaigns import services as campaigns
from apps.campaigns.design.steps import single
from apps.campaigns.library import workloads
from apps.campaigns.models import Campaign, Run
from apps.decisions import services as decisions
from apps.decisions.models import Decision
from apps.decisions.validity import confirmation
from apps.hosts import contact
from apps.hosts.models import Host
from apps.hosts.services import change_host
from embedded.servers.postgres import bin_dir
from tests.servers import machines, remote
from tests.servers.campaigns import PGBENCH
from tests.servers.remote import Server

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.needs("root", "machine-id")]

# Each commit waits so long for others, of whom there are none: an effect that no noise hides.
DELAY = {
    "name": "commit_delay",
    "levels": [
        {"label": "none", "set": {"settings.postgresql.commit_delay": 0}},
        {
            "label": "20 ms",
            "set": {"settings.postgresql.commit_delay": 20000, "settings.postgresql.commit_siblings": 0},
        },
    ],
}


@pytest.fixture(scope="module")
def machine() -> Iterator[Server]:
    with remote.several(["bench"]) as running:
        yield running["bench"]


@pytest.fixture
def bench(machine: Server, admin: User) -> Host:
    """A host that has nothing but what its distribution brought: PostgreSQL 15."""
    host = machines.register("bench", machine, admin)
    return with_postgresql(host, [], admin)


def with_postgresql(host: Host, bin_dirs: list[str], by: User) -> Host:
    change_host(host, by=by, pg_bin_dirs=bin_dirs)
    contact.check_host(host)
    host.refresh_from_db()
    return host


def newest(host: Host) -> int:
    return max(installation["major"] for installation in host.facts["postgresql"] if "initdb" in installation["tools"])


def compared(host: Host, by: User) -> Campaign:
    steps = single("pgbench", PGBENCH | {"builtin": "simple-update", "time_s": 1})
    campaign = campaigns.create_campaign(
        by=by,
        host=host,
        name="commit_delay",
        question="Does it pay to wait for others at commit?",
        workload=workloads.save_workload("small", steps, by=by),
        factors=[DELAY],
        repetitions=5,
        seed=1,
    )
    campaigns.start_campaign(campaign, by=by)
    return carried_out(campaign)


def carried_out(campaign: Campaign) -> Campaign:
    """By the command that does what beat and workers do."""
    call_command("tick", until_done=True)
    call_command("tick")
    campaign.refresh_from_db()
    assert [run.error for run in campaign.runs.all() if run.outcome != Run.Outcome.OK] == []
    return campaign


def test_an_upgrade_makes_a_decision_stale_and_the_offered_campaign_confirms_it(bench: Host, admin: User) -> None:
    assert newest(bench) == 15
    fields = {"title": "No commit_delay", "decision": "Commits wait for nobody.", "level": "none"}
    written = decisions.write_decision(by=admin, campaign=compared(bench, admin), **fields)
    decision = decisions.accept_decision(written, by=admin)
    assert decision.evidence["table"]["levels"][1]["verdict"] == "worse"

    with_postgresql(bench, [str(bin_dir())], admin)
    call_command("tick")

    (stale,) = confirmation.stale_standings(decision)
    assert stale.reasons_text.startswith("PostgreSQL changed from 15.") and " to 18." in stale.reasons_text
    offered = confirmation.offer(decision)
    assert offered and offered.hosts == [bench] and offered.runs == 2 * offered.repetitions

    confirming = carried_out(confirmation.confirm_decision(decision, by=admin, start=True))

    decision.refresh_from_db()
    assert decision.status == Decision.Status.ACCEPTED
    assert confirmation.stale_standings(decision) == []
    assert decision.standings.get().conditions["postgresql"].startswith("18.")
    events = [(event.kind, event.by, event.campaign) for event in decision.events.all()]
    assert events == [
        ("accepted", admin, None),
        ("stale", None, None),
        ("confirming", admin, confirming),
        ("confirmed", None, confirming),
    ]
