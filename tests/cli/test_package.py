"""A distribution of its own, which knows nothing of the server's code."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import CLI

BUNDLED = {"common", "readers", "stats"}  # the wheel carries them
MODULES = sorted((CLI / "proving").glob("**/*.py"))
DECLARED = tomllib.loads((CLI / "pyproject.toml").read_text())["project"]


def imported(module: Path) -> set[str]:
    """The top-level names that a module imports."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        modules |= {name.partition(".")[0] for name in names}
    return modules


@pytest.mark.parametrize("module", MODULES, ids=lambda each: each.name)
def test_it_imports_only_the_standard_library_and_declared_dependencies(module: Path) -> None:
    declared = {dependency.partition(">")[0] for dependency in DECLARED["dependencies"]}

    assert imported(module) - sys.stdlib_module_names - {"proving"} - BUNDLED <= declared


def test_readers_import_the_standard_library_only() -> None:
    modules = [*(CLI.parent / "readers").glob("**/*.py"), CLI.parent / "agents" / "wire" / "histogram.py"]

    imports = set().union(*map(imported, modules))

    assert imports - sys.stdlib_module_names == {"readers", "common", "agents"}


@pytest.mark.thorough
def test_the_wheel_parses_and_compares_without_the_checkout(tmp_path: Path) -> None:
    there, samples = installed(tmp_path), CLI.parent / "tests" / "samples"
    output = samples / "pgbench-15-transactions.out"
    argv = {
        "parse": ["parse", output, "--json"],
        "stat": ["stat", output, output, output, "vs", output, output, output, "--json"],
    }

    run = {name: proving(there, *arguments) for name, arguments in argv.items()}
    where = subprocess.run(
        [
            sys.executable,
            "-c",
            "import proving; import readers, stats; print(stats.__file__)",
        ],
        **shell(there),
    ).stdout

    assert json.loads(run["parse"].stdout)[0]["result"]["tps"] == 5818.407502
    assert json.loads(run["stat"].stdout)["figures"][0]["figure"] == "tps"
    assert where.strip() == str(there / "proving" / "bundled" / "stats" / "__init__.py")


def test_the_same_sources_give_the_same_wheel(tmp_path: Path) -> None:
    first, second = (built(tmp_path / name, SOURCE_DATE_EPOCH="1795221741") for name in ("a", "b"))

    assert first.read_bytes() == second.read_bytes()


def built(folder: Path, **environment: str) -> Path:
    uv = Path(sys.executable).with_name("uv")
    argv = [uv, "build", "--offline", "--wheel", "--out-dir", folder, CLI]
    subprocess.run(argv, check=True, capture_output=True, timeout=120, env={**os.environ, **environment})
    (wheel,) = folder.glob("*.whl")
    return wheel


def installed(tmp_path: Path) -> Path:
    uv, there = Path(sys.executable).with_name("uv"), tmp_path / "there"
    install = [uv, "pip", "install", "--offline", "--no-deps", "--target", there, built(tmp_path)]
    subprocess.run(install, check=True, capture_output=True, timeout=120)
    return there


def shell(there: Path) -> dict[str, Any]:
    """A shell without the checkout, with the packages of this environment."""
    env = {"PYTHONPATH": str(there)}
    return {"check": True, "capture_output": True, "text": True, "env": env, "cwd": there.parent, "timeout": 120}


def proving(there: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([there / "bin" / "proving", *map(str, arguments)], **shell(there))


def test_it_is_built_and_installed_by_itself(tmp_path: Path) -> None:
    there = installed(tmp_path)
    (wheel,) = tmp_path.glob("*.whl")

    help_text = proving(there, "--help").stdout

    assert "fail a pipeline on a regression" in " ".join(help_text.replace("│", " ").split())
    assert (
        "proving/py.typed"
        in subprocess.run(
            [sys.executable, "-m", "zipfile", "-l", wheel], capture_output=True, text=True, check=True
        ).stdout
    )
