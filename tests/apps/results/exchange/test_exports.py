"""Exports of a campaign: their content, escaping, and constant memory for long campaigns."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.urls import reverse
from pyarrow import parquet

from apps.accounts.models import User
from apps.campaigns.models import Campaign, Run
from apps.results.exchange import downloads, exports
from tests.apps.results.exchange.test_imports import imported
from tests.rows import populate
from tests.rows.factories import browser, script

pytestmark = pytest.mark.thorough

# Of one run: five seconds of three columns of pgbench and eight of the cpus.
SAMPLES = 5 * (3 + 8)


@pytest.fixture
def finished(operator: User) -> Campaign:
    return populate.finished(operator, populate.host(), repetitions=3)


def exported(by: User, campaign: Campaign, name: str) -> Any:
    return browser(by).get(reverse("campaign_export", args=[campaign.pk, name]))


def body(answer: Any) -> bytes:
    return b"".join(answer.streaming_content)


def test_a_file_that_a_campaign_has_not_is_404(viewer: User, finished: Campaign) -> None:
    page = exported(viewer, finished, "cache-split.csv")
    api = script(viewer).get(f"/api/v1/campaigns/{finished.pk}/export/cache-split.csv/")

    assert (page.status_code, api.status_code) == (404, 404)


@pytest.mark.parametrize("name", [name for name in downloads.CAMPAIGN if name != "cache-split.csv"])
def test_every_file_is_a_download_that_no_browser_interprets(viewer: User, finished: Campaign, name: str) -> None:
    page = exported(viewer, finished, name)
    api = script(viewer).get(f"/api/v1/campaigns/{finished.pk}/export/{name}/")

    assert (page.status_code, api.status_code) == (200, 200)
    for answer in (page, api):
        assert answer.headers["Content-Disposition"] == f'attachment; filename="campaign-{finished.pk}-{name}"'
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert len(body(page)) == len(body(api)) or name == "outputs.zip"


def test_runs_in_parquet_have_types_units_and_every_run(viewer: User, finished: Campaign) -> None:
    table = parquet.read_table(io.BytesIO(body(exported(viewer, finished, "runs.parquet"))))

    ok = finished.runs.filter(outcome=Run.Outcome.OK).order_by("position").first()
    row = table.slice(ok.position, 1).to_pylist()[0]
    assert table.num_rows == finished.runs.count()
    assert row["measure.tps (1/s)"] == ok.measurements.get(name="tps").value
    assert (row["ended_at"], row["server cpus"]) == (ok.ended_at, ok.cell["server cpus"])
    assert table.schema.field("measure.tps (1/s)").metadata[b"unit"] == b"1/s"
    failed = finished.runs.get(outcome=Run.Outcome.FAILED)
    assert table.slice(failed.position, 1).to_pylist()[0]["measure.tps (1/s)"] is None


def test_series_come_as_a_line_for_each_sample(viewer: User, finished: Campaign) -> None:
    csv_rows = body(exported(viewer, finished, "series.csv")).decode().splitlines()
    table = parquet.read_table(io.BytesIO(body(exported(viewer, finished, "series.parquet"))))

    ok = finished.runs.filter(outcome=Run.Outcome.OK).count()
    assert csv_rows[0] == "run,position,step,source,t_s,column,value"
    assert len(csv_rows) - 1 == table.num_rows == ok * SAMPLES
    first = table.slice(0, 5).to_pylist()
    assert [(each["source"], each["column"], each["t_s"]) for each in first] == [
        ("cpu", "busy", second) for second in (1.0, 2.0, 3.0, 4.0, 5.0)
    ]
    assert [each["value"] for each in first] == [42.0, 43.0, 44.0, 45.0, 46.0]


def test_the_document_holds_design_specs_proofs_and_series_by_choice(viewer: User, finished: Campaign) -> None:
    plain = json.loads(body(exported(viewer, finished, "campaign.json")))
    whole = json.loads(body(exported(viewer, finished, "campaign-with-series.json")))

    run = finished.runs.filter(outcome=Run.Outcome.OK).order_by("position").first()
    exported_run = plain["runs"][run.position]
    assert plain["campaign"]["factors"] == finished.factors
    assert (exported_run["spec"], exported_run["digest"], exported_run["proof"]) == (run.spec, run.digest, run.proof)
    assert {measurement["name"] for measurement in exported_run["measurements"]} == {"tps", "latency_avg"}
    assert [proof["phase"] for proof in exported_run["proofs"]] == ["before", "during"]
    assert "series" not in exported_run and whole["runs"][run.position]["series"][0]["values"]["t"] == [
        1.0,
        2.0,
        3.0,
        4.0,
        5.0,
    ]


def test_formulas_are_escaped_and_unescaped_by_an_import(operator: User) -> None:
    campaign = imported(operator, ("t.csv", b"policy,idx1(ms)\n=1+1,0.1\n@x,0.2\n"), metric="idx1")

    text = body(exported(operator, campaign, "runs.csv")).decode()
    again = imported(operator, ("runs.csv", text.encode()), metric="measure.idx1")

    assert "'=1+1" in text and ",=1+1" not in text
    assert [run.cell for run in again.runs.all()] == [{"policy": "=1+1"}, {"policy": "@x"}]


def test_a_table_can_be_imported_from_the_zip(operator: User) -> None:
    campaign = imported(operator, ("t.csv", b"policy,good\na,1\nb,2\nb,\n"), metric="good", columns=HIGHER)

    archive = body(exported(operator, campaign, "outputs.zip"))
    again = imported(operator, ("outputs.zip", archive), metric="good")

    outcomes = [(run.cell["policy"], run.outcome, run.block) for run in again.runs.order_by("position")]
    assert outcomes == [("a", "ok", 0), ("b", "ok", 0), ("b", "failed", 1)]
    assert again.steps[0]["metrics"] == {"good": {"unit": "", "better": "higher"}}


HIGHER = {"good": {"as": "figure", "name": "good", "better": "higher"}}


def test_a_run_hands_out_its_series(viewer: User, finished: Campaign) -> None:
    run = finished.runs.filter(outcome=Run.Outcome.OK).first()

    page = browser(viewer).get(reverse("run_export", args=[run.pk, "series.csv"]))
    api = script(viewer).get(f"/api/v1/runs/{run.pk}/export/series.parquet/")

    assert len(body(page).splitlines()) == 1 + SAMPLES
    assert parquet.read_table(io.BytesIO(body(api))).num_rows == SAMPLES


@pytest.mark.parametrize("address", ["/campaigns/{}/export/passwd", "/api/v1/campaigns/{}/export/passwd/"])
def test_an_unknown_file_is_not_found(viewer: User, finished: Campaign, address: str) -> None:
    assert browser(viewer).get(address.format(finished.pk)).status_code == 404


def test_the_number_of_queries_of_a_table_of_runs_does_not_grow_with_its_length(
    operator: User, django_assert_num_queries: Any
) -> None:
    short = imported(operator, ("a.csv", b"policy,idx1(ms)\na,0.1\n"), metric="idx1")
    rows = b"".join(b"p%d,0.%d1\n" % (number % 7, number) for number in range(400))
    long = imported(operator, ("b.csv", b"policy,idx1(ms)\n" + rows), metric="idx1")

    for campaign in (short, long):
        with django_assert_num_queries(3):
            assert sum(map(len, exports.runs_csv(campaign)))
