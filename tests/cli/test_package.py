"""A distribution of its own, which knows nothing of the server's code."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.program import CLI

MODULES = sorted((CLI / "proving").glob("*.py"))
DECLARED = tomllib.loads((CLI / "pyproject.toml").read_text())["project"]


def imported(module: Path) -> set[str]:
    """The first words of what a module imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found |= {name.partition(".")[0] for name in names}
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda each: each.name)
def test_it_imports_the_standard_library_and_what_it_declares(module: Path) -> None:
    declared = {each.partition(">")[0] for each in DECLARED["dependencies"]}

    assert imported(module) - sys.stdlib_module_names - {"proving"} <= declared


def test_it_is_built_and_installed_by_itself(tmp_path: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    build = [uv, "build", "--offline", "--wheel", "--out-dir", tmp_path, CLI]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    install = [uv, "pip", "install", "--offline", "--no-deps", "--target", tmp_path / "there", wheel]
    subprocess.run(install, check=True, capture_output=True, timeout=120)

    program = [tmp_path / "there" / "bin" / "proving", "--help"]
    env = {"PYTHONPATH": str(tmp_path / "there")}
    said = subprocess.run(program, check=True, capture_output=True, text=True, env=env, cwd=tmp_path, timeout=60).stdout

    assert "fail a pipeline on a regression" in " ".join(said.replace("│", " ").split())
    assert (
        "proving/py.typed"
        in subprocess.run(
            [sys.executable, "-m", "zipfile", "-l", wheel], capture_output=True, text=True, check=True
        ).stdout
    )
