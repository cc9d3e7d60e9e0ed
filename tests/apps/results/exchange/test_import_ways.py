"""Imports by page, API and command: one service, and the same roles."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings
from django.urls import reverse

from apps.accounts.models import AuditEntry, Role, User
from apps.campaigns.models import Campaign
from apps.hosts import services as hosts
from apps.hosts.models import Host
from apps.results import services
from apps.results.exchange import transfer
from apps.results.models import Import
from common.errors import PlanError, RoleError
from tests.apps.results.exchange.test_imports import SAID, imported, rows, sample
from tests.rows.factories import browser, make_user, script

PGBENCH = sample("pgbench-15-progress.out")
CSV = sample("exp001-dataHP.csv")


def sent(content: bytes = PGBENCH, name: str = "select.out") -> dict[str, Any]:
    file = io.BytesIO(content)
    file.name = name
    return {"files": file}


def test_a_script_uploads_previews_maps_and_commits(operator: User) -> None:
    client = script(operator)

    uploaded = client.post("/api/v1/imports/", sent(), format="multipart")
    preview = client.get(f"/api/v1/imports/{uploaded.json()['id']}/").json()
    mapped = client.post(f"/api/v1/imports/{preview['id']}/say/", SAID)
    made = client.post(f"/api/v1/imports/{preview['id']}/commit/")
    again = client.post("/api/v1/imports/", sent(), format="multipart")

    assert (uploaded.status_code, mapped.status_code, made.status_code, again.status_code) == (201, 200, 201, 200)
    assert preview["runs"][0]["figures"][0] | {"value": 0} == {
        "step": "measure",
        "name": "tps",
        "value": 0,
        "unit": "tps",
        "better": "higher",
        "definition": "without initial connection time",
    }
    assert made.json()["state"] == "finished"
    assert again.json()["campaign"] == made.json()["id"]


def test_missing_fields_are_named_before_anything_is_written(operator: User) -> None:
    client = script(operator)
    uploaded = client.post("/api/v1/imports/", sent(), format="multipart").json()
    before = rows()

    problem = client.post(f"/api/v1/imports/{uploaded['id']}/commit/")

    assert (problem.status_code, problem.json()["field"], problem.json()["title"]) == (400, "name", "is missing")
    assert rows() == before


@pytest.mark.parametrize(
    ("mapping", "field"),
    [
        ({"columns": {"idx1(ms)": {"as": "number"}}}, "mapping.columns.idx1(ms).as"),
        ({"delta": 2}, "mapping.delta"),
        ({"colour": "red"}, "mapping"),
        ({"columns": {"idx1(ms)": {"as": "figure", "better": "faster"}}}, "mapping.columns.idx1(ms).better"),
        ([1], "mapping"),
    ],
)
def test_a_mapping_that_says_nothing_known_is_refused(operator: User, mapping: Any, field: str) -> None:
    client = script(operator)
    uploaded = client.post("/api/v1/imports/", sent(CSV, "t.csv"), format="multipart").json()

    problem = client.post(f"/api/v1/imports/{uploaded['id']}/say/", mapping)

    assert (problem.status_code, problem.json()["field"]) == (400, field)


def test_a_column_that_does_not_exist_and_a_pattern_without_fields_are_named(operator: User) -> None:
    draft, _ = services.upload([("t.csv", CSV)], by=operator)
    services.store_mapping(draft, {"columns": {"idx9": {"as": "figure"}}}, by=operator)
    other, _ = services.upload([("a.out", PGBENCH)], by=operator)
    services.store_mapping(other, {"pattern": "nothing.out"}, by=operator)

    assert services.preview(draft).errors[0].place == "columns.idx9"
    assert services.preview(other).errors[0].place == "pattern"


@pytest.mark.parametrize("metric", ["idx9", "heap_blks_read", "measure.idx1"])
def test_only_a_figure_with_a_direction_can_be_compared(operator: User, metric: str) -> None:
    if metric == "measure.idx1":
        assert imported(operator, ("t.csv", CSV), metric=metric).metric == metric
        return

    with pytest.raises(PlanError, match="is not measured by"):
        imported(operator, ("t.csv", CSV), metric=metric)
    assert not Campaign.objects.exists()


def test_a_commit_that_fails_at_its_end_leaves_nothing(operator: User, monkeypatch: pytest.MonkeyPatch) -> None:
    draft, _ = services.upload([("select.out", PGBENCH)], by=operator)
    services.store_mapping(draft, SAID, by=operator)
    before = rows()

    def died(*args: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(services, "_hand_over", died)
    with pytest.raises(OSError, match="disk is full"):
        services.commit(draft, by=operator)

    assert rows() == before


def test_viewers_can_read_imports_but_not_create_them(viewer: User, operator: User) -> None:
    draft, _ = services.upload([("select.out", PGBENCH)], by=operator)
    client, page = script(viewer), browser(viewer)

    assert client.post("/api/v1/imports/", sent(), format="multipart").status_code == 403
    assert client.post(f"/api/v1/imports/{draft.pk}/commit/").status_code == 403
    assert page.get(reverse("import_new")).status_code == 403
    assert page.get(reverse("import_detail", args=[draft.pk])).status_code == 403
    with pytest.raises(RoleError):
        services.commit(draft, by=viewer)


def test_the_audit_log_records_each_import_with_its_user(operator: User) -> None:
    campaign = imported(operator, ("select.out", PGBENCH))

    actions = list(AuditEntry.objects.filter(actor=operator).order_by("id").values_list("action", flat=True))
    assert actions == ["import.upload", "host.archive", "import.commit"]
    assert AuditEntry.objects.get(action="import.commit").after["id"] == str(campaign.pk)


def test_the_page_shows_the_parsed_columns_and_the_user_s_input(operator: User) -> None:
    client = browser(operator)
    draft = client.post(reverse("import_new"), sent(CSV, "t.csv"), format="multipart", follow=True)
    url = draft.redirect_chain[-1][0]
    columns = draft.context["columns"]
    typed = {
        "column": [column.header for column in columns],
        "as": ["factor", *(column.use["as"] for column in columns[1:])],
        "column_name": ["huge pages", *(column.use.get("name", "") for column in columns[1:])],
        "unit": [column.use.get("unit", "") for column in columns],
        "better": [column.use.get("better", "") for column in columns],
        "levels": ["0 = none, * = huge pages", *("" for _ in columns[1:])],
        "step": ["" for _ in columns],
        "name": "old",
        "question": "Do huge pages pay?",
        "host": "bench-00",
        "metric": "idx1",
        "delta": "5",
    }

    preview = client.post(url, typed | {"read": "1"}, format="multipart")
    refused = client.post(url, typed | {"metric": "", "commit": "1"}, format="multipart")
    made = client.post(url, typed | {"commit": "1"}, format="multipart")

    assert "huge pages, 128MB" in preview.content.decode()
    assert "hugepage_error" in preview.content.decode()
    assert (refused.status_code, "Metric: " in refused.context["refusal"]) == (422, True)
    campaign = Campaign.objects.get()
    assert made.headers["Location"] == reverse("campaign_detail", args=[campaign.pk])
    assert (campaign.delta, campaign.metric, campaign.question) == (0.05, "idx1", "Do huge pages pay?")


def test_a_file_that_is_in_a_campaign_already_is_named(operator: User) -> None:
    imported(operator, ("select.out", PGBENCH))

    draft, new = services.upload([("select.out", PGBENCH), ("other.out", sample("pgbench-14-select.out"))], by=operator)

    notes = [(note.severity, note.place, note.message) for note in services.preview(draft).notes]
    assert new and notes == [("warning", "select.out", "the same file is in the campaign old")]


def test_a_draft_can_be_forgotten_and_a_campaign_cannot(operator: User) -> None:
    client = browser(operator)
    draft, _ = services.upload([("t.csv", CSV)], by=operator)
    campaign = imported(operator, ("select.out", PGBENCH))

    client.post(reverse("import_detail", args=[draft.pk]), {"discard": "1"}, format="multipart")

    assert list(Import.objects.all()) == [campaign.imported_from]
    with pytest.raises(PlanError, match="was imported"):
        services.discard(campaign.imported_from, by=operator)


def test_an_upload_that_is_too_large_is_refused(operator: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "LARGEST_UPLOAD", 100)
    client = browser(operator)

    page = client.post(reverse("import_new"), sent(), format="multipart")
    api = script(operator).post("/api/v1/imports/", sent(), format="multipart")

    assert (page.status_code, api.status_code, api.json()["field"]) == (422, 400, "files")
    assert "at most 100 are accepted" in page.content.decode()


def test_names_and_cells_are_escaped(operator: User) -> None:
    table = b"policy,idx1(ms)\n<script>alert(1)</script>,0.1\n"
    client = browser(operator)

    page = client.post(reverse("import_new"), sent(table, "<b>.csv"), format="multipart", follow=True)

    assert b"<script>alert" not in page.content and b"&lt;script&gt;alert" in page.content


def test_an_archive_is_never_contacted(admin: User, operator: User) -> None:
    host = imported(operator, ("select.out", PGBENCH)).host

    with pytest.raises(PlanError, match="exists only in imported results"):
        hosts.fetch_host_key(host, by=admin)
    with pytest.raises(PlanError, match="is not approved"):
        hosts.request_check(host, by=operator)


def test_an_admin_makes_an_archive_a_host(admin: User, operator: User) -> None:
    host = imported(operator, ("select.out", PGBENCH)).host
    identity = hosts.create_identity("key", by=admin)

    with override_settings(ADDRESS_ALLOW=["127.0.0.0/8"]):
        hosts.change_host(host, by=admin, address="127.0.0.1", user="dba", identity=identity)

    assert Host.objects.get(pk=host.pk).state == Host.State.NEW


def test_an_imported_workload_cannot_run(operator: User, host_of_mine: Host) -> None:
    from apps.campaigns import services as campaigns

    workload = imported(operator, ("select.out", PGBENCH)).workload

    with pytest.raises(PlanError, match="was imported, so it cannot run"):
        campaigns.create_campaign(
            by=operator, host=host_of_mine, name="again", question="?", workload=workload, factors=[]
        )


@pytest.fixture
def host_of_mine(db: None) -> Host:
    from tests.rows.factories import make_host

    return make_host()


def test_a_command_imports_a_folder(operator: User, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("on-1.out", "off-1.out"):
        (tmp_path / name).write_bytes(PGBENCH + name.encode().hex().encode()[:0] + b"\n" * len(name))
    options = [
        "--by",
        operator.username,
        "--campaign",
        "old",
        "--question",
        "?",
        "--host",
        "bench-00",
        "--metric",
        "tps",
    ]

    call_command("import_results", str(tmp_path), "--pattern", "{wal}-{n}.out", *options)
    call_command("import_results", str(tmp_path), *options)

    campaign = Campaign.objects.get()
    assert sorted(run.cell["wal"] for run in campaign.runs.all()) == ["off", "on"]
    assert "Nothing was changed" in capsys.readouterr().out


def test_the_option_look_of_the_command_only_shows_a_preview(
    operator: User, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_bytes(CSV)

    call_command("import_results", str(tmp_path / "t.csv"), "--by", operator.username, "--look")

    assert "t.csv, line 2: 128MB, repetition 1, ok" in capsys.readouterr().out
    assert not Import.objects.exists()


def test_the_command_refuses_users_without_the_role(db: None, tmp_path: Path) -> None:
    (tmp_path / "x.out").write_bytes(PGBENCH)
    viewer = make_user(Role.VIEWER, "vera")

    with pytest.raises(CommandError, match="this needs operator"):
        call_command("import_results", str(tmp_path), "--by", viewer.username)
    with pytest.raises(CommandError, match="does not exist"):
        call_command("import_results", str(tmp_path), "--by", "nobody")


def test_the_notes_of_an_import_are_json(operator: User) -> None:
    import_record = imported(operator, ("t.csv", CSV), metric="idx1").imported_from

    assert json.loads(json.dumps(import_record.notes))[0]["severity"] == "warning"
