"""From uploaded files to a campaign that is compared like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.apps import apps as installed

from apps.accounts.models import User
from apps.campaigns.models import Campaign, Run
from apps.results import queries, services
from apps.results.models import CachedAnswer, Import

SAMPLES = Path(__file__).parents[3] / "samples"
SAID = {"name": "old", "question": "Was it faster then?", "host": "the-old-box", "metric": "tps", "delta": 0.05}


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def rows() -> dict[str, int]:
    """How many rows each table holds, but for what pages keep of their answers."""
    return {model._meta.label: model.objects.count() for model in installed.get_models() if model is not CachedAnswer}  # type: ignore[attr-defined]


def imported(by: User, *uploads: tuple[str, bytes], **mapping: Any) -> Campaign:
    draft, _ = services.upload(uploads, by=by)
    services.store_mapping(draft, SAID | mapping, by=by)
    return services.commit(draft, by=by)


def test_one_output_becomes_a_campaign_of_one_run(operator: User) -> None:
    campaign = imported(operator, ("select.out", sample("pgbench-15-progress.out")))

    run = campaign.runs.get()
    assert (campaign.kind, campaign.state) == (Campaign.Kind.IMPORTED, Campaign.State.FINISHED)
    assert (run.state, run.outcome, run.cell) == (Run.State.ENDED, Run.Outcome.OK, {"file": "select"})
    assert run.measurements.get(name="tps").value == pytest.approx(54808.230202)
    assert bytes(run.artefacts.get(path="out/measure/stdout").content or b"") == sample("pgbench-15-progress.out")
    assert queries.campaign_table(campaign).levels[0].mean == pytest.approx(54808.230202)


def test_a_host_that_only_results_know_is_an_archive(operator: User) -> None:
    campaign = imported(operator, ("select.out", sample("pgbench-15-progress.out")))

    assert (campaign.host.name, campaign.host.state) == ("the-old-box", "archive")


def test_nothing_but_the_draft_is_written_before_the_commit(operator: User) -> None:
    before = rows()

    draft, _ = services.upload([("select.out", sample("pgbench-15-progress.out"))], by=operator)
    services.preview(draft)

    changed = {label for label, count in rows().items() if count != before[label]}
    assert changed == {"results.Import", "results.ImportedFile", "accounts.AuditEntry"}
    assert Import.objects.get().campaign is None
