"""A real run of several steps: warm-up steps are sampled, measured steps have results, in order."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import User
from apps.hosts.models import Host
from apps.results import queries
from tests.servers import campaigns

pytestmark = pytest.mark.django_db(transaction=True)


def step(name: str, role: str, **options: Any) -> dict[str, Any]:
    return {"name": name, "role": role, "kind": "pgbench", "options": campaigns.CALM | {"time_s": 1} | options}


def test_steps_run_in_order_and_only_measured_ones_yield_results(host: Host, admin: User) -> None:
    steps = [step("warm", "warm"), step("idx1", "measure"), step("idx2", "measure", clients=1)]

    campaign = campaigns.finish(campaigns.start(host, admin, steps=steps, metric="idx2.latency_avg"))

    run = campaign.runs.get()
    assert (run.outcome, run.error) == ("ok", None)
    looked_at = run.events.filter(kind="measured").order_by("seq").values_list("data__step", flat=True)
    assert list(looked_at) == ["warm", "idx1", "idx2"]
    assert set(run.measurements.values_list("step", flat=True)) == {"idx1", "idx2"}
    table = queries.campaign_table(campaign)
    assert table.levels[0].points[0].value == run.measurements.get(step="idx2", name="latency_avg").value
