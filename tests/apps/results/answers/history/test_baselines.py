"""Repeated runs on a host: whether the newest is in line with the earlier ones, and when the level changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import plotly.graph_objects as go
import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns.models import Campaign, Run
from apps.hosts.models import Facts, Host
from apps.results.answers.history.baselines import baselines
from tests.rows.factories import FACTS, browser, make_campaign, make_host, make_workload

pytestmark = pytest.mark.django_db
QUIET = [10110, 10080, 10150, 10095, 10130, 10070, 10120, 10105, 10140, 10090]


def repeated(host: Host, by: User, *values: float) -> list[Run]:
    """The same campaign of one level again and again, an hour after another, a run each."""
    one = [{"name": "again", "levels": [{"label": "as it is", "set": {}}]}]
    workload, began, made = make_workload(by=by), datetime(2026, 1, 1, tzinfo=UTC), []
    for place, value in enumerate(values):
        campaign = make_campaign(
            Campaign.State.FINISHED, by=by, host=host, repetitions=1, factors=one, workload=workload, name="baseline"
        )
        run = campaign.runs.get()
        run.measurements.filter(name="tps").update(value=value)
        run.started_at, run.facts = began + timedelta(hours=place), host.facts_history.get()
        run.save()
        made.append(run)
    return made


@pytest.mark.thorough
def test_a_run_out_of_line_with_those_before_it_is_reported(admin: User) -> None:
    host = make_host()
    repeated(host, admin, *QUIET, 9850)

    (baseline,) = baselines(host)

    assert (baseline.title, baseline.values) == ("baseline, as it is: tps", [*QUIET, 9850])
    (judgement,) = baseline.judgements()
    assert (judgement.tone, judgement.sentence) == (
        "warning",
        "Its newest run, from 2026-01-01 10:00, is out of line with the 10 runs before it: -2.55 % (z -8.39).",
    )


@pytest.mark.thorough
def test_a_new_kernel_is_named_where_the_level_changes(admin: User) -> None:
    host = make_host()
    runs = repeated(host, admin, *QUIET, *(value * 1.05 for value in QUIET))
    newer = Facts.objects.create(host=host, number=2, digest="1" * 64, data=FACTS | {"kernel": {"release": "6.12.0"}})
    Run.objects.filter(pk__in=[run.pk for run in runs[10:]]).update(facts=newer)

    changes = [judgement for judgement in baselines(host)[0].judgements() if judgement.topic == "change"]

    assert [change.sentence for change in changes] == [
        "2026-01-01 10:00: It changed from 10,107 to 10,613 tps (+5.00 %) "
        "with Linux 6.12.0, PostgreSQL 18.6 instead of Linux 6.1.0, PostgreSQL 18.6."
    ]


@pytest.mark.thorough
def test_ten_runs_are_too_few(admin: User) -> None:
    host = make_host()
    repeated(host, admin, *QUIET)

    assert baselines(host) == []


@pytest.mark.thorough
def test_the_host_s_page_asks_for_it(client: Client, admin: User, django_assert_max_num_queries: Any) -> None:
    host = make_host()
    repeated(host, admin, *QUIET, 9850)
    client.force_login(admin)

    with django_assert_max_num_queries(9):
        part = client.get(reverse("host_baselines", args=[host.name])).content.decode()

    assert "is out of line with the 10 runs before it" in part
    assert (
        reverse("host_baselines", args=[host.name])
        in client.get(reverse("host_detail", args=[host.name])).content.decode()
    )


@pytest.mark.thorough
def test_the_chart_has_every_run_the_levels_and_why_they_changed(client: Client, admin: User) -> None:
    host = make_host()
    runs = repeated(host, admin, *QUIET, *(value * 1.05 for value in QUIET))
    newer = Facts.objects.create(host=host, number=2, digest="1" * 64, data=FACTS | {"kernel": {"release": "6.12.0"}})
    Run.objects.filter(pk__in=[run.pk for run in runs[10:]]).update(facts=newer)
    client.force_login(admin)

    figure = client.get(reverse("baseline_figure", args=[host.name, runs[0].digest])).json()

    points, levels = figure["data"]
    go.Figure(data=figure["data"], layout=figure["layout"])
    assert [row[0] for row in points["customdata"]] == [str(run.pk) for run in runs]
    assert [at and at[11:13] for at in levels["x"]] == ["00", "09", None, "10", "19", None]
    assert levels["y"] == pytest.approx([10107.5, 10107.5, None, 10612.9, 10612.9, None], rel=1e-5)
    assert [mark["x0"] for mark in figure["layout"]["shapes"]] == ["2026-01-01 10:00:00"]
    assert figure["layout"]["annotations"][0]["text"] == "+5.00 %, known reason"


def test_a_spec_that_was_hardly_ever_run_has_no_chart(client: Client, admin: User) -> None:
    host = make_host()
    run = repeated(host, admin, 10000)[0]
    client.force_login(admin)

    assert client.get(reverse("baseline_figure", args=[host.name, run.digest])).status_code == 404


@pytest.mark.thorough
def test_the_api_has_the_same_points_and_judgements(admin: User) -> None:
    host = make_host()
    runs = repeated(host, admin, *QUIET, 9850)

    (baseline,) = browser(admin).get(f"/api/v1/hosts/{host.pk}/baselines/").json()

    assert (baseline["metric"], [point["value"] for point in baseline["points"]]) == ("tps", [*QUIET, 9850])
    assert baseline["points"][-1]["run"] == str(runs[-1].pk)
    assert "out of line" in baseline["judgements"][0]["sentence"]
