"""Every address of the server with every role. An address without a rule fails here."""

from __future__ import annotations

from collections.abc import Iterator
from http.cookies import SimpleCookie
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import Resolver404, resolve, reverse

from apps.accounts.models import Channel, Role, TrustedJob, User
from apps.campaigns.models import Artefact
from apps.hosts.models import Trouble
from apps.hosts.pages.views import ACTIONS
from tests.apps.accounts.test_api_roles import ALL
from tests.documents import permissions
from tests.documents.pages import pages
from tests.documents.permissions import OPEN, PAGES, Rule
from tests.rows import filled
from tests.rows.factories import issue_token

# What may come of it for those who are let through: a page, another one, or a complaint about what was sent.
THROUGH = (200, 302, 400, 404, 422)


@pytest.fixture
def team(db: None) -> dict[str, Any]:
    return filled.team()


@pytest.fixture
def keys(team: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return keys_in_addresses(team)


def keys_in_addresses(team: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Keys in addresses without a link in tests/documents/pages.py."""
    run, campaign, host = team["ok_run"], team["finished"], team["host"]
    part = run.parts.create(host=host, role="server", position=0, spec=run.spec)
    file = Artefact.objects.create(part=part, path="out/measure/stdout", size=3, sha256="0" * 64, content=b"LOG")
    workload = team["workload"]
    by_room = {"run_": {"pk": run.pk}, "campaign_": {"pk": campaign.pk}}
    keys_by_name: dict[str, dict[str, Any]] = {
        "token_revoke": {"pk": issue_token(team["admin"], "t", Role.VIEWER)[0].pk},
        "token_rotate": {"pk": issue_token(team["admin"], "t", Role.VIEWER)[0].pk},
        "ci_job_remove": {
            "pk": TrustedJob.objects.create(user=team["admin"], name="j", issuer="", claims={}, minutes=5).pk
        },
        "user_change": {"pk": team["viewer"].pk},
        "user_link": {"pk": team["viewer"].pk},
        "user_unlink": {"pk": team["viewer"].pk},
        "user_second_factor": {"pk": team["viewer"].pk},
        "passkey_remove": {"pk": 1},
        "identity_certificate": {"pk": host.identity_id},
        "team_detail": {"pk": team["owners"].pk},
        **{name: {"pk": team["owners"].pk} for name in ("team_action", "team_change", "team_remove")},
        "session_end": {"public": "5f0c0e5a-6c1e-4f0e-8a38-6d1d5b3f7a11"},
        "channel_action": {"pk": team["channel"].pk},
        "delivery_retry": {"pk": team["channel"].deliveries.first().pk},
        "trouble_dismiss": {"pk": Trouble.objects.first().pk},  # type: ignore[union-attr]
        "host_action": {"name": host.name},
        "host_queue": {"name": host.name},
        "host_baselines": {"name": host.name},
        "baseline_figure": {"name": host.name, "digest": "0" * 64},
        "profile_export": {"name": team["profile"].name, "kind": "shell"},
        "campaign_export": {"pk": campaign.pk, "name": "runs.csv"},
        "run_export": {"pk": run.pk, "name": "series.csv"},
        "run_latency": {"pk": run.pk, "name": "nines"},
        "run_artefact": {"pk": run.pk, "artefact": run.artefacts.first().pk},
        "part_artefact": {"pk": run.pk, "artefact": file.pk},
        "compare_figure": {"name": "strip"},
        "pin_go": {"pk": team["pins"][0].pk},
        "pin_action": {"pk": team["pins"][0].pk},
        "workload_check": {"pk": workload.pk},
        "recipe_file": {"name": "cpu-scaling"},
        "recipe_hours": {"name": "cpu-scaling", "host": host.pk},
        "recipe_withdraw": {"name": "cpu-scaling"},
        "dataset_copy_remove": {"pk": team["dataset"].copies.first().pk},
        "dataset_prepare": {"name": team["dataset"].name, "revision": 1},
        "decisions_on_host": {"name": host.name},
        "decision_export": {"pk": team["decision"].pk, "kind": "shell"},
        "drift_ask": {"pk": team["decision"].pk, "name": host.name},
        "feed_action": {},
        **{name: {"pk": team["schedule"].pk} for name in ("schedule_action", "schedule_figure", "schedule_csv")},
        "searches_figure": {"pk": team["search"].pk, "name": "trials"},
        "searches_csv": {"pk": team["search"].pk},
        "searches_importance": {"pk": team["search"].pk},
        "searches_action": {"pk": team["search"].pk},
        "decision_action": {"pk": team["decision"].pk},
    }
    for each in permissions.pages():
        for room, key in by_room.items():
            if each.name.startswith(room) and set(each.keys) <= {"pk", "action"}:
                keys_by_name.setdefault(each.name, key)
    return keys_by_name


# What a POST has to say to get as far as the rule; everything else is sent nothing.
SENT = {
    "dry_run": ("profile", "host"),
    "host_action:reserve": ("until",),
    "host_action:allow-cluster": ("may",),
    "host_action:forbid-cluster": ("may",),
}


def addresses(team: dict[str, Any], keys: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str, Rule]]:
    """(name, address, rule) of every page and action."""
    linked = {_name(url): url for _, url, _ in reversed(pages(team))}
    for each in permissions.pages():
        for action, rule in each.rules.items():
            name = f"{each.name}:{action}".rstrip(":")
            if "kind" in each.keys and action:
                yield name, reverse(each.name, args=[action]), rule
            elif action:
                yield name, reverse(each.name, kwargs=keys[each.name] | {"action": action}), rule
            else:
                kwargs = keys.get(each.name, {}) if each.keys else {}
                yield name, linked.get(each.name) or reverse(each.name, kwargs=kwargs), rule


def _name(url: str) -> str:
    return resolve(url.partition("?")[0]).url_name or ""


def log_in(user: User) -> SimpleCookie:
    """The cookies of a session, for as many requests as a test makes: a login takes as long as most of them."""
    client = Client()
    client.force_login(user)
    return client.cookies


def ask(cookies: SimpleCookie, method: str, url: str, data: dict[str, Any]) -> int:
    """The status of one request, in a transaction that is rolled back: the session is valid for the next one."""
    client = Client()
    client.cookies = SimpleCookie(cookies)
    with transaction.atomic():
        answer = getattr(client, method)(url, data)
        transaction.set_rollback(True)
    return int(answer.status_code)


def test_every_endpoint_has_a_rule_and_every_rule_an_endpoint() -> None:
    of_api = {f"api:{each.url_name.removeprefix('api:')}" for each in ALL}
    ruled = {name.partition(":")[0] for name in PAGES} | set(OPEN) | of_api

    existing = {each.name for each in permissions.endpoints()} - {"api:"}  # that one answers what no address matches

    assert existing == ruled


def test_every_action_of_a_host_has_a_rule() -> None:
    assert {name.partition(":")[2] for name in PAGES if name.startswith("host_action:")} == set(ACTIONS)


@pytest.mark.parametrize("role", list(Role))
def test_each_role_gets_through_where_the_rule_says_so_and_nowhere_else(
    team: dict[str, Any], keys: dict[str, dict[str, Any]], role: Role
) -> None:
    """A page is rendered for the least role that may see it and for admins: roles are ordered (`Role.includes`), and
    views name the least one."""
    cookies = log_in(team[role.value])
    known = {"profile": team["profile"].name, "host": team["host"].pk, "until": "2030-01-31 18:00", "may": "restart"}
    wrong = []
    for name, url, rule in addresses(team, keys):
        for method, least in (("get", rule.get), ("post", rule.post)):
            if method == "get" and least is not None and role.includes(least) and role not in (least, Role.ADMIN):
                continue
            data = {field: known[field] for field in SENT.get(name, ())} if method == "post" else {}
            status = ask(cookies, method, url, data)
            accepted = (405,) if least is None else THROUGH if role.includes(least) else (403,)
            if status not in accepted:
                wrong.append((name, method, status, accepted))

    assert wrong == []


def test_requests_without_a_login_reach_only_open_addresses(
    team: dict[str, Any], keys: dict[str, dict[str, Any]]
) -> None:
    wrong = []
    for name, url, rule in addresses(team, keys):
        for method, least in (("get", rule.get), ("post", rule.post)):
            status = ask(SimpleCookie(), method, url, {})
            if status != 302 and not (least is None and status == 405):
                wrong.append((name, method, status))

    assert wrong == []
    addressed = {"password_set": {"uidb64": "MQ", "token": "a-b"}, "timeline_feed": {"secret": "wrong"}}
    assert {name: ask(SimpleCookie(), "get", reverse(name, kwargs=addressed.get(name)), {}) for name in OPEN} == OPEN


def test_an_owner_changes_a_channel_of_mail_and_others_do_not(team: dict[str, Any]) -> None:
    mine = Channel.objects.create(name="vera", owner=team["viewer"], kind="mail", address="v@example.net")
    url = reverse("channel_detail", args=[mine.pk])

    answers = {role.value: ask(log_in(team[role.value]), "get", url, {}) for role in Role}

    assert answers == {"viewer": 200, "operator": 403, "tuner": 403, "admin": 200}


def test_an_unknown_address_is_not_found() -> None:
    with pytest.raises(Resolver404):
        resolve("/no-such-page/")


def test_the_document_is_the_one_that_the_table_makes() -> None:
    assert permissions.DOCUMENT.read_text() == permissions.render(), "run: python -m tests.documents.permissions"
