"""The whole server with a collector: from the click to the phases on the host, and no secret on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen
from uuid import UUID

import pytest

from apps.results.phases import PHASES
from apps.tracing import exporting
from embedded.demo import campaign
from tests.apps.tracing import collector
from tests.apps.tracing.collector import Collector, Received
from tests.embedded.test_up import logs_in
from tests.servers import ground
from tests.servers.ground import Ground

OPTIONS = {"builtin": "select-only", "scale": 1, "mode": "prepared", "clients": 1, "jobs": 1, "time_s": 1, "rate": 100}
KEY = "key-of-the-collector"
# In addresses: of a feed, and of a link that sets a password.
FEED, TOKEN, PASSWORD = "sesame-feed-4711", "c8a1xz-0123456789abcdef", "a wrong password 4711"
DROPPED = "traces are dropped until the collector"
METRICS_DROPPED = "metrics are dropped until the collector"
EVERY_S = 5
STARTS = '{view="api:campaign-start",method="POST",status="2xx"}'
STOP_S = 8.0  # usually 1 to 2 s; the supervisor kills after 10 s


@dataclass
class Traced:
    """A running server whose spans this process receives, after a campaign of two runs."""

    ground: Ground
    collector: Collector
    campaign: str
    runs: list[dict[str, Any]]

    def of_run(self, number: int) -> list[Received]:
        """The spans of a run."""
        return self.of_trace(UUID(self.runs[number]["id"]).int)

    def of_trace(self, trace: int) -> list[Received]:
        return [span for span in self.collector.spans if span.trace == trace]


@pytest.fixture(scope="module")
def stack() -> Iterator[Traced]:
    with pytest.MonkeyPatch.context() as environment, collector.serve() as receiver:
        environment.setenv("PROVING_OTLP_ENDPOINT", receiver.url)
        environment.setenv("PROVING_OTLP_HEADERS", f"x-key={KEY},x-tenant=a%20b")
        environment.setenv("PROVING_OTLP_METRICS_EVERY_S", str(EVERY_S))
        with ground.prepare() as here:
            _use_secrets(here.stack.base_url)
            ended = _campaign(here)
            runs = here.client.get(f"runs/?campaign={ended}")["results"]
            whole = {UUID(run["id"]).int for run in runs}
            for name in ("campaigns.tick", "run", "results.ingest"):  # of several processes, in any order
                receiver.wait(lambda spans, name=name: whole <= {span.trace for span in spans if span.name == name})
            yield Traced(here, receiver, ended, sorted(runs, key=lambda run: int(run["position"])))


def _use_secrets(url: str) -> None:
    assert not logs_in(url, PASSWORD)
    for path in (f"/feed/{FEED}/timeline.atom", f"/password/Mg/{TOKEN}/"):
        with suppress(HTTPError), urlopen(url + path):
            pass


def _campaign(here: Ground) -> str:
    """The id of an ended campaign of two runs."""
    workload = here.client.post("workloads/", name="traced", kind="pgbench", options=OPTIONS)
    levels = [{"label": "cpu 0", "set": {"settings.cpu_affinity.server": "0"}}]
    fields = {
        "name": "traced",
        "question": "is it traced?",
        "workload": workload["id"],
        "factors": [{"name": "server cpus", "levels": levels}],
        "repetitions": 2,
    }
    ended = campaign.run(here.client, here.host, here.supervisor.check, recipe=None, **fields)
    assert ended["progress"]["failed"] == 0, ended
    return str(ended["id"])


def test_the_click_leads_to_the_run_and_its_task(stack: Traced) -> None:
    (click,) = [span for span in stack.collector.spans if span.name == "POST api:campaign-start"]
    assert (click.service, click.parent) == ("proving-web", 0)
    assert "send campaigns.tick" in click.events
    assert any("db.query.text" in span.attributes for span in stack.of_trace(click.trace))

    (run,) = [span for span in stack.of_run(0) if span.name == "run"]
    ticks = [span for span in stack.of_run(0) if span.name == "campaigns.tick"]

    assert run.parent == 0 and not run.has_failed
    assert run.attributes["proving.run"] == stack.runs[0]["id"]
    assert run.attributes["proving.campaign"] == stack.campaign
    assert {(tick.service, tick.parent) for tick in ticks} == {("proving-dispatcher", run.id)}
    assert (click.trace, click.id) in [link for tick in ticks for link in tick.links]


@pytest.mark.parametrize("number", [0, 1])
def test_the_phases_of_a_run_follow_one_another_from_its_turn_to_its_end(stack: Traced, number: int) -> None:
    (run,) = [span for span in stack.of_run(number) if span.name == "run"]
    phases = sorted((span for span in stack.of_run(number) if span.name in PHASES), key=lambda span: span.began)

    assert [span.name for span in phases] == list(PHASES)
    assert {(span.service, span.parent) for span in phases} == {("proving-worker", run.id)}
    assert phases[0].began == run.began and phases[-1].ended == run.ended
    assert [span.began for span in phases[1:]] == [span.ended for span in phases[:-1]]
    (load,) = [span for span in phases if span.name == "measure"]
    assert 0.5 <= load.ended - load.began < 5 and load.attributes["proving.step"] == "measure"


def test_contact_and_transfer_are_within_the_task(stack: Traced) -> None:
    spans = {span.name: span for span in stack.of_run(0)}
    names = {span.id: span.name for span in stack.of_run(0)}

    assert {names[spans[name].parent] for name in ("send run", "fetch files")} == {"campaigns.tick"}
    assert "send agent" in {span.name for span in stack.collector.spans}, "the host had no agent before"


def test_no_secret_is_sent(stack: Traced) -> None:
    sent = b"".join(stack.collector.batches + stack.collector.metric_batches)
    names = {span.name for span in stack.collector.spans}
    here = stack.ground

    assert {"GET timeline_feed", "GET password_set", "POST login"} <= names, names
    for secret in (FEED, TOKEN, PASSWORD, KEY, here.client.token, *here.stack.secrets.values()):
        assert secret.encode() not in sent
    assert b"PRIVATE KEY" not in sent


def test_the_collector_gets_its_headers_and_the_kind_of_each_process(stack: Traced) -> None:
    received = stack.collector

    assert received.paths == {"/v1/traces", "/v1/metrics"}
    assert {(headers["x-key"], headers["x-tenant"]) for headers in received.headers} == {(KEY, "a b")}
    assert {span.service for span in received.spans} == {"proving-web", "proving-worker", "proving-dispatcher"}
    for service in ("proving-web", "proving-worker"):
        assert len({span.instance for span in received.spans if span.service == service}) <= 2


def test_beat_sends_the_metrics_of_the_instance_at_the_interval(stack: Traced) -> None:
    _wait(lambda: len(stack.collector.metric_batches) >= 3)
    batches = [collector.metrics_of(batch) for batch in stack.collector.metric_batches]
    (counts,) = [metric for metric in batches[-1] if metric.name == "proving_http_request_seconds"]
    page = stack.ground.stack.base_url.partition("//")[2]

    assert {metric.resource["service.instance.id"] for batch in batches for metric in batch} == {page}
    assert counts.samples[f"{counts.name}_count{STARTS}"] == 1
    first, *_, last = [batch[0].points[0].time_unix_nano / 1e9 for batch in batches]
    assert len(batches) <= (last - first) / EVERY_S + 2, "only one process sends them"


def test_a_collector_that_fails_or_never_answers_delays_nothing(stack: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    here, log = stack.ground, stack.ground.supervisor.log("web")
    stack.collector.status = 503
    _wait(lambda: _get(here) and DROPPED in log.read_text())
    assert "status 503" in log.read_text()
    beat = here.supervisor.log("beat")
    _wait(lambda: METRICS_DROPPED in beat.read_text())

    with collector.silent() as url:
        monkeypatch.setenv("PROVING_OTLP_ENDPOINT", url)
        _stop(here)
        here.supervisor.start(here.stack.web)
        _wait(lambda: _get(here) and DROPPED in log.read_text())
        assert max(_get(here) for _ in range(20)) < exporting.SEND_S
        _stop(here)

    for of_web in (log, here.supervisor.log("web.last")):
        assert 1 <= of_web.read_text().count(DROPPED) <= 2, "once in each of two processes"
    assert beat.read_text().count(METRICS_DROPPED) == 1


def _stop(here: Ground) -> None:
    begun = time.monotonic()
    here.supervisor.end("web")
    assert time.monotonic() - begun < STOP_S


def _get(here: Ground) -> float:
    """Seconds of a request that is traced."""
    begun = time.monotonic()
    with urlopen(f"{here.stack.base_url}/login/", timeout=30) as page:
        page.read()
    return time.monotonic() - begun


def _wait(until: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.1)
