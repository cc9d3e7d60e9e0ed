"""The documents agree with the code that they describe: links, commands, variables and recipes exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agents.settings import SETTINGS, Setting
from apps.campaigns import recipes
from readers.formats import FORMATS
from tests.documents import settings_table
from tests.site.generated_pages.variables import COMPOSE

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PRODUCTION = (ROOT / "docs" / "operations" / "production.md").read_text()

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
VARIABLE = re.compile(r"\bPROVING_[A-Z_]+")
SETTINGS_SOURCE = (ROOT / "apps" / "settings.py").read_text()
READ = set(re.findall(r'env\.\w+\(\s*"(PROVING_[A-Z_]+)"', SETTINGS_SOURCE))
# Files that hold a secret instead of a variable.
FILES = set(re.findall(r"\bPROVING_[A-Z_]+_FILE\b", PRODUCTION)) - READ
MAKE = re.compile(r"(?:^ {4}|`)make ([a-z][a-z0-9-]*)", re.MULTILINE)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The fragments of a page's headings, as code hosts make them."""
    headings = HEADING.findall(page.read_text())
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def links() -> list[tuple[str, str]]:
    """(page, target) of every link and image that stays in the checkout."""
    targets = [(name(page), target) for page in PAGES for target in LINK.findall(page.read_text())]
    return [(page, target) for page, target in targets if "://" not in target]


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize(("page", "target"), links(), ids=str)
def test_every_relative_link_and_image_leads_somewhere(page: str, target: str) -> None:
    path, _, fragment = target.partition("#")
    linked = ((ROOT / page).parent / path).resolve() if path else ROOT / page

    assert linked.exists()
    assert not fragment or fragment in anchors(linked)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    assert set(MAKE.findall(page.read_text())) <= targets()


def test_every_make_target_that_help_lists_is_explained() -> None:
    listed = set(re.findall(r"^([a-z][a-z0-9-]*):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {target for page in PAGES for target in MAKE.findall(page.read_text())}

    assert listed == named & listed


def test_every_variable_is_documented_and_no_other() -> None:
    rows = re.findall(r"^\| `(PROVING_[A-Z_]+)`", PRODUCTION, re.MULTILINE)

    assert sorted(set(rows) - (set(COMPOSE) - READ)) == sorted(READ)
    assert set(VARIABLE.findall(PRODUCTION)) - FILES - set(COMPOSE) == READ - set(COMPOSE)


def test_every_secret_that_a_file_may_hold_is_documented() -> None:
    secrets = re.findall(r'env\.(?:secret|secret_url|keys)\(\s*"(PROVING_[A-Z_]+)"', SETTINGS_SOURCE)

    assert {f"{name}_FILE" for name in secrets} == FILES


def test_every_documented_backup_is_written_for_its_owner_only() -> None:
    commands = re.findall(r"^.*manage\.py backup - >.*$", PRODUCTION, re.MULTILINE)

    assert len(commands) == 2
    assert all(command.strip().startswith("(umask 077; ") for command in commands)


def test_every_recipe_is_documented_and_no_other() -> None:
    files = {f"{name}.yaml" for name in recipes.texts()}
    rows = re.findall(r"^\| `([\w.-]+\.yaml)`", (ROOT / "docs" / "guides" / "recipes.md").read_text(), re.MULTILINE)

    assert sorted(rows) == sorted(files)


def test_every_format_is_documented_and_no_other() -> None:
    rows = re.findall(r"^\| (`[^|]+`) \|", (ROOT / "docs" / "reference" / "formats.md").read_text(), re.MULTILINE)

    assert sorted(kind for row in rows for kind in re.findall(r"`([\w-]+)`", row)) == sorted(FORMATS)


def test_the_index_leads_to_every_document() -> None:
    index = ROOT / "docs" / "index.md"
    files = {file for file in ROOT.glob("docs/**/*") if file.is_file() and file.suffix != ".png"}

    reached = {(index.parent / target).resolve() for page, target in links() if page == name(index)}

    assert files - {index} <= reached


@pytest.mark.thorough
def test_the_table_of_settings_is_the_one_that_the_code_makes() -> None:
    assert settings_table.DOCUMENT.read_text() == settings_table.render(), (
        "run: python -m tests.documents.settings_table"
    )


@pytest.mark.thorough
def test_every_setting_is_applied_proven_and_restored_by_a_test() -> None:
    assert {each.setting for each in settings_table.provings()} == SETTINGS.keys()


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=list(SETTINGS))
def test_every_setting_says_where_its_proof_is_read(setting: Setting) -> None:
    assert settings_table.sources(setting)


MARKED = """
CASES = [pytest.param("on", marks=pytest.mark.proves("numa", where="lab"))]

@pytest.mark.proves("huge_pages", where="here")
@pytest.mark.parametrize("policy", CASES)
def test_it(policy): ...
"""


def test_a_mark_counts_on_a_test_and_on_the_parameters_that_it_names() -> None:
    marked = [(mark.setting, mark.where, mark.test) for mark in settings_table.marks(MARKED, "test_x.py")]

    assert marked == [("huge_pages", "here", "test_x.py::test_it"), ("numa", "lab", "test_x.py::test_it")]


@pytest.mark.parametrize(
    ("was", "changed", "message"),
    [
        ('"huge_pages"', "name", "written out"),
        ('"huge_pages"', '"turbo"', "with a name of SETTINGS"),
        ('"here"', '"somewhere"', 'where="here" or "lab"'),
        ("def test_it", "def helper", "on no test"),
    ],
)
def test_a_mark_that_proves_nothing_is_refused(was: str, changed: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        settings_table.marks(MARKED.replace(was, changed), "test_x.py")
