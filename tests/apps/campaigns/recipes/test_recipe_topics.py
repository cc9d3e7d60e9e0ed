"""Recipes are listed by topic, and found by words of their question, tools and settings."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from apps.accounts.models import Role
from apps.campaigns import recipes
from apps.campaigns.recipes.reading import dump, parse
from apps.campaigns.recipes.topics import TOPICS, by_topic, matches
from common.errors import PlanError
from tests.rows.factories import browser, make_host, make_user
from tests.servers import machine


def names_matching(query: str) -> list[str]:
    return [name for name, recipe in recipes.catalogue().items() if matches(recipe, query)]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("wal_compression", ["checkpoint-wal"]),
        ("settings.numa", ["numa-policy"]),
        ("HUGE pages size", ["cache-split", "huge-page-size", "huge-pages-1g", "huge-pages"]),
        ("pg_test_timing", ["storage"]),
        ("nothing-like-it", []),
    ],
)
def test_every_word_has_to_occur_in_texts_tools_or_settings(query: str, names: list[str]) -> None:
    assert names_matching(query) == names


def test_no_word_finds_all() -> None:
    assert names_matching("  ") == list(recipes.catalogue())


def test_every_recipe_of_the_program_has_a_topic_and_every_topic_a_recipe() -> None:
    assert {recipe["topic"] for recipe in recipes.catalogue().values()} == set(TOPICS)


def test_a_recipe_without_a_topic_comes_last() -> None:
    recipe: dict[str, Any] = {"name": "ours"}

    assert by_topic([recipe, recipes.get("storage")]) == [
        ("Storage", [recipes.get("storage")]),
        ("Versions and whole workloads", [recipe]),
    ]


def test_an_unknown_topic_is_refused_with_those_that_are_known() -> None:
    text = dump({**parse(recipes.texts()["storage"]), "topic": "disks"})

    with pytest.raises(PlanError, match="disks") as refused:
        parse(text)

    assert refused.value.subject == "topic" and "storage" in str(refused.value.as_dict())


@pytest.mark.django_db
def test_the_page_shows_matching_recipes_and_their_number() -> None:
    client = browser(make_user(Role.OPERATOR))

    searched = client.get(reverse("recipe_list"), {"q": "wal_compression"}).content.decode()
    chosen = client.get(reverse("campaign_new"), {"topic": "replication"}).content.decode()
    nothing = client.get(reverse("recipe_list"), {"q": "nothing-like-it"}).content.decode()

    assert f"1 of {len(recipes.catalogue())} recipes" in searched
    assert 'id="checkpoint-wal"' in searched and 'id="storage"' not in searched
    assert 'id="tpcc-replicated"' in chosen and 'id="tpcc"' not in chosen
    assert "No recipe matches" in nothing


@pytest.mark.django_db
def test_the_only_host_is_preselected_unless_the_request_has_none() -> None:
    host = make_host(level="root", facts=machine.facts())
    client = browser(make_user(Role.OPERATOR))
    hours = reverse("recipe_hours", args=["storage", host.pk])

    assert hours in client.get(reverse("recipe_list")).content.decode()
    assert hours not in client.get(reverse("recipe_list"), {"host": ""}).content.decode()

    make_host()

    assert hours not in client.get(reverse("recipe_list")).content.decode()
