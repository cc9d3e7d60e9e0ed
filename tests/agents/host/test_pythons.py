"""The agent on each Python 3.9 to 3.13 of this machine: only the standard library, and the same results."""

from __future__ import annotations

import ast
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.build import SOURCES, zipapp
from tests.agents.conftest import postgres_processes
from tests.agents.driver import MOST_BYTES, OK, Connection, of

Spec = Callable[..., dict[str, Any]]
Open = Callable[[], Connection]
HERE = Path(__file__).parents[1]
VERSIONS = [f"3.{minor}" for minor in range(9, 14)]
IN_VAIN = {"org", "_wmi"}  # the standard library's own questions: is this Jython, is this Windows?
# What -X importtime writes for each module that is imported: "import time:   self |  cumulative | name".
IMPORTED = re.compile(r"^import time:.*\| +([\w.]+)$", re.MULTILINE)


# Runs a zipapp, then writes how often each of its files was compiled.
COUNT = """
import builtins, collections, json, runpy, sys
compiled, compile = collections.Counter(), builtins.compile
def counted(source, name, *more, **options):
    compiled[str(name)] += str(name).startswith(sys.argv[0] + "/agents/")
    return compile(source, name, *more, **options)
builtins.compile = counted
del sys.argv[0]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    print(json.dumps(+compiled), file=sys.stderr)
"""


def interpreter(version: str) -> str:
    """The first one that works: below pyenv's root, on the PATH (where pyenv's slow shims may refuse), or the one that
    runs the tests; "" if there is none."""
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    candidates = [
        *sorted(glob.glob(f"{root}/versions/{version}.*/bin/python{version}")),
        shutil.which(f"python{version}"),
        getattr(sys, "_base_executable", sys.executable),
    ]
    return next((path for path in candidates if path and _answers(path, version)), "")


def _answers(path: str, version: str) -> bool:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    completed = subprocess.run([path, "-I", "-c", code], capture_output=True, text=True, timeout=30)
    return completed.stdout.strip() == version


PYTHONS = {version: interpreter(version) for version in VERSIONS}
PRESENT = [pytest.param(path, id=version) for version, path in PYTHONS.items() if path]
RUNNING = f"3.{sys.version_info.minor}"
on_each = pytest.mark.parametrize("python", PRESENT)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent as servers send it: without bytecode, which only one version could use."""
    target = tmp_path_factory.mktemp("agent") / "agent.pyz"
    target.write_bytes(zipapp())
    return target


def ask(python: str, *argv: str) -> str:
    """What it prints; any warning of its own is an error."""
    done = subprocess.run([python, "-W", "error", *argv], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_missing_python_versions_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    missing = [version for version, path in PYTHONS.items() if not path]

    with capsys.disabled():
        sys.stdout.write(f"\nPython {', '.join(VERSIONS)}; not on this machine: {', '.join(missing) or 'none'} ")
    assert RUNNING not in missing


def test_the_agent_is_small(capsys: pytest.CaptureFixture[str]) -> None:
    size = len(zipapp())

    with capsys.disabled():
        sys.stdout.write(f"\nthe agent: {size} bytes ")
    assert size < MOST_BYTES


def test_each_module_of_the_agent_is_compiled_once_per_connection(program: Path) -> None:
    shown = subprocess.run([sys.executable, "-I", "-c", COUNT, program, "version"], capture_output=True, check=True)

    compiled = json.loads(shown.stderr)
    assert len(compiled) > 3 and set(compiled.values()) == {1}


@pytest.mark.thorough
def test_every_import_in_the_sources_is_of_the_standard_library_or_its_own() -> None:
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            foreign = {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"agents"}
            assert not foreign, f"{path} imports {foreign}"


@on_each
def test_the_agent_compiles_without_a_warning(python: str, tmp_path: Path) -> None:
    sources = shutil.copytree(SOURCES, tmp_path / "agents", ignore=shutil.ignore_patterns("__pycache__"))

    ask(python, "-I", "-m", "compileall", "-q", "-f", str(sources))


@pytest.mark.thorough
@on_each
def test_plans_and_frames_are_the_same_on_every_python(python: str, program: Path) -> None:
    script = [str(HERE / "on_python.py"), str(program), str(HERE / "cases")]

    answer = json.loads(ask(python, "-I", *script))

    assert answer == json.loads(ask(sys.executable, "-I", *script))
    assert answer["wire"]["intact"] and len(answer["modules"]) > 30


@pytest.fixture
def open_on(program: Path, tmp_path: Path) -> Iterator[Callable[[str], Connection]]:
    """Opens connections to an agent that an interpreter runs without its site-packages. tmp_path/imported lists its
    imports."""
    opened: list[Connection] = []

    def open_on(python: str) -> Connection:
        with (tmp_path / "imported").open("ab") as log:
            argv = [python, "-S", "-X", "importtime", "-W", "error"]
            opened.append(Connection(program, tmp_path / "spool", python=argv, stderr=log))
        return opened[-1]

    yield open_on
    for connection in opened:
        connection.close()


@on_each
def test_a_whole_run_imports_nothing_else(
    open_on: Callable[[str], Connection], python: str, spec: Spec, tmp_path: Path, data_dir: Path
) -> None:
    settings = {"cpu_affinity": {"server": "0", "client": "0"}, "postgresql": {"work_mem": "5MB"}}
    first = open_on(python)
    run = first.submit(spec(settings, time_s=1))
    first.process.kill()

    # Another connection takes the run over, as a server's next worker does.
    agent = open_on(python)
    hello, events = agent.call("hello"), agent.events(run)

    assert hello["python"].startswith(".".join(ask(python, "-I", "-V").split()[1].split(".")[:2]))
    assert of(events, "outcome") == [OK]
    assert all(proof["ok"] for proof in of(events, "proof")) and of(events, "proof", phase="during")
    assert not postgres_processes(data_dir)
    facts = agent.call("facts")
    assert agent.call("ack", run=run, manifest=agent.manifest(run)[1])["state"] == "ACKED" and facts["level"]
    # The detached run writes to a log of its own.
    logs = [(tmp_path / "imported").read_text(), (tmp_path / f"spool/jobs/{run}/agent.log").read_text()]
    names = {name.split(".")[0] for log in logs for name in IMPORTED.findall(log)}
    assert "agents" in names
    assert names - standard_library(python) <= {"agents", *IN_VAIN}


def standard_library(python: str) -> set[str]:
    """Modules of this Python's standard library. For 3.9, those of a newer Python and removed ones."""
    code = "import sys, json; print(json.dumps(sorted(getattr(sys, 'stdlib_module_names', []))))"
    return set(json.loads(ask(python, "-I", "-c", code))) or sys.stdlib_module_names | {"_bootlocale", "_sha256"}


@on_each
def test_a_killed_run_is_restored(
    open_on: Callable[[str], Connection], python: str, spec: Spec, tmp_path: Path, data_dir: Path
) -> None:
    agent = open_on(python)
    run = agent.submit(spec({"cpu_affinity": {"server": "0"}}, time_s=60))
    agent.events(run, until="RUNNING")
    time.sleep(0.3)
    newest = json.loads((tmp_path / f"spool/jobs/{run}/state.jsonl").read_text().splitlines()[-1])
    os.kill(newest["pid"], signal.SIGKILL)

    hello = open_on(python).call("hello")

    assert (hello["busy"], hello["dirty"]) == (None, [])
    assert of(agent.events(run), "outcome")[0]["outcome"] == "interrupted"
    assert not postgres_processes(data_dir)
