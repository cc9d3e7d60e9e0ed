"""docs/pipeline.sh with a server, its worker and a host over SSH."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli import session
from tests.cli.program import Program
from tests.servers.ground import Ground

PIPELINE = Path(__file__).parents[3] / "docs" / "pipeline.sh"
QUICK = ["--set", "workload.time_s=2", "--set", "workload.scale=1"]
HARMLESS = ["settings.postgresql.vacuum_cost_page_hit=1,2"]


@pytest.fixture
def shell(ground: Ground, tmp_path: Path) -> Program:
    """One that has a token, as a pipeline gets it from its secrets."""
    variables = {"HOST": ground.host["name"], "REPETITIONS": "3", "REPORT": str(tmp_path / "report.html")}
    return Program(tmp_path, ground.stack.base_url, ground.client.token, variables)


def pipeline(shell: Program, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = ["/bin/sh", str(PIPELINE), *arguments, *QUICK]
    return subprocess.run(argv, env=shell.environment(), capture_output=True, text=True, timeout=300, cwd=shell.home)


def test_the_session_of_the_documents_ends_with_the_pipeline_that_fails_with_3(ground: Ground, tmp_path: Path) -> None:
    transcript = session.record(ground, tmp_path)

    assert [code for _, code, _ in transcript] == [code for _, code in session.SESSION], session.written(transcript)
    command, code, output = transcript[-1]
    assert ("docs/pipeline.sh" in command, code) == (True, 3)
    assert "20000 is worse than 0: tps" in " ".join(output.split())
    assert "running: 0/6 runs" in output
    assert "20000" in (tmp_path / "report.html").read_text()


def test_a_change_that_costs_nothing_passes(shell: Program) -> None:
    shell.env["DELTA"] = "50"

    done = pipeline(shell, *HARMLESS, "--set", "workload.rate=200")  # leaves the CPUs to the tests beside it

    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "6/6 runs" in done.stdout


def test_an_impossible_change_is_refused_before_anything_runs(shell: Program) -> None:
    done = pipeline(shell, "settings.postgresql.shared_buffer=1GB,2GB")

    assert done.returncode == 2
    assert "shared_buffer" in done.stderr and "accepted: " in done.stderr
