"""The metrics that are sent to a collector are those of /metrics, and no page or run waits for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from apps.accounts.models import Team
from apps.hosts.models import Host
from apps.monitoring import latencies
from apps.monitoring.metric_push import Pusher
from apps.tracing import exporting
from tests.apps.tracing import collector
from tests.apps.tracing.collector import Collector
from tests.apps.wiring.test_metrics import scrape
from tests.rows import filled, populate

ROOT = Path(__file__).resolve().parents[3]
KEY = "key-of-the-collector"
DROPPED, AGAIN = "metrics are dropped until", "metrics are sent again"
BEAT = """
import sys, threading, time, django
django.setup()
from celery.signals import beat_init
import apps.celery
beat_init.send(sender=None)
time.sleep(float(sys.argv[1]))
print([thread.name for thread in threading.enumerate()], "opentelemetry.sdk.metrics" in sys.modules)
"""
TWO_BATCHES = """
import sys, django
django.setup()
from apps.monitoring.metric_push import Pusher
pusher = Pusher(sys.argv[1], {}, "")
print(pusher.push(), pusher.push())
"""


@pytest.fixture
def receiver() -> Iterator[Collector]:
    with collector.serve() as serving:
        yield serving


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "SEND_S", 1.0)


def pusher(receiver: Collector) -> Pusher:
    return Pusher(f"{receiver.url}/v1/metrics", {"x-key": KEY}, "")


def in_a_process(program: str, argument: str, **variables: str) -> str:
    argv, environment = [sys.executable, "-c", program, argument], {**os.environ, **variables}
    done = subprocess.run(argv, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout + done.stderr


@pytest.mark.django_db
def test_the_collector_gets_every_sample_of_the_metrics_page(receiver: Collector) -> None:
    filled.team()
    scrape()  # its own request is a sample of the next one

    before = scrape()
    assert pusher(receiver).push()
    after = scrape()

    pushed = {name: value for metric in receiver.metrics for name, value in metric.samples.items()}
    assert pushed.keys() == before.keys() == after.keys()
    # Ages, and requests such as these, grow meanwhile.
    assert {name: value for name, value in pushed.items() if not before[name] <= value <= after[name]} == {}


@pytest.mark.django_db
def test_a_metric_has_the_name_the_help_and_the_type_of_the_metrics_page(receiver: Collector) -> None:
    filled.team()
    scrape()

    pusher(receiver).push()

    page = Client().get("/metrics").content.decode()
    described = dict(re.findall(r"^# HELP (\w+) (.+)$", page, re.MULTILINE))
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", page, re.MULTILINE))
    assert {metric.name: metric.help for metric in receiver.metrics} == described
    assert {metric.name: metric.kind for metric in receiver.metrics} == kinds


@pytest.mark.django_db
def test_times_and_sizes_have_units_and_numbers_have_none(receiver: Collector) -> None:
    scrape()

    pusher(receiver).push()

    units = {metric.name: metric.unit for metric in receiver.metrics}
    assert {name: unit for name, unit in units.items() if unit} == {
        "proving_tick_lag_seconds": "s",
        "proving_notifications_oldest_seconds": "s",
        "proving_database_bytes": "By",
        "proving_http_request_seconds": "s",
    }


@pytest.mark.django_db
def test_durations_of_requests_are_cumulative_since_they_are_counted(receiver: Collector) -> None:
    latencies._redis().delete(latencies.REDIS_KEY, latencies._began_key())
    began = time.time_ns()
    scrape()

    for _ in range(2):
        pusher(receiver).push()

    batches = [collector.metrics_of(batch) for batch in receiver.metric_batches]
    (first,), (second,) = [[metric for metric in batch if metric.name == latencies.NAME] for batch in batches]
    assert first.is_cumulative and second.is_cumulative
    (start,) = {point.start_time_unix_nano for metric in (first, second) for point in metric.points}
    assert began <= start <= first.points[0].time_unix_nano < second.points[0].time_unix_nano


@pytest.mark.django_db
def test_after_redis_was_emptied_the_durations_have_a_new_start(receiver: Collector) -> None:
    scrape()
    pusher(receiver).push()

    latencies._redis().delete(latencies.REDIS_KEY, latencies._began_key())
    scrape()
    pusher(receiver).push()

    batches = [collector.metrics_of(batch) for batch in receiver.metric_batches]
    starts = [
        {point.start_time_unix_nano for metric in batch if metric.name == latencies.NAME for point in metric.points}
        for batch in batches
    ]
    assert max(starts[0]) < min(starts[1])


@pytest.mark.django_db
def test_every_batch_has_the_identity_of_the_instance_and_the_headers(receiver: Collector) -> None:
    for _ in range(2):
        pusher(receiver).push()

    resources = [metric.resource for batch in receiver.metric_batches for metric in collector.metrics_of(batch)]
    assert {(each["service.name"], each["service.instance.id"]) for each in resources} == {
        ("proving-ground", settings.BASE_URL.partition("//")[2])
    }
    assert receiver.paths == {"/v1/metrics"}
    assert [headers["x-key"] for headers in receiver.headers] == [KEY, KEY]


@pytest.mark.django_db
def test_neither_names_of_private_teams_nor_secrets_are_sent(receiver: Collector) -> None:
    hidden = populate.host("sesame-01")
    Host.objects.filter(pk=hidden.pk).update(team=Team.objects.create(name="sesame team", private=True))
    populate.host("bench-02")

    pusher(receiver).push()

    (queues,) = [metric for metric in receiver.metrics if metric.name == "proving_queue_length"]
    assert set(queues.samples) == {
        'proving_queue_length{host="(private)"}',
        'proving_queue_length{host="bench-02"}',
    }
    (sent,) = receiver.metric_batches
    for secret in ("sesame", KEY, settings.SECRET_KEY, settings.DATABASES["default"]["PASSWORD"], *settings.SSH_KEYS):
        assert not secret or secret.encode() not in sent


@pytest.mark.django_db
@pytest.mark.usefixtures("impatient")
def test_a_collector_that_refuses_is_asked_again_with_the_next_batch(
    receiver: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    sender = pusher(receiver)

    receiver.status = 503
    refused = [sender.push(), sender.push()]
    receiver.status = 200
    accepted = [sender.push(), sender.push()]

    assert (refused, accepted) == ([False, False], [True, True])
    assert len(receiver.metric_batches) == 2
    assert caplog.text.count(DROPPED) == 1
    assert f"the collector {receiver.url}/v1/metrics accepts them: status 503" in caplog.text
    assert caplog.text.count(f"{AGAIN}; 2 batches were dropped") == 1


@pytest.mark.django_db
@pytest.mark.usefixtures("impatient")
def test_a_collector_that_never_answers_is_given_up_and_asked_again(receiver: Collector) -> None:
    sender = pusher(receiver)

    receiver.hangs = True
    begun = time.monotonic()
    is_sent = sender.push()
    duration_s = time.monotonic() - begun
    receiver.hangs = False

    assert not is_sent and duration_s < 10
    assert sender.push()
    assert len(receiver.metric_batches) == 1


@pytest.mark.thorough
def test_without_postgresql_nothing_is_sent_and_the_log_says_so_once(receiver: Collector) -> None:
    output = in_a_process(TWO_BATCHES, receiver.url, PROVING_DATABASE_URL="postgres://127.0.0.1:1/none")

    assert "False False" in output
    assert output.count("metrics are dropped until PostgreSQL answers: OperationalError") == 1
    assert receiver.metric_batches == []


@pytest.mark.thorough
def test_without_an_interval_beat_sends_nothing(receiver: Collector) -> None:
    output = in_a_process(BEAT, "1", PROVING_OTLP_ENDPOINT=receiver.url)

    assert output.strip().splitlines()[-1] == "['MainThread'] False"
    assert receiver.metric_batches == []


@pytest.mark.thorough
def test_with_an_interval_beat_sends_from_a_thread(receiver: Collector) -> None:
    output = in_a_process(BEAT, "0", PROVING_OTLP_ENDPOINT=receiver.url, PROVING_OTLP_METRICS_EVERY_S="5")

    assert output.strip().splitlines()[-1] == "['MainThread', 'metric push'] True"
