"""Generated pages of the site agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from apps.campaigns import recipes
from apps.campaigns.design import data
from apps.campaigns.design.orders import ORDERS
from apps.campaigns.design.plan import REBOOTS
from apps.campaigns.recipes.scale import NUMBERS, PLACEHOLDERS
from tests.site import generated, markdown, navigation, sources
from tests.site.generated_pages import api_page, commands, recipe_pages, variables
from tests.site.moved import MOVED

ROOT = sources.ROOT
# Read by name, or by a constant that has the name.
READ = re.compile(r"""(?:environ(?:\.get\(|\[)|^[A-Z_]+ = )["'](PROVING_[A-Z_]+)["']""", re.MULTILINE)


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return generated.pages()


@pytest.mark.thorough
def test_every_page_is_in_the_navigation_once(made: dict[str, str]) -> None:
    files = {
        str(page.relative_to(ROOT)).removesuffix(".md") for pattern in sources.PAGES for page in ROOT.glob(pattern)
    }
    own = {name for name in made if not name.startswith(navigation.RECIPES)} | {f"{navigation.RECIPES}/index"}
    listed = [page for section in navigation.SECTIONS for page in section.pages]

    assert sorted(listed) == sorted(files | own)


def test_the_first_page_describes_every_page() -> None:
    lines = navigation.index((ROOT / "docs" / "index.md").read_text()).splitlines()

    assert [line for line in lines if line.startswith("- ") and not re.search(r"\.md\): \w", line)] == []


def test_no_page_is_at_the_old_address_of_another() -> None:
    assert not MOVED.keys() & {page for section in navigation.SECTIONS for page in section.pages}


@pytest.mark.parametrize("name", recipes.catalogue())
def test_the_page_of_a_recipe_has_question_factors_restarts_and_commands(made: dict[str, str], name: str) -> None:
    recipe, page = recipes.get(name), made[f"{navigation.RECIPES}/{name}"]

    assert recipe["question"] in page and recipe["restarts"] in page
    assert all(f"`{factor['name']}`" in page for factor in recipe["factors"])
    assert f"proving run {name} --host" in page and f'{{"recipe": "{name}", "host": 1}}' in page
    assert f" = {len(recipes.planned(recipe))} " in page
    assert recipes.texts()[name] in page


@pytest.mark.parametrize("name", recipes.catalogue())
def test_the_page_of_a_recipe_has_the_results_of_its_trial_run(made: dict[str, str], name: str) -> None:
    assert "There are no results yet." not in made[f"{navigation.RECIPES}/{name}"]


def test_the_time_to_create_data_counts_each_data_set_once() -> None:
    few, many = ({"kind": "tpcc", "options": {"warehouses": count}} for count in (1, 100))

    seconds = recipe_pages.creation_s([{"dataset": few}, {"dataset": many}, {"dataset": few}, {}])

    assert seconds == data.seconds(few) + data.seconds(many)


def test_every_word_that_follows_the_host_is_explained() -> None:
    assert set(recipe_pages.FOLLOWS) == {*NUMBERS, *PLACEHOLDERS}
    assert set(recipe_pages.ORDERS) == set(ORDERS)
    assert set(recipe_pages.REBOOTS) == set(REBOOTS)


def test_every_operation_of_the_api_has_its_role() -> None:
    roles = {(method, path): role for _, method, path, _, role in api_page.operations()}

    assert roles["GET", "/api/v1/hosts/"] == "viewer"
    assert roles["POST", "/api/v1/hosts/"] == "admin"
    assert roles["POST", "/api/v1/campaigns/{id}/start/"] == "operator"


def test_every_command_of_the_server_is_listed(made: dict[str, str]) -> None:
    files = {file.stem for file in ROOT.glob("apps/*/management/commands/[a-z]*.py")}

    assert {name for name, _ in commands.ours()} == files
    assert all(f"## {name}\n" in made["reference/management"] for name in files)


def test_every_variable_that_is_read_is_listed_and_no_other() -> None:
    compose = set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "docker-compose.yml").read_text()))
    tests = {name for file in ROOT.glob("tests/**/*.py") for name in READ.findall(file.read_text())}
    cli = {name for file in ROOT.glob("cli/proving/**/*.py") for name in READ.findall(file.read_text())}
    server = {each.name for each in variables.read(variables.SETTINGS)}

    secrets = {f"{each.name}_FILE" for each in variables.read(variables.SETTINGS)}

    assert compose - server - secrets == set(variables.COMPOSE) - server
    assert cli == set(variables.CLI)
    assert tests - server - cli == set(variables.TESTS)


def test_every_gauge_is_listed_with_its_label() -> None:
    labels = {name: label for name, _, label in variables.gauges()}

    assert labels["proving_runs"] == "state" and labels["proving_table_rows"] == "table"
    assert labels["proving_tick_lag_seconds"] == ""


def test_a_part_of_a_document_leads_to_the_same_places_from_elsewhere() -> None:
    part = "[units](#units), [roles](roles.md), [facts](../hosts.md#facts) and [all](https://example.org/)"

    assert markdown.moved(part, "guides/recipes.md", "../docs/") == (
        "[units](../docs/guides/recipes.md#units), [roles](../docs/guides/roles.md), [facts](../docs/hosts.md#facts) "
        "and [all](https://example.org/)"
    )


def test_a_link_out_of_the_checkout_is_left_dead(tmp_path: Path) -> None:
    sources.write(tmp_path / "secret.txt", "x")
    sources.write(tmp_path / "checkout" / "docs" / "hosts.md", "# Hosts\n\n[out](../../secret.txt)\n")

    sources.lay(tmp_path / "checkout", tmp_path / "source")

    assert [file.name for file in (tmp_path / "source").rglob("*") if file.is_file()] == ["hosts.md"]
