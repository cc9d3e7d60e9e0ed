"""Recipes of a team: strict parsing, versions, export of the original text, and creation from campaigns."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from apps.accounts.models import AuditEntry, Role, User
from apps.accounts.services import allow_commands
from apps.campaigns import recipes, services
from apps.campaigns.design.before_start import previews
from apps.campaigns.library import own_recipes, recipe_hosts
from apps.campaigns.models import Campaign, OwnRecipe
from apps.campaigns.recipes.reading import LARGEST, dump, parse
from common.errors import PlanError, RoleError
from tests.rows.factories import browser, make_campaign, make_host, make_profile, make_user, script
from tests.servers import machine

pytestmark = pytest.mark.django_db


@pytest.fixture
def tuner(db: None) -> User:
    """Who may bring the SQL of these recipes."""
    user = make_user(Role.TUNER)
    allow_commands(user, True, by=None)
    return user


@pytest.fixture
def operator(db: None) -> User:
    user = make_user(Role.OPERATOR)
    allow_commands(user, True, by=None)
    return user


OURS: dict[str, Any] = {
    "version": 1,
    "name": "ours",
    "title": "Our question",
    "question": "Does work_mem matter to our reports?",
    "about": "What we always ask.",
    "chart": "One point per run.",
    "restarts": "The private cluster.",
    "metric": "execution_mean",
    "delta": 0.05,
    "repetitions": 3,
    "order": "randomised",
    "settings": {"postgresql": {"shared_buffers": "64MB"}},
    "dataset": {"kind": "pgbench", "options": {"scale": 2}},
    "steps": [
        {
            "name": "report",
            "role": "measure",
            "kind": "sql",
            "options": {"query": "select count(*)\nfrom pgbench_accounts", "times": 2},
        }
    ],
    "factors": [
        {
            "name": "work_mem",
            "levels": [
                {"label": "4MB", "set": {"settings.postgresql.work_mem": "4MB"}},
                {"label": "64MB", "set": {"settings.postgresql.work_mem": "64MB"}},
            ],
        }
    ],
}


def written(**changes: Any) -> str:
    return "# ours\n" + dump(OURS | changes)


def refused(text: str) -> PlanError:
    with pytest.raises(PlanError) as error:
        recipes.check(parse(text))
    return error.value


@pytest.mark.parametrize("name", list(recipes.texts()))
def test_every_recipe_that_comes_with_the_program_could_be_imported(name: str) -> None:
    recipe = parse(recipes.texts()[name])

    recipes.check(recipe)

    queries = [step["options"].get("query", "") for step in recipe["steps"]]
    assert [query for query in queries if query.count("(") != query.count(")")] == [], "cut by what YAML takes away"
    assert recipe["name"] == name
    assert parse(dump(recipe)) == recipe


@pytest.mark.parametrize(
    ("changes", "field", "message", "accepted"),
    [
        ({"version": 0}, "version", "0 is less than", "accepted: a whole number from 1"),
        (
            {"name": "Ours!"},
            "name",
            "'Ours!' does not match",
            "accepted: 1 to 40 of a-z, 0-9 and -, starting with a letter",
        ),
        ({"name": "ours\n"}, "name", "does not match", "accepted: 1 to 40 of a-z, 0-9 and -, starting with a letter"),
        ({"order": "sorted"}, "order", "'sorted' is not one of", "randomised"),
        ({"colour": "red"}, "recipe", "'colour' was unexpected", "known are: version"),
        ({"delta": 1.5}, "delta", "1.5 is greater", "0.02 is 2 %"),
        ({"metric": "tps"}, "metric", "'tps' is not measured by sql", "execution_mean"),
        ({"settings": {"postgresql": {"temp_buffers": "4XB"}}}, "settings.postgresql.temp_buffers", "'4XB'", "kB"),
        ({"settings": {"speed": 1}}, "settings.speed", "is not in the catalogue", "huge_pages"),
        (
            {"dataset": {"kind": "oracle", "options": {}}},
            "dataset.kind",
            "'oracle' does not create a data set",
            "pgbench",
        ),
        ({"dataset": {"kind": "pgbench", "options": {"scale": 0}}}, "dataset.options.scale", "0 is less", ""),
        ({"nuisance": {"checkpoint": "maybe"}}, "nuisance.checkpoint", "'maybe' is not of type", ""),
        ({"steps": [{"name": "a", "kind": "oracle", "options": {}}]}, "steps.0.kind", "'oracle' is not", "pgbench"),
        ({"factors": [{"name": "f"}]}, "factors.0", "neither levels nor generate", "use either levels or generate"),
        (
            {"factors": [{"name": "f", "generate": "clients"}]},
            "factors.0.path",
            "generate needs a path",
            "generate: NAME",
        ),
        ({"factors": [{"name": "f", "generate": "magic", "path": "x"}]}, "factors.0.generate", "'magic'", "clients"),
        (
            {"factors": [{"name": "f", "levels": [{"label": "a", "set": {"colour": 1}}]}]},
            "factors.0.levels.0.set",
            "'colour' is not a path that can be set",
            "paths that begin with settings.",
        ),
    ],
)
def test_an_invalid_value_is_named_with_what_is_accepted(
    changes: dict[str, Any], field: str, message: str, accepted: str
) -> None:
    error = refused(written(**changes))

    assert error.subject == field
    assert message in error.message and accepted in error.hint


def lines_of_laughs(count: int) -> str:
    """Each line ten times the line before it."""
    rest = (f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, count))
    return "\n".join(["a0: &a0 [lol]", *rest])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (lines_of_laughs(10), "line 2, column 10: aliases (*name) are not supported"),
        ("a: 1\nb: 2\na: 3\n", "line 3, column 1: 'a' appears twice"),
        ("on: 1\n", "line 1, column 1: 'on' is not text in YAML"),
        ("[" * 100 + "]" * 100, "it is nested deeper than 20 levels"),
        ("!!python/object/apply:os.system [id]", "could not determine a constructor"),
        ("a: [1\n", "line 2, column 1: "),
        ("a: 1\n---\nb: 2\n", "but found another document"),
        ("x" * (LARGEST + 1), "longer than 64 KiB"),
        ("a: " + "9" * 5000, "4300"),
        ("a: \x07", "unacceptable character"),
        ("a: 2026-99-99", "month must be in"),
    ],
)
def test_dangerous_or_invalid_yaml_is_refused_at_its_line(text: str, message: str) -> None:
    error = refused(text)

    assert error.subject == "yaml" and message in error.message


@pytest.mark.parametrize(
    ("line", "field", "message"),
    [
        ("about: 2026-11-22", "about", "'2026-11-22' is a date in YAML"),
        ("about: !!binary aGk=", "about", "is a bytes in YAML"),
        ("about: .nan", "about", "nan is not a finite number"),
        ("about: 99999999999999999999", "about", "more than 64 bits"),
        ('about: "a\\0b"', "about", "the recipe contains the character '\\x00'"),
        ('about: "\\ud800"', "about", "the recipe contains the character '\\ud800'"),
        ("about: off", "about", "False is not of type 'string'"),
    ],
)
def test_a_value_of_another_type_than_text_number_list_or_mapping_is_refused(
    line: str, field: str, message: str
) -> None:
    error = refused("\n".join(line if each.startswith("about:") else each for each in written().splitlines()))

    assert error.subject == field and message in error.message


def test_an_empty_file_and_a_list_are_no_recipes() -> None:
    assert "None is not of type 'object'" in refused("").message
    assert "is not of type 'object'" in refused("- a\n").message


def test_a_recipe_is_stored_as_written_and_started_like_any_other(tuner: User, operator: User) -> None:
    row = own_recipes.import_recipe(written(), by=tuner)

    campaign = services.create_from_recipe(by=operator, host=make_host(), recipe="ours")

    assert own_recipes.text_of("ours") == written()
    assert (campaign.recipe, campaign.recipe_version, campaign.metric) == ("ours", 1, "execution_mean")
    assert (campaign.dataset.name, campaign.dataset.options) == ("ours", {"scale": 2})
    assert previews.preview(campaign).runs[0].spec["settings"]["postgresql"]["shared_buffers"] == "64MB"
    assert AuditEntry.objects.filter(action="recipe.import").get().after == {"name": "ours", "version": 1}
    assert str(row) == "ours version 1"


def test_a_draft_keeps_the_version_that_it_was_made_from(tuner: User) -> None:
    own_recipes.import_recipe(written(), by=tuner)
    campaign = services.create_from_recipe(by=tuner, host=make_host(), recipe="ours")

    own_recipes.import_recipe(written(version=2, settings={"postgresql": {"shared_buffers": "1GB"}}), by=tuner)

    assert previews.preview(campaign).runs[0].spec["settings"]["postgresql"]["shared_buffers"] == "64MB"
    assert services.create_from_recipe(by=tuner, host=campaign.host, recipe="ours").recipe_version == 2


def test_a_version_never_changes(tuner: User) -> None:
    first = own_recipes.import_recipe(written(), by=tuner)

    assert own_recipes.import_recipe(written(), by=tuner) == first
    with pytest.raises(PlanError, match="version 1 of ours exists with different contents") as error:
        own_recipes.import_recipe(written(title="Another"), by=tuner)

    assert error.value.hint == "versions never change: write version: 2"
    assert OwnRecipe.objects.count() == 1


def test_a_withdrawn_recipe_is_no_longer_offered_and_its_drafts_remain(tuner: User) -> None:
    own_recipes.import_recipe(written(), by=tuner)
    own_recipes.import_recipe(written(version=2, title="Another"), by=tuner)
    draft = services.create_from_recipe(by=tuner, host=make_host(), recipe="ours")

    own_recipes.withdraw("ours", by=tuner)

    assert "ours" not in own_recipes.catalogue() and own_recipes.find("ours") is None
    assert own_recipes.get("ours", 1)["title"] == "Our question"
    assert previews.preview(draft).runs[0].spec["settings"]["postgresql"]["shared_buffers"] == "64MB"
    with pytest.raises(PlanError, match="'ours' does not exist"):
        services.create_from_recipe(by=tuner, host=draft.host, recipe="ours")
    assert AuditEntry.objects.get(action="recipe.withdraw").after == {"name": "ours", "withdrawn": True}


@pytest.mark.parametrize(("text", "version"), [(written(), 2), (written(version=3), 3)])
def test_importing_a_withdrawn_recipe_or_its_next_version_offers_it_again(tuner: User, text: str, version: int) -> None:
    own_recipes.import_recipe(written(), by=tuner)
    own_recipes.import_recipe(written(version=2, title="Another"), by=tuner)
    own_recipes.withdraw("ours", by=tuner)

    own_recipes.import_recipe(text, by=tuner)

    assert own_recipes.get("ours")["version"] == version


@pytest.mark.parametrize(
    ("name", "message"), [("cpu-scaling", "is built in"), ("nobodys", "is not an imported recipe")]
)
def test_only_a_recipe_of_the_team_can_be_withdrawn(tuner: User, name: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        own_recipes.withdraw(name, by=tuner)


def test_a_recipe_is_withdrawn_in_the_browser_and_by_a_script(tuner: User) -> None:
    own_recipes.import_recipe(written(), by=tuner)

    page = browser(tuner).post(reverse("recipe_withdraw", args=["ours"]), follow=True)
    gone = script(tuner).delete("/api/v1/recipes/ours/")
    own_recipes.import_recipe(written(), by=tuner)
    done = script(tuner).delete("/api/v1/recipes/ours/")

    assert "ours is withdrawn" in page.content.decode() and "Our question" not in page.content.decode()
    assert (gone.status_code, done.status_code) == (404, 204)
    assert own_recipes.find("ours") is None


def test_nothing_is_written_where_a_field_is_wrong(tuner: User) -> None:
    for text in (written(metric="tps"), written(name="cpu-scaling"), "a: [1"):
        with pytest.raises(PlanError):
            own_recipes.import_recipe(text, by=tuner)

    assert not OwnRecipe.objects.exists()


def test_an_operator_imports_nothing(operator: User) -> None:
    with pytest.raises(RoleError):
        own_recipes.import_recipe(written(), by=operator)


def test_a_recipe_that_runs_commands_needs_the_permission(tuner: User) -> None:
    allow_commands(tuner, False, by=None)
    figures = {"x": {"unit": "s", "better": "lower"}}
    options = {"program": "/bin/true", "patterns": "(?P<x>1)", "figures": figures}
    runs = [{"name": "own", "role": "measure", "kind": "command", "options": options}]
    factor = {"name": "host", "levels": [{"label": "as it is", "set": {}}]}

    with pytest.raises(RoleError, match="may not run commands, and steps"):
        own_recipes.import_recipe(written(steps=runs, metric="x", factors=[factor]), by=tuner)


def test_the_api_imports_reads_and_exports_recipes(tuner: User) -> None:
    client = script(tuner)

    made = client.post("/api/v1/recipes/", {"yaml": written()})
    again = client.post("/api/v1/recipes/", {"yaml": written()})
    shown = client.get("/api/v1/recipes/ours/").json()
    file = client.get("/api/v1/recipes/ours.yaml")
    bundled = client.get("/api/v1/recipes/cpu-scaling.yaml")

    assert (made.status_code, again.status_code) == (201, 201)
    assert (shown["name"], shown["version"], shown["author"]) == ("ours", 1, tuner.username)
    assert file.content.decode() == written()
    assert file.headers["Content-Disposition"] == 'attachment; filename="ours.yaml"'
    assert yaml.safe_load(bundled.content)["name"] == "cpu-scaling"
    assert client.get("/api/v1/recipes/ours.yaml?version=7").status_code == 404


def test_the_api_names_the_field_that_is_wrong(tuner: User) -> None:
    answer = script(tuner).post("/api/v1/recipes/", {"yaml": written(metric="tps")})

    assert answer.status_code == 400
    assert b"metric" in answer.content and b"execution_mean" in answer.content


@pytest.mark.parametrize("how", ["yaml", "file"])
def test_a_recipe_is_pasted_or_uploaded_in_the_browser(tuner: User, how: str) -> None:
    client, url = browser(tuner), reverse("recipe_add")
    sent: Any = written() if how == "yaml" else SimpleUploadedFile("ours.yaml", written().encode())

    answer = client.post(url, {how: sent}, format="multipart")

    assert (answer.status_code, answer.headers["Location"]) == (302, f"{reverse('recipe_list')}#ours")
    assert b"Our question" in client.get(reverse("recipe_list")).content


def test_a_page_shows_the_error_and_keeps_the_input(tuner: User) -> None:
    answer = browser(tuner).post(reverse("recipe_add"), {"yaml": written(metric="tps")}, format="multipart")

    assert answer.status_code == 422
    assert "metric: " in answer.content.decode() and "Does work_mem matter" in answer.content.decode()


def test_a_campaign_becomes_a_recipe_that_plans_the_same(tuner: User) -> None:
    profile = make_profile(settings={"postgresql": {"shared_buffers": "256MB"}})
    campaign = make_campaign(by=tuner, profile=profile, name="1. Scaling, again!", order="abba")

    text = browser(tuner).get(reverse("recipe_add"), {"campaign": str(campaign.pk)}).context["form"]["yaml"].value()
    own_recipes.import_recipe(text, by=tuner)

    same = services.create_from_recipe(by=tuner, host=campaign.host, recipe="scaling-again", seed=campaign.seed)
    runs, expected = (previews.preview(each).runs for each in (same, campaign))
    assert [run.spec for run in runs] == [run.spec for run in expected]
    assert (same.order, same.repetitions, same.delta) == (campaign.order, campaign.repetitions, campaign.delta)


def test_the_next_recipe_of_a_name_is_its_next_version(tuner: User) -> None:
    campaign = make_campaign(by=tuner, name="ours")
    own_recipes.import_recipe(written(version=4), by=tuner)

    assert parse(own_recipes.of_campaign(campaign))["version"] == 5


def test_an_imported_campaign_cannot_become_a_recipe(tuner: User) -> None:
    campaign = make_campaign(by=tuner)
    Campaign.objects.filter(pk=campaign.pk).update(kind=Campaign.Kind.IMPORTED)

    assert browser(tuner).get(reverse("recipe_add"), {"campaign": str(campaign.pk)}).status_code == 404
    assert browser(tuner).get(reverse("recipe_add"), {"campaign": "nonsense"}).status_code == 404


def test_a_recipe_shows_its_hours_on_a_host_or_why_it_cannot_run(operator: User) -> None:
    able, small = make_host(level="root", facts=machine.facts()), make_host()
    client = browser(operator)

    shown = client.get(reverse("recipe_hours", args=["cpu-scaling", able.pk])).content.decode()
    refused = client.get(reverse("recipe_hours", args=["numa-policy", small.pk])).content.decode()
    chosen = client.get(reverse("recipe_list"), {"host": able.pk}).content.decode()

    runs = len(recipe_hosts.preview(recipes.get("cpu-scaling"), able).runs)
    assert f"{runs} runs, about " in shown and f"on {able.name}" in shown
    assert "numa-policy needs level root" in refused
    assert reverse("recipe_hours", args=["cpu-scaling", able.pk]) in chosen
