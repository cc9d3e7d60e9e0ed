"""The web server loads all modules and templates before it serves: a page that loads one would wait for it, and later
for garbage collection to look through it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.template import engines

from apps import preload

ROOT = Path(__file__).parents[3]
OURS = ("agents", "apps", "common", "embedded", "readers", "stats")
# Only the function that proposes candidates imports it, in a worker.
OF_WORKERS = ("optuna",)


@pytest.mark.thorough
def test_modules_that_functions_import_are_loaded_before() -> None:
    elsewhere = (*sys.stdlib_module_names, *OURS, *OF_WORKERS)
    imported = {name for name in _imported_by_functions() if name.split(".")[0] not in elsewhere}

    assert sorted(imported) == list(preload.MODULES)


def test_templates_are_compiled_before() -> None:
    loader = engines["django"].engine.template_loaders[0]  # type: ignore[attr-defined]
    loader.reset()

    preload.load_pages()

    assert "results/campaign/page.html" in loader.get_template_cache
    assert len(loader.get_template_cache) >= len(list((ROOT / "templates").rglob("*.html")))


def _imported_by_functions() -> Iterator[str]:
    """The modules of other packages that a function of the server imports."""
    for path in [path for folder in ("apps", "stats", "readers", "common") for path in (ROOT / folder).rglob("*.py")]:
        tree = ast.parse(path.read_text())
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        for node in [node for function in functions for node in ast.walk(function)]:
            if isinstance(node, ast.Import):
                yield from (each.name for each in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                package = "." not in node.module  # `from scipy import stats` imports a module
                yield from (f"{node.module}.{each.name}" if package else node.module for each in node.names)
