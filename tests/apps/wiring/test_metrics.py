"""/metrics: access, correct figures, and that the dashboard and the alerts use only existing metrics."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps import logs
from apps.campaigns.models import Run
from apps.celery import app
from apps.hosts.models import Host
from apps.monitoring import latencies
from tests.rows import filled, populate

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
LABEL = r'[a-z_]+="(?:[^"\\]|\\.)*"'
SAMPLE = re.compile(rf"^([a-z_]+)(\{{{LABEL}(?:,{LABEL})*\}})? (-?[0-9.e+-]+)$")


def scrape(**headers: str) -> dict[str, float]:
    """Every sample by its name and labels."""
    answer = Client().get("/metrics", **headers)  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.content
    lines = [line for line in answer.content.decode().splitlines() if not line.startswith("#")]
    matches = [SAMPLE.match(line) for line in lines]
    assert all(matches), lines
    return {f"{match[1]}{match[2] or ''}": float(match[3]) for match in matches if match}


def metrics_in(text: str) -> set[str]:
    """Those that a rule or a panel names; a histogram by its own name."""
    return {re.sub("_(bucket|count|sum)$", "", each) for each in re.findall(r"\bproving_[a-z_]+", text)}


@pytest.mark.django_db
def test_metrics_count_runs_queues_and_notifications() -> None:
    team = filled.team()

    samples = scrape()

    waiting = team["running"].runs.filter(state=Run.State.QUEUED).count()
    assert samples['proving_queue_length{host="bench-02"}'] == waiting > 0
    assert samples['proving_runs{state="running"}'] == Run.objects.filter(state=Run.State.RUNNING).count()
    assert samples["proving_notifications_pending"] == 1
    assert samples["proving_notifications_failed"] == 1
    assert samples["proving_broker_up"] == 1
    assert samples["proving_tick_lag_seconds"] > 0


@pytest.mark.django_db
def test_a_host_in_quarantine_is_counted() -> None:
    host = populate.host()
    Host.objects.filter(pk=host.pk).update(state=Host.State.QUARANTINED)

    assert scrape()["proving_hosts_quarantined"] == 1


@pytest.mark.django_db
def test_without_a_broker_the_other_metrics_are_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.conf, "broker_write_url", "redis://127.0.0.1:1/0")

    samples = scrape()

    assert samples["proving_broker_up"] == 0
    assert "proving_database_bytes" in samples


@pytest.mark.django_db
def test_the_number_of_queries_of_metrics_does_not_grow_with_rows(django_assert_max_num_queries: Any) -> None:
    filled.team()

    with django_assert_max_num_queries(18):
        scrape()


@pytest.mark.django_db
@pytest.mark.parametrize("headers", [{}, {"HTTP_AUTHORIZATION": "Bearer wrong"}, {"HTTP_AUTHORIZATION": "secret-1"}])
def test_a_configured_token_is_required_from_any_address(settings: Any, headers: dict[str, str]) -> None:
    settings.METRICS_TOKEN = "secret-1"

    refused = Client().get("/metrics", **headers)  # type: ignore[arg-type]

    assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert scrape(HTTP_AUTHORIZATION="Bearer secret-1", REMOTE_ADDR="10.1.2.3")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"REMOTE_ADDR": "::1"}, 200),
        ({"REMOTE_ADDR": "10.1.2.3"}, 401),
        ({"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": "10.1.2.3"}, 401),
        ({"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_PROTO": "https"}, 401),
        ({"REMOTE_ADDR": ""}, 401),
    ],
)
def test_without_a_token_only_the_machine_itself_is_answered(sent: dict[str, str], status: int) -> None:
    assert Client().get("/metrics", **sent).status_code == status  # type: ignore[arg-type]


@pytest.mark.django_db
@pytest.mark.parametrize("file", [DEPLOY / "alerts.yml", DEPLOY / "grafana.json"], ids=lambda each: each.name)
def test_every_metric_that_the_dashboard_and_the_alerts_name_is_exported(file: Path) -> None:
    populate.host()
    named = metrics_in(file.read_text())
    text = Client().get("/metrics").content.decode()

    assert named
    assert named <= set(re.findall(r"^# TYPE (\w+) (?:gauge|histogram)$", text, re.MULTILINE))


def test_the_dashboard_shows_every_metric() -> None:
    panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]

    targets = [target for panel in panels if panel["type"] != "row" for target in panel["targets"]]
    shown = {name for target in targets for name in metrics_in(target["expr"])}

    source = (DEPLOY.parent / "apps" / "monitoring" / "metrics.py").read_text()
    assert shown == {*re.findall(r'Gauge\(\s*"(\w+)"', source), latencies.NAME}


def test_a_line_of_json_carries_its_run_and_its_error() -> None:
    formatter = logs.JsonFormatter()

    with logs.about("5f0c"):
        try:
            raise ValueError("no")
        except ValueError as error:
            known = (ValueError, error, error.__traceback__)
        record = logging.LogRecord("apps.campaigns", logging.WARNING, "x.py", 1, "put off %s\n", ("again",), known)
        inside = json.loads(formatter.format(record))
    outside = json.loads(formatter.format(logging.LogRecord("a", logging.INFO, "x.py", 1, "idle", (), None)))

    assert (inside["run"], inside["level"], inside["message"]) == ("5f0c", "WARNING", "put off again\n")
    assert "ValueError: no" in inside["error"]
    assert "run" not in outside and "error" not in outside
