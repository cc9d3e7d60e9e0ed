"""Search over everything: one query, ranked, with snippets."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns.models import Campaign
from apps.decisions import services
from apps.decisions.models import Decision
from apps.decisions.search import full_text
from apps.tuning.models import Profile
from common.errors import PlanError
from tests.rows.factories import browser, make_campaign, make_host, make_profile, make_recipe, make_workload

HUGE = {"postgresql": {"shared_buffers": "16GB"}, "huge_pages": {"use": "on", "pool": 9000}}


@pytest.fixture
def decision(tuner: User) -> Decision:
    """About shared_buffers, with a comment."""
    profile = make_profile("big-memory", {"postgresql": {"shared_buffers": "2GB"}}, by=tuner)
    campaign = make_campaign(Campaign.State.FINISHED, by=tuner, host=make_host("bench"), profile=profile)
    fields = {"title": "A quarter of memory", "decision": "The kernel keeps the rest.", "level": "1 cpu"}
    written = services.write_decision(by=tuner, campaign=campaign, **fields)
    services.comment(written, "The vacuum cleaners disagree.", by=tuner)
    return written


def hits(text: str, kind: str = "") -> set[tuple[str, str]]:
    return {(hit.kind, hit.title) for hit in full_text.search(text, kind)}


def test_a_setting_is_found_in_every_object_that_sets_it(decision: Decision) -> None:
    assert {("decision", "A quarter of memory"), ("profile", "big-memory r1")} <= hits("shared_buffers")
    assert hits("shared_buffers", "profile") == {("profile", "big-memory r1")}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("vacuum", "comment"),
        ("bench", "host"),
        ("a processor", "host"),
        ("quarter memory", "decision"),
        ("isolation scaling", "recipe"),
        ("nightly", "recipe"),
        ("tpcb", "workload"),
        ("do cpus help", "campaign"),
    ],
)
def test_each_kind_is_found_by_its_words(decision: Decision, tuner: User, text: str, kind: str) -> None:
    make_recipe("nightly", by=tuner)
    make_workload("tpcb-small", by=tuner)

    assert kind in {hit.kind for hit in full_text.search(text)}


def test_a_query_matches_words_as_users_type_them(decision: Decision) -> None:
    assert ("decision", "A quarter of memory") in hits("kernels")  # stems
    assert ("decision", "A quarter of memory") in hits("nothing or quarter")
    assert ("decision", "A quarter of memory") in hits('"keeps the rest"')
    assert ("decision", "A quarter of memory") not in hits("quarter -kernel")
    assert hits("") == hits("the") == hits("\x00%s'\"-(") == set()


@pytest.mark.parametrize("text", ["shared_buf", "shar buff", "shared_buf -zebra", "memory or shared_buf"])
def test_the_beginning_of_a_word_is_enough(decision: Decision, text: str) -> None:
    assert ("profile", "big-memory r1") in hits(text)


def test_quoted_and_excluded_words_are_whole_words(decision: Decision) -> None:
    assert hits('"shared buf"') == set()
    assert ("decision", "A quarter of memory") in hits("quarter -kern")


def test_the_exact_title_comes_first_and_titles_that_begin_with_it_next(tuner: User) -> None:
    make_campaign(by=tuner, name="about wal", question="wal wal wal wal: does wal help wal?")
    make_campaign(by=tuner, name="wal level", question="Does it help?")
    make_campaign(by=tuner, name="WAL", question="Does it help?")

    assert [hit.title for hit in full_text.search("wal", "campaign")] == ["WAL", "wal level", "about wal"]


def test_a_snippet_marks_the_match(decision: Decision) -> None:
    (hit,) = full_text.search("cleaners")

    assert ("cleaners", True) in hit.parts
    assert hit.path == reverse("decision_detail", args=[decision.pk])
    assert "vacuum cleaners disagree" in hit.snippet


def test_a_snippet_of_settings_is_not_json(decision: Decision) -> None:
    (hit,) = full_text.search("shared_buffers", "profile")

    assert ("buffers", True) in hit.parts
    assert not set('{}[]"') & set(hit.snippet)


def test_a_snippet_of_a_campaign_is_words_and_no_json(decision: Decision) -> None:
    (hit,) = full_text.search("affinity", "campaign")

    assert "1 cpu (cpu_affinity server = 0), 2 cpus (cpu_affinity server" in hit.snippet
    assert ("affinity", True) in hit.parts
    assert not {"levels", "label", "set"} & set(hit.snippet.split()) and not set('{}[]"') & set(hit.snippet)


def test_a_text_with_the_word_twice_is_first(decision: Decision, tuner: User) -> None:
    make_campaign(by=tuner, name="quarter", question="Is a quarter of a quarter enough?")

    assert [hit.kind for hit in full_text.search("quarter")][:1] == ["campaign"]


def test_it_takes_one_query_and_one_for_the_recipes(decision: Decision, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(2):
        full_text.search("quarter")


@pytest.mark.parametrize("kind", ["decision", "comment", "campaign", "profile"])
def test_growing_tables_are_searched_by_an_index(db: None, kind: str) -> None:
    parameters = {
        "asked": "memory",
        "most": 50,
        "ranked": 500,
        "headline": full_text.HEADLINE,
        "names": [],
        "words": [],
    }
    parameters |= {"typed": "memory"}

    with connection.cursor() as cursor:
        # Of a few rows nothing is dear: only a bitmap, which a GIN index gives, is left.
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off")
        cursor.execute(f"EXPLAIN {full_text.statement(kind)}", parameters)
        plan = "\n".join(line for (line,) in cursor)

    assert "_words" in plan


@pytest.mark.parametrize("kind", ["letters", "profile "])
def test_an_unknown_kind_is_refused(db: None, kind: str) -> None:
    with pytest.raises(
        PlanError, match=rf"'{kind}' is not a kind of object that can be searched \(one of decision, comment"
    ):
        full_text.search("a", kind)


def test_a_profile_is_found_by_its_description_as_well(tuner: User) -> None:
    make_profile("late", {"sysctl": {"vm": {"swappiness": 1}}}, by=tuner)
    Profile.objects.update(description="for the archive of zebras")

    assert hits("zebras", "profile") == {("profile", "late")}


def test_the_page_refuses_a_kind_without_the_name_of_its_field(tuner: User, client: Client) -> None:
    client.force_login(tuner)

    answer = client.get(reverse("search"), {"q": "a", "kind": "zebra"})

    page = answer.content.decode()
    assert answer.status_code == 404
    assert (
        "&#x27;zebra&#x27; is not a kind of object that can be searched. One of decision" in page
        and "kind: " not in page
    )


def test_page_and_api_show_matches_and_escape_them(decision: Decision, tuner: User, client: Client) -> None:
    services.comment(decision, "Cats & zebras", by=tuner)
    client.force_login(tuner)

    page = client.get(reverse("search"), {"q": "zebras"}).content.decode()
    rows = browser(tuner).get("/api/v1/search/?q=zebras").json()

    assert "Cats &amp; <mark>zebras</mark>" in page
    assert [(row["kind"], row["path"]) for row in rows] == [("comment", f"/decisions/{decision.pk}/")]
    assert browser(tuner).get("/api/v1/search/").json()["field"] == "q"


@pytest.mark.parametrize("text", ["-" * 400 + "abc", "- " * 200 + "abc", "(-|" * 99 + "abc", '-"' * 200, "or " * 99])
def test_no_text_is_an_internal_error(db: None, text: str) -> None:
    full_text.search(text)
