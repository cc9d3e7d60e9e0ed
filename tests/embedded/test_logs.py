"""With PROVING_LOG_FORMAT=json every line that a process writes is one object, from the first to the last."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

from embedded import commands, paths
from embedded.stack import _free_port


def argv(kind: str, folder: Path, port: int) -> list[str]:
    arguments = {
        "web": commands.web(f"127.0.0.1:{port}"),
        "worker": commands.worker(),
        "dispatcher": commands.dispatcher(),
        "beat": commands.beat(str(folder / "schedule")),
    }
    return [sys.executable, *arguments[kind]]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "ready"),
    [("web", "Booting worker"), ("worker", " ready."), ("dispatcher", " ready."), ("beat", "beat: Starting")],
)
def test_every_line_is_an_object(kind: str, ready: str, tmp_path: Path) -> None:
    port, log = _free_port(8700), tmp_path / "log"
    env = {**os.environ, "PROVING_LOG_FORMAT": "json"}
    with log.open("wb") as out:
        command = argv(kind, tmp_path, port)
        with subprocess.Popen(command, env=env, cwd=paths.CHECKOUT, stdout=out, stderr=out) as process:
            try:
                _wait(log, ready)
                if kind == "web":
                    _ask(port, "/healthz")
                    _ask(port, "/feed/s3cr3t/timeline.atom")
                    _ask(port, "/password/MQ/s3cr3t-1/")
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)

    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    if kind == "web":
        assert [line for line in lines if line["logger"] == "gunicorn.access" and "GET /healthz" in line["message"]]
        assert not [line for line in lines if "ontrol" in line["message"]]
        assert "/feed/[secret]/timeline.atom" in log.read_text() and "s3cr3t" not in log.read_text()


def _wait(log: Path, message: str) -> None:
    until = time.monotonic() + 120
    while message not in log.read_text():
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.2)


def _ask(port: int, path: str) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            connection = HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", path)
            assert connection.getresponse().status < 500
            return
        except OSError:
            time.sleep(0.5)
    raise AssertionError("the web server does not answer")
