"""Every single setting with its range and present value: as a function, over the API, and as a page."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role, User
from apps.tuning import parameters, rules
from apps.tuning.forms import RevisionForm
from tests.rows import populate
from tests.rows.factories import browser, make_profile
from tests.servers.machine import facts

PATH = "/api/v1/settings/parameters/"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("shared_buffers", "128kB to 8TB; default 128MB; restart of PostgreSQL"),
        ("work_mem", "64kB to 2TB; default 4MB"),
        ("vacuum_cost_delay", "0 to 100ms; default 0"),
        ("seq_page_cost", "from 0; default 1"),
        ("log_min_duration_statement", "-1 to 24.9d; default -1"),
        ("autovacuum_freeze_max_age", "100,000 to 2,000,000,000; default 200000000; restart of PostgreSQL"),
        ("jit", "on or off; default on"),
        ("wal_level", "minimal, replica, logical; default replica; restart of PostgreSQL"),
        ("vm.swappiness", "0 to 200; now 60"),
        ("vm.dirty_ratio", "2 to 90 %"),
        ("cpu_affinity.server", "now 0-15; restart of PostgreSQL"),
        ("initdb.data_checksums", "on or off; default on; new cluster"),
    ],
)
def test_a_setting_has_its_range_its_present_value_and_the_restart_that_it_needs(name: str, hint: str) -> None:
    parameter = parameters.find(parameters.every(facts()), name)

    assert parameter is not None and parameter.hint == hint


def test_each_value_that_is_proposed_is_accepted() -> None:
    for each in parameters.every():
        if each.path.startswith(parameters.POSTGRESQL) and each.present:
            rules.validate({"postgresql": {each.name: each.present}})


def test_nothing_is_offered_that_a_profile_must_not_set() -> None:
    names = {each.name for each in parameters.every()}

    assert not names & {"port", "data_directory", "archive_command", "huge_pages", "block_size", "DateStyle"}


def test_a_profile_counts_before_the_host() -> None:
    settings = {"postgresql": {"work_mem": "64MB"}, "sysctl": {"vm": {"swappiness": 1}}}
    every = parameters.every(facts(), settings)

    shown = {name: parameters.find(every, name) for name in ("work_mem", "vm.swappiness")}

    assert {name: each and (each.source, each.present) for name, each in shown.items()} == {
        "work_mem": ("profile", "64MB"),
        "vm.swappiness": ("profile", "1"),
    }


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("work_mem", "work_mem"),
        ("mem", "work_mem"),
        ("shared buf", "shared_buffers"),
        ("settings.postgresql.jit", "jit"),
        ("swap", "vm.swappiness"),
        ("checkpoint time", "checkpoint_timeout"),
    ],
)
def test_the_best_match_comes_first(typed: str, first: str) -> None:
    assert parameters.matching(parameters.every(), typed)[0].name == first


def test_a_description_finds_a_setting(viewer: User) -> None:
    rows = browser(viewer).get(f"{PATH}?q=WAL size that triggers").json()

    assert [row["name"] for row in rows] == ["max_wal_size"]


def test_the_api_shows_present_values_of_a_host_and_a_profile(viewer: User) -> None:
    revision = make_profile(settings={"postgresql": {"work_mem": "1GB"}})
    query: dict[str, Any] = {"host": populate.host().pk, "revision": revision.pk, "limit": 1}

    knob = browser(viewer).get(PATH, query | {"q": "swappiness"}).json()
    own = browser(viewer).get(PATH, query | {"q": "work_mem"}).json()

    assert [(each["path"], each["present"], each["origin"]) for each in (*knob, *own)] == [
        ("settings.sysctl.vm.swappiness", "60", "now"),
        ("settings.postgresql.work_mem", "1GB", "profile"),
    ]
    assert browser(viewer).get(f"{PATH}?host=999").status_code == 400


def test_the_page_lists_them_and_leads_to_a_campaign(client: Client, db: None) -> None:
    host = populate.host()
    client.force_login(populate.user(Role.OPERATOR))

    answer = client.get(reverse("setting_list"), {"q": "swappiness"})

    assert answer.context["host"] == host  # the only one
    assert [setting.name for setting in answer.context["settings"]] == ["vm.swappiness"]
    assert client.get(reverse("setting_list"), {"host": ""}).context["host"] is None  # chosen: no host
    link = f"{reverse('campaign_new')}?scratch=1&amp;host={host.pk}&amp;setting=settings.sysctl.vm.swappiness"
    assert link.encode() in answer.content


def test_each_knob_has_a_field_of_its_own_in_the_form_of_a_profile() -> None:
    knobs = {each.path for each in parameters.every() if not each.path.startswith(parameters.POSTGRESQL)}

    assert knobs <= set(RevisionForm().fields)  # static/settings.js writes all others as lines of postgresql.conf
