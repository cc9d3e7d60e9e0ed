"""A folder of pgbench, fio and sysbench outputs, and a table of figures, end in campaigns whose tables are the expected
ones. What is expected was read off the files by eye and computed with a pocket calculator's operations only."""

from __future__ import annotations

import io
import zipfile
from math import exp, log
from typing import Any

import pytest
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns.models import Campaign, Run
from apps.results import queries, services
from apps.results.answers.summary import summary_table
from apps.results.models import Measurement
from tests.apps.results.exchange.test_imports import SAID, imported, rows, sample
from tests.rows.factories import browser

# What each file stands for: two storages, the first measured twice with pgbench.
FOLDER = {
    "old/pgbench/local-1.out": "pgbench-15-progress.out",
    "old/pgbench/local-2.out": "pgbench-14-select.out",
    "old/pgbench/network-1.out": "pgbench-15-partitions.out",
    "old/pgbench/network-2.out": "pgbench-14-abort.out",
    "old/pgbench/network-2.err": "pgbench-14-abort.err",
    "old/fio/local-1.json": "fio-3.33-document_job.json",
    "old/fio/network-1.json": "fio-3.1-document_job.json",
    "old/sysbench/local-1.out": "sysbench-oltp_read_only.out",
    "old/sysbench/network-1.out": "sysbench-oltp_read_write.out",
}
PATTERN = "{step}/{storage}-{n}.*"
# (metric, storage) -> the figures of its ok runs, as the files print them: `tps = `, `"iops" : ` of read and write, and
# `transactions: N (x per sec.)`.
EXPECTED = {
    ("pgbench.tps", "local"): [54808.230202, 88048.209911],
    ("pgbench.tps", "network"): [35166.025024],
    ("pgbench.latency_avg", "network"): [0.057],
    ("fio.rw-rand-libaio-mysql-ext4 iops", "local"): [43482.505831 + 23369.876708],
    ("fio.rw-rand-libaio-mysql-ext4 iops", "network"): [37506.6357 + 20162.906437],
    ("sysbench.tps", "local"): [2098.70],
    ("sysbench.tps", "network"): [1843.18],
    ("sysbench.latency_p95", "local"): [2.57],
    ("sysbench.latency_p95", "network"): [4.18],
}
CSV = sample("exp001-dataHP.csv")


def zipped(files: dict[str, str], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression) as archive:
        for path, name in files.items():
            archive.writestr(path, sample(name))
    return packed.getvalue()


def table(campaign: Campaign, metric: str) -> dict[str, tuple[float | None, int, int]]:
    """level -> (mean, ok, not ok), of this metric."""
    campaign.metric = metric
    shown = queries.campaign_table(campaign).levels
    return {level.label: (level.mean, level.ok, level.not_ok) for level in shown}


@pytest.fixture
def folder(operator: User) -> Campaign:
    return imported(operator, ("old.zip", zipped(FOLDER)), pattern=PATTERN, metric="pgbench.tps")


def test_a_folder_of_outputs_ends_in_the_expected_table(folder: Campaign) -> None:
    metrics = {metric for metric, _ in EXPECTED}

    rows = {(metric, level): row for metric in metrics for level, row in table(folder, metric).items()}

    for (metric, level), figures in EXPECTED.items():
        mean, ok, _ = rows[metric, level]
        assert ok == len(figures)
        assert mean == pytest.approx(exp(sum(log(figure) for figure in figures) / len(figures)), rel=1e-12)
    assert [step["kind"] for step in folder.steps] == ["fio", "pgbench", "sysbench"]


def summary(campaign: Campaign) -> dict[tuple[str, str], tuple[float | None, int]]:
    """(step.figure, level) -> (mean, runs), of the summary table."""
    figures = summary_table(campaign).figures
    return {
        (f"{figure.step}.{figure.name}", cell.level): (cell.mean, cell.n) for figure in figures for cell in figure.cells
    }


def test_the_summary_of_a_folder_has_the_expected_figures_of_every_tool(folder: Campaign) -> None:
    means = summary(folder)

    for metric in ("pgbench.tps", "fio.rw-rand-libaio-mysql-ext4 iops", "sysbench.tps"):
        for level in ("local", "network"):
            figures = EXPECTED[metric, level]
            mean = exp(sum(log(figure) for figure in figures) / len(figures))
            assert means[metric, level] == (pytest.approx(mean, rel=1e-12), len(figures))


