"""Two worlds for a stranger: one without a private team, and the same one with a private team that owns everything that
tests.rows.populate.team() makes. Both have the same users, keys and recipes, and a few objects of no team.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.apps import apps
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from apps.accounts.models import Membership, Owned, Role, Session, Team, User, Walled
from apps.campaigns.models import Campaign, DataCopy, RunPart
from apps.decisions.models import Decision, Standing
from apps.hosts.models import Host, Trouble
from tests.apps.accounts.test_api_roles import ALL, FILES
from tests.apps.test_permissions import addresses, keys_in_addresses
from tests.documents.pages import pages
from tests.rows import filled, populate
from tests.rows.factories import (
    make_campaign,
    make_copy,
    make_host,
    make_profile,
    make_schedule,
    make_search,
    make_user,
)

# What differs between two responses to the same request.
VARYING = (
    (re.compile(r'name="csrfmiddlewaretoken" value="[^"]*"'), "csrf"),
    (re.compile(r"&quot;X-CSRFToken&quot;: &quot;[^&]*&quot;|\"X-CSRFToken\": \"[^\"]*\""), "csrf"),
    (re.compile(r'nonce="[^"]*"'), "nonce"),
    (re.compile(r'"challenge": "[^"]*"'), "challenge"),
    (re.compile(r"\d+(\.\d+)? (s|min|seconds?|minutes?) ago"), "ago"),
    (re.compile(r"\d{4}-\d\d-\d\d.\d\d:\d\d(:[\d.]+)?"), "time"),
    (re.compile(r"ssh-ed25519 [\w+/]+ proving-ground agent"), "key"),
    (re.compile(r"/feed/[\w-]+/"), "/feed/"),
    (re.compile(r'/account/sessions/[0-9a-f-]{36}/|"id":"[0-9a-f-]{36}","created_at"'), "session"),
)


Answer = tuple[int, str, str]  # status, body, redirect


@dataclass(frozen=True)
class Request:
    method: str
    url: str
    is_api: bool = False
    is_of_others: bool = False  # names an object of no team


@dataclass
class Worlds:
    """The rows that only the private team has, and all requests that name its objects."""

    rows: filled.Rows
    requests: list[Request]
    strangers: dict[Role, User]

    def add_private_team(self) -> Team:
        """From here on this is the world with the private team."""
        _copy(self.rows, walled=True)
        team = Team.objects.get(name="storage")
        Team.objects.filter(pk=team.pk).update(private=True)
        for model in apps.get_models():
            if issubclass(model, Owned):
                model._default_manager.filter(pk__in=_keys_of(self.rows, model)).update(team=team)
        Membership.objects.create(team=team, user=User.objects.get(username="olga"))
        self._use_what_others_own()
        cache.clear()
        return team

    def _use_what_others_own(self) -> None:
        """Private campaigns and data that use objects of no team; counts on the pages of these must not change."""
        others = Campaign.objects.get(name="of a stranger")
        private = Campaign.objects.filter(pk__in=_keys_of(self.rows, Campaign)).order_by("name")
        finished = private.filter(state=Campaign.State.FINISHED)
        finished.update(profile=others.profile, workload=others.workload, dataset=others.dataset, cloned_from=others)
        host = private[0].host
        Host.objects.filter(pk=host.pk).update(identity=others.host.identity, labels=["shared"])
        DataCopy.objects.filter(pk__in=_keys_of(self.rows, DataCopy)).update(dataset=others.dataset)
        for decision in Decision.objects.filter(pk__in=_keys_of(self.rows, Decision)):
            decision.hosts.add(others.host)
            Decision.objects.filter(pk=decision.pk).update(labels=["shared"])
            Standing.objects.get_or_create(decision=decision, host=others.host, defaults={"conditions": {}})
            others.decisions.update(supersedes=decision)
        Standing.objects.filter(decision__campaign=others).update(campaign=private[0])
        Campaign.objects.filter(pk=others.pk).update(cloned_from=private[0])
        Host.objects.filter(pk=others.host_id).update(jump=host)


def begin() -> Worlds:
    """The world without the private team."""
    with transaction.atomic():
        requests = filled.once(everything)
        transaction.set_rollback(True)
    rows = filled._rows[everything]
    filled._advance(rows.sequences)
    _copy(rows, walled=False)
    strangers = {role: make_user(role, f"stranger-{role.value}") for role in Role}
    tuner = strangers[Role.TUNER]
    Membership.objects.create(team=Team.objects.create(name="others"), user=tuner, role=Role.ADMIN)
    revision, copy = make_profile(by=tuner), make_copy(by=tuner)
    used = {"name": "of a stranger", "profile": revision, "dataset": copy.dataset}
    campaign = make_campaign(Campaign.State.FINISHED, by=tuner, host=make_host(labels=["shared"]), **used)
    make_schedule(campaign, by=tuner)
    make_search(campaign, by=tuner)
    decided = {"campaign": campaign, "author": tuner, "title": "open", "decision": "d", "evidence": {}}
    decision = Decision.objects.create(**decided)
    decision.hosts.add(campaign.host)
    Standing.objects.create(decision=decision, host=campaign.host, conditions={}, stale_since=timezone.now())
    return Worlds(rows, [*requests, *_of_others(campaign)], strangers)


def _of_others(campaign: Campaign) -> Iterator[Request]:
    """Pages of the objects of no team that the private team uses."""
    host, run = campaign.host, campaign.runs.order_by("position")[0]
    named = {
        "host_detail": host.name,
        "host_queue": host.name,
        "host_baselines": host.name,
        "decisions_on_host": host.name,
        "profile_detail": campaign.profile.profile.name,  # type: ignore[union-attr]
        "workload_detail": campaign.workload.name,  # type: ignore[union-attr]
        "dataset_detail": campaign.dataset.name,  # type: ignore[union-attr]
        "campaign_detail": campaign.pk,
        "run_detail": run.pk,
        "decision_detail": campaign.decisions.get().pk,
    }
    yield from (Request("get", reverse(name, args=[key]), is_of_others=True) for name, key in named.items())
    decision = campaign.decisions.get()
    yield Request("get", reverse("api:decision-detail", args=[decision.pk]), True, True)
    for room, key in (("host", host.pk), ("campaign", campaign.pk), ("run", run.pk), ("dataset", campaign.dataset_id)):
        yield Request("get", reverse(f"api:{room}-detail", args=[key]), True, True)
    yield Request("get", reverse("api:queue", args=[host.pk]), True, True)
    yield Request("get", f"{reverse('api:why')}?host={host.pk}", True, True)


def everything() -> list[Request]:
    """The rows of the private team, and all requests that name one of its objects."""
    team = populate.team()
    keys = keys_in_addresses(team)
    requests = [Request("get", url) for _, url, _ in pages(team)]
    requests += [Request("get" if rule.get else "post", url) for _, url, rule in addresses(team, keys)]
    return [*dict.fromkeys(requests), *_of_api(team)]


def _of_api(team: dict[str, Any]) -> Iterator[Request]:
    rows = _rooms(team)
    for endpoint in ALL:
        keys = dict.fromkeys(endpoint.keys, rows.get(endpoint.room))
        file = FILES.get(endpoint.room)
        url = reverse(endpoint.url_name, kwargs=keys | ({"file": file} if file else {}))
        query = {"host": team["host"].pk, "campaign": str(team["finished"].pk), "q": "cpus", "team": team["owners"].pk}
        yield Request(endpoint.method, url, True)
        if endpoint.method == "get":
            sides = [f"level:{team['split'].pk}:{label}" for label in ("8GB, off", "8GB, on")]
            more = query | {"run": str(team["ok_run"].pk), "of": sides, "from": 1, "to": 1, "file": "shell"}
            yield Request("get", f"{url}?{urlencode(more, doseq=True)}", True)


def _rooms(team: dict[str, Any]) -> dict[str, Any]:
    """The key in the addresses of each part of the API, like one_of_each in tests/apps/accounts/test_api_roles.py."""
    host, campaign, run = team["host"], team["finished"], team["ok_run"]
    part = RunPart.objects.first()
    of_campaign = ("Campaign", "Results", "Summary", "Judgements", "OnHosts", "CampaignExport")
    return {
        **dict.fromkeys(("Host", "Queue", "Baselines"), host.pk),
        **dict.fromkeys(of_campaign, campaign.pk),
        **dict.fromkeys(("Run", "RunExport", "Proof", "Observed"), run.pk),
        "Identity": host.identity_id,
        "Trouble": Trouble.objects.first().pk,  # type: ignore[union-attr]
        "Profile": team["profile"].pk,
        "Setting": "cpu_affinity",
        "Recipe": "cpu-scaling",
        "RecipeFile": "cpu-scaling",
        "Workload": team["workload"].pk,
        "DataSet": team["dataset"].pk,
        "DataCopy": team["dataset"].copies.first().pk,
        "Twin": team["twin"].pk,
        "Schedule": team["schedule"].pk,
        "Searches": team["search"].pk,
        "RunPart": part.pk,  # type: ignore[union-attr]
        "Artefact": run.artefacts.first().pk,
        "Series": run.series.first().pk,
        "Measurement": run.measurements.first().pk,
        "Import": team["upload"].pk,
        "Pin": team["pins"][0].pk,
        "Decision": team["decision"].pk,
        "Team": team["owners"].pk,
        "User": team["viewer"].pk,
        "Channel": team["channel"].pk,
        "Delivery": team["channel"].deliveries.first().pk,
        "Token": 1,
        "TrustedJob": 1,
        "Session": "5f0c0e5a-6c1e-4f0e-8a38-6d1d5b3f7a11",
    }


def _walled_tables() -> set[str]:
    models = [model for model in apps.get_models(include_auto_created=True) if _is_walled(model)]
    return {model._meta.db_table for model in models}


def _is_walled(model: Any) -> bool:
    """The table that links two models is walled with either of them."""
    if not model._meta.auto_created:
        return issubclass(model, Walled)
    return any(issubclass(field.related_model, Walled) for field in model._meta.fields if field.is_relation)


def _copy(rows: filled.Rows, *, walled: bool) -> None:
    tables = _walled_tables()
    of_these = {name: data for name, data in rows.by_table.items() if (name.partition(" ")[0] in tables) == walled}
    filled._copy(filled.Rows(rows.returned, of_these, {}))


def _keys_of(rows: filled.Rows, model: Any) -> list[str]:
    """Primary keys among the copied rows of a table."""
    for name, data in rows.by_table.items():
        table, _, columns = name.partition(" ")
        if table == model._meta.db_table:
            place = columns.strip("()").split(", ").index(model._meta.pk.column)
            return [line.split("\t")[place] for line in data.decode().splitlines()]
    return []


def plain(text: str) -> str:
    """A response without what differs each time."""
    for pattern, replacement in VARYING:
        text = pattern.sub(replacement, text)
    return text


def ask(user: User, requests: Iterable[Request]) -> dict[Request, Answer]:
    """Status, body and redirect of each; what they change is undone."""
    clients = {is_api: (APIClient if is_api else Client)(raise_request_exception=False) for is_api in (True, False)}
    for client in clients.values():
        client.force_login(user)
    answers = {request: _answer(clients[request.is_api], request) for request in requests}
    Session.objects.filter(user=user).delete()
    return answers


def _answer(client: Client, request: Request) -> Answer:
    cookies = client.cookies.copy()  # a logout removes the session's
    with transaction.atomic():
        answer: Any = getattr(client, request.method)(request.url)
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        transaction.set_rollback(True)
    client.cookies = cookies
    return answer.status_code, plain(body.decode(errors="replace")), answer.headers.get("Location", "")


def first_difference(expected: Answer, observed: Answer) -> tuple[Any, ...]:
    """Both statuses, and where the bodies begin to differ."""
    one, other = expected[1], observed[1]
    at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    around = slice(max(0, at - 60), at + 120)
    return expected[0], observed[0], one[around], other[around], expected[2], observed[2]
