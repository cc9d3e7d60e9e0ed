"""Traces in processes of their own: forked ones, ones that stop, and ones without a collector."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from apps.tracing import exporting
from tests.apps.tracing import collector

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.thorough
SETUP = """
import os, sys, django
django.setup()
"""
FORKED = f"""{SETUP}
from apps.tracing import sdk
def record(name):
    with sdk.begun(name):
        pass
record("before")
for number in range(2):
    if not os.fork():
        record(f"child {{number}}")
        sdk.stop()
        os._exit(0)
    os.wait()
record("after")
"""
SEND_S = 60.0  # so that waiting for the collector differs from the pauses of a busy machine
SILENT = f"""{SETUP}
import time
from apps.tracing import exporting, sdk
exporting.EVERY_S, exporting.SEND_S = 0.1, {SEND_S}
sdk.tracer()
begun = time.monotonic()
with sdk.begun("span"):
    pass
print(time.monotonic() - begun)
time.sleep(0.5)  # the thread has begun to send
begun = time.monotonic()
sdk.stop()
print(time.monotonic() - begun)
"""
OFF = f"""{SETUP}
import apps.urls, apps.campaigns.tasks, apps.results.tasks
from apps import tracing
with tracing.span("nothing"):
    print(sorted(name for name in sys.modules if name.split(".")[0] in ("opentelemetry", "google")))
"""


def run(program: str, url: str) -> str:
    """The output of a process that sends its traces to `url`."""
    env = {**os.environ, "PROVING_OTLP_ENDPOINT": url}
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, env=env, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout + done.stderr


def test_each_forked_process_sends_its_own_spans_once() -> None:
    with collector.serve() as receiver:
        run(FORKED, receiver.url)
        spans = receiver.spans

    assert sorted(span.name for span in spans) == ["after", "before", "child 0", "child 1"]
    assert len({span.instance for span in spans}) == 3
    assert len({span.id for span in spans}) == len({span.trace for span in spans}) == 4


def test_a_span_and_the_stop_do_not_wait_for_a_collector_that_never_answers() -> None:
    with collector.silent() as url:
        span_s, stop_s = map(float, run(SILENT, url).split())

    assert span_s < SEND_S / 3 and stop_s < exporting.STOP_S + SEND_S / 3


def test_a_collector_that_refuses_is_logged_once_and_again_when_it_accepts() -> None:
    program = f"""{SETUP}
from apps.tracing import exporting, sdk
exporting.PAUSE_S = 0
from urllib.request import urlopen
for status in (503, 503, 302, 200, 200):
    urlopen(f"{{sys.argv[1]}}/{{status}}", data=b"").close()
    with sdk.begun("span"):
        pass
    sdk._Process.provider.force_flush()
"""
    with collector.serve() as receiver:
        output = run(program.replace("sys.argv[1]", repr(receiver.url)), receiver.url)

    assert output.count("traces are dropped until the collector") == 1 and "status 503" in output
    assert output.count("traces are sent again; 3 spans were dropped") == 1
    assert [span.name for span in receiver.spans] == ["span"] * 2


def test_without_a_collector_nothing_of_opentelemetry_is_imported() -> None:
    output = run(OFF, "")

    assert output.strip() == "[]"
