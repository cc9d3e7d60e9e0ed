"""The collectors of a campaign's runs."""

from __future__ import annotations

from agents.collectors import COLLECTORS, USUAL
from apps.accounts.models import User
from apps.campaigns.design.before_start import previews
from apps.campaigns.design.steps import single
from apps.campaigns.library import workloads
from apps.campaigns.models import Campaign
from apps.campaigns.pages.forms import CampaignForm
from tests.rows.factories import FACTORS, browser, make_host, make_user


def test_the_usual_collectors_sample_each_second_unless_a_campaign_chooses_others(operator: User) -> None:
    host, client = make_host(), browser(operator)

    plain = client.post("/api/v1/campaigns/", {"recipe": "cpu-scaling", "host": host.pk}).json()
    chosen = {"interval_s": 0.5, "sources": ["pressure", "cpu"]}
    configured = client.post("/api/v1/campaigns/", {"recipe": "cpu-scaling", "host": host.pk, **chosen}).json()

    specs = [previews.preview(Campaign.objects.get(pk=each["id"])).runs[0].spec for each in (plain, configured)]
    assert specs[0]["collect"] == {"interval_s": 1.0, "sources": USUAL}
    assert "perf" not in USUAL  # each context switch costs more while it counts
    assert specs[1]["collect"] == {"interval_s": 0.5, "sources": ["cpu", "pressure"]}
    assert configured["sources"] == ["pressure", "cpu"]


def test_an_unknown_collector_is_refused_by_name(operator: User) -> None:
    body = {"recipe": "cpu-scaling", "host": make_host().pk, "sources": ["gpu"]}

    answer = browser(operator).post("/api/v1/campaigns/", body)

    assert (answer.status_code, "gpu" in str(answer.json())) == (400, True)


def test_without_postgresql_its_collectors_stay_away(db: None) -> None:
    tuner = make_user()
    workload = workloads.recipe_workload("disk", single("fio", {"rw": "randread", "size": "1m", "runtime_s": 1}), tuner)
    campaign = Campaign(workload=workload, factors=FACTORS)

    sources = previews.collect(campaign, with_postgres=False)["sources"]

    assert sources == [
        name for name, collector in COLLECTORS.items() if not collector.needs_postgres and collector.usual
    ]


def test_the_form_offers_every_collector_with_its_description(db: None) -> None:
    form = CampaignForm()

    assert [value for value, _ in form.fields["sources"].choices] == list(COLLECTORS)  # type: ignore[attr-defined]
    assert form.fields["sources"].initial == USUAL
