"""Results over the API."""

from __future__ import annotations

import math
from uuid import uuid4

import numpy as np

from apps.accounts.models import User
from apps.campaigns.models import Campaign, Run
from apps.results.models import Measurement
from apps.results.store import fold
from tests.rows.factories import browser, end_run, make_campaign


def test_the_table_compares_levels_with_the_first(viewer: User) -> None:
    campaign = make_campaign(Campaign.State.FINISHED)

    table = browser(viewer).get(f"/api/v1/campaigns/{campaign.pk}/results/").json()

    one, two = table["levels"]
    assert (table["baseline"], one["label"], two["label"]) == ("1 cpu", "1 cpu", "2 cpus")
    assert (two["ok"], two["planned"], two["proven"], len(two["points"])) == (3, 3, 3, 3)
    assert 89 < two["relative_percent"] < 91
    assert table["sentence"]


def test_a_failed_run_stays_in_the_table(viewer: User) -> None:
    campaign = make_campaign(Campaign.State.RUNNING)
    first, *others = campaign.runs.order_by("position")
    end_run(first, Run.Outcome.NOT_IN_EFFECT)
    for run in others:
        end_run(run)

    table = browser(viewer).get(f"/api/v1/campaigns/{campaign.pk}/results/").json()

    level = next(row for row in table["levels"] if row["label"] == first.label)
    assert (level["ok"], level["not_ok"], level["outcomes"]["not_in_effect"]) == (2, 1, 1)


def test_before_the_first_result_there_is_no_comparison(viewer: User) -> None:
    table = browser(viewer).get(f"/api/v1/campaigns/{make_campaign().pk}/results/").json()

    assert [row["mean"] for row in table["levels"]] == [None, None]
    assert table["sentence"].startswith("No comparison: ")


def test_results_of_no_campaign_are_404(viewer: User) -> None:
    assert browser(viewer).get(f"/api/v1/campaigns/{uuid4()}/results/").status_code == 404


def test_measurements_are_found_by_run_campaign_and_name(viewer: User) -> None:
    campaign, _ = make_campaign(Campaign.State.FINISHED), make_campaign(Campaign.State.FINISHED)
    run = campaign.runs.first()
    assert run is not None
    client = browser(viewer)

    def count(query: str) -> int:
        return len(client.get(f"/api/v1/measurements/?{query}").json()["results"])

    assert (count(f"campaign={campaign.pk}"), count(f"run={run.pk}"), count("name=tps")) == (12, 2, 12)
    measurement = client.get(f"/api/v1/measurements/?run={run.pk}&name=tps").json()["results"][0]
    assert (measurement["unit"], measurement["better"]) == ("TPS", "higher")


def test_an_infinite_value_is_null(viewer: User) -> None:
    run = make_campaign(Campaign.State.FINISHED).runs.first()
    Measurement.objects.create(run=run, step="measure", name="odd", value=math.inf, unit="s")

    answer = browser(viewer).get("/api/v1/measurements/?name=odd")

    assert answer.json()["results"][0]["value"] is None


def test_a_series_carries_its_columns_and_a_list_only_their_names(viewer: User) -> None:
    run = make_campaign(Campaign.State.FINISHED).runs.first()
    table = {"t": np.array([0.0, 1.0, 2.0]), "tps": np.array([99.5, np.nan, 100.5])}
    fold.append(run, "measure", "pgbench", table)
    series = run.series.get()
    client = browser(viewer)

    row = client.get("/api/v1/series/?source=pgbench").json()["results"][0]
    whole = client.get(f"/api/v1/series/{series.pk}/").json()

    assert (row["columns"], "values" in row) == (["t", "tps"], False)
    assert whole["values"] == {"t": [0.0, 1.0, 2.0], "tps": [99.5, None, 100.5]}
