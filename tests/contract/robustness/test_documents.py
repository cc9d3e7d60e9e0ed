"""JSON and YAML of other authors: documents that would make a parser slow or fail are refused at once."""

from __future__ import annotations

import ast
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from apps.campaigns.recipes.reading import parse
from apps.documents import DEEPEST, read_json, read_yaml
from apps.results.imports.files import File
from apps.results.imports.manifest import read_manifest
from common.errors import FormatError, PlanError
from embedded import paths

BRACKETS = "[" * 100_000
QUICK_S = 5.0
CLOSED = BRACKETS + "]" * 100_000
ENDLESS = {"lists": BRACKETS, "mappings": "{a: " * 100_000, "items": "- " * 100_000, "keys": "? " * 100_000}
ENDLESS_JSON = {"open": BRACKETS, "closed": CLOSED, "objects": '{"a":' * 100_000, "60": "[" * 60 + "]" * 60}


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
def test_brackets_without_end_are_refused_at_once(text: str) -> None:
    began = time.process_time()

    for read in (read_yaml, parse, lambda text: read_manifest(File("manifest.yaml", text.encode()))):
        with pytest.raises((yaml.YAMLError, ValueError, PlanError, FormatError)):
            read(text)

    assert time.process_time() - began < QUICK_S


@pytest.mark.parametrize("text", ENDLESS_JSON.values(), ids=ENDLESS_JSON)
def test_json_without_an_end_is_refused_at_once(text: str) -> None:
    began = time.process_time()

    with pytest.raises(ValueError):
        read_json(text)

    assert time.process_time() - began < QUICK_S


def test_a_document_of_the_maximum_depth_is_read() -> None:
    text = "[" * DEEPEST + "]" * DEEPEST

    assert read_json(text) == read_yaml(text)


@given(st.text(alphabet="[]{}:,-?*&!|>'\"# \n\tab1\u0000", max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (read_yaml, read_json):
        try:
            read(text)
        except (yaml.YAMLError, ValueError):
            continue


@pytest.mark.parametrize("text", ["{[1]: 2}", "{? {a: 1} : 2}", "a: 1\na: 2", "a: &x 1\nb: *x"])
def test_invalid_keys_duplicate_keys_and_aliases_are_refused(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        read_yaml(text)


PRODUCT = ("agents", "apps", "cli", "common", "deploy", "embedded", "readers", "stats")
OWN_LOADERS = {
    "apps/documents.py": "it is the strict loader",
    "apps/searches/presets.py": "it reads files of this repository only",
}


def loads_yaml(file: Path) -> bool:
    """Whether a module calls a loader of PyYAML, or imports names from it."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
    imported = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    return "yaml" in imported or any(name.startswith("yaml.") and "load" in name for name in called)


def test_yaml_of_other_authors_is_read_by_the_strict_loader_only() -> None:
    """JSON is parsed in dozens of modules, most of which read what the server or the agent has written itself."""
    modules = [file for folder in PRODUCT for file in sorted((paths.CHECKOUT / folder).rglob("*.py"))]

    assert [str(file.relative_to(paths.CHECKOUT)) for file in modules if loads_yaml(file)] == list(OWN_LOADERS)
