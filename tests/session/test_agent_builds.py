"""The agent of tests is the one that servers send, with bytecode."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

from agents import build

SHOW_FILE = "import sys; sys.path.insert(0, sys.argv[1]); import agents.run.session as it; print(it.__file__)"


def test_the_agent_of_tests_runs_bytecode_and_has_the_sources_that_servers_send(tmp_path: Path) -> None:
    agent = tmp_path / "agent.pyz"
    build.build_zipapp(agent)

    argv = [sys.executable, "-I", "-c", SHOW_FILE, str(agent)]
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout

    assert shown == f"{agent}/agents/run/session.pyc\n"
    with zipfile.ZipFile(io.BytesIO(build.zipapp())) as sent, zipfile.ZipFile(agent) as ours:
        sources = {name: sent.read(name) for name in sent.namelist()}
        assert {name: ours.read(name) for name in sources} == sources
        modules = sources.keys() - {"__main__.py", "agents/version.py"}
        assert sorted(ours.namelist()) == sorted([*sources, *(f"{name}c" for name in modules)])