def test_the_summary_of_a_table_has_its_figures(operator: User) -> None:
    means = summary(imported(operator, ("dataHP.csv", CSV), metric="idx1"))

    expected = {
        ("measure.idx1", "128MB"): 0.175,
        ("measure.seq", "16MB"): 33.516,
        ("measure.idx2", "128kB"): 0.153,
    }
    assert {key: means[key] for key in expected} == {key: (pytest.approx(each), 1) for key, each in expected.items()}


def test_an_aborted_pgbench_is_a_failed_run_and_never_a_figure(folder: Campaign) -> None:
    failed = folder.runs.get(outcome=Run.Outcome.FAILED)

    assert failed.cell == {"storage": "network"}
    assert "division by zero" in failed.error["message"]
    assert not failed.measurements.exists()
    assert bytes(failed.artefacts.get(path="out/pgbench/stdout").content or b"") == sample("pgbench-14-abort.out")


def test_a_table_of_figures_ends_in_the_expected_table(operator: User) -> None:
    columns = {"huge_pages(2MiB)": {"as": "factor", "name": "huge pages", "levels": {"0": "none", "*": "yes"}}}

    campaign = imported(operator, ("dataHP.csv", CSV), columns=columns, metric="idx1")

    # Lines 2, 3, 4 and 6 of the file; line 5 tells no size, and is left out with a word.
    expected = {"128MB": (0.175, 36.389), "64MB": (0.191, 29.508), "16MB": (0.051, 33.516), "128kB": (0.073, 36.089)}
    for place, metric in enumerate(("idx1", "seq")):
        rows = table(campaign, metric)
        assert rows == {f"yes, {size}": (pytest.approx(row[place]), 1, 0) for size, row in expected.items()}
    assert [note["place"] for note in campaign.imported_from.notes] == ["dataHP.csv, line 5"]
    assert campaign.runs.last().ended_at.isoformat() == "2026-11-21T00:57:38+00:00"


def test_importing_twice_changes_nothing_and_says_so(folder: Campaign, operator: User) -> None:
    client, before = browser(operator), rows()

    packed_anew = zipped(dict(reversed(FOLDER.items())), zipfile.ZIP_STORED)
    answer = client.post(reverse("import_new"), {"files": io.BytesIO(packed_anew)}, format="multipart", follow=True)

    assert rows() == before
    assert answer.redirect_chain[-1][0] == reverse("campaign_detail", args=[folder.pk])
    assert "Nothing was changed" in answer.content.decode()


def test_committing_twice_gives_the_same_campaign(folder: Campaign, operator: User) -> None:
    before = rows()

    again = services.commit(folder.imported_from, by=operator)

    assert again == folder and rows() == before


def test_an_imported_campaign_is_shown_and_cited_like_any_other(folder: Campaign, tuner: User) -> None:
    client = browser(tuner)

    page = client.get(reverse("campaign_detail", args=[folder.pk]))
    cited = client.get(reverse("decision_new"), {"campaign": str(folder.pk)})
    chart = client.get(reverse("campaign_figure", args=[folder.pk]))
    run = client.get(reverse("run_detail", args=[folder.runs.first().pk]))

    assert [page.status_code, cited.status_code, chart.status_code, run.status_code] == [200] * 4
    assert "imported" in page.content.decode()


@pytest.mark.parametrize("export", ["outputs.zip", "runs.csv"])
def test_an_export_can_be_imported_again(folder: Campaign, operator: User, export: str) -> None:
    exported = b"".join(browser(operator).get(reverse("campaign_export", args=[folder.pk, export])).streaming_content)

    mapping: dict[str, Any] = {} if export == "outputs.zip" else {"order": {"storage": ["local", "network"]}}
    again = imported(operator, (export, exported), metric="pgbench.tps", **mapping)

    assert again != folder
    for metric in {metric for metric, _ in EXPECTED}:
        assert table(again, metric) == table(folder, metric)
    assert (
        Measurement.objects.filter(run__campaign=again).count()
        == Measurement.objects.filter(run__campaign=folder).count()
    )


def test_fields_of_a_manifest_need_no_mapping(folder: Campaign, operator: User) -> None:
    exported = b"".join(
        browser(operator).get(reverse("campaign_export", args=[folder.pk, "outputs.zip"])).streaming_content
    )

    draft, _ = services.upload([("outputs.zip", exported)], by=operator)
    again = services.commit(draft, by=operator)

    assert (again.name, again.question, again.host, again.metric) == (
        SAID["name"],
        SAID["question"],
        folder.host,
        "pgbench.tps",
    )
    assert queries.campaign_table(again).levels[0].mean == queries.campaign_table(folder).levels[0].mean
