"""Every endpoint with every role. An endpoint that is missing in the table fails here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.core.cache import cache
from django.db import transaction
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone
from rest_framework.test import APIClient

from apps.accounts.models import Channel, Delivery, Role, Session, Team, TrustedJob
from apps.campaigns.models import Artefact, Campaign, RunPart
from apps.decisions.models import Decision
from apps.hosts.models import Trouble
from apps.results.models import Import, Pin, Series
from tests.rows import filled
from tests.rows.factories import (
    browser,
    issue_token,
    make_campaign,
    make_copy,
    make_profile,
    make_schedule,
    make_search,
    make_twin,
    make_user,
)

# The role that each writing endpoint needs. All users may read, except for endpoints in READERS.
FILES = {"CampaignExport": "runs.csv", "RunExport": "series.csv"}
READERS = {"Import.retrieve": Role.OPERATOR, "Audit.entries": Role.ADMIN}
WRITERS = {
    "Host.create": Role.ADMIN,
    "Host.partial_update": Role.ADMIN,
    "Host.fetch_host_key": Role.ADMIN,
    "Host.approve_host_key": Role.ADMIN,
    "Host.check": Role.OPERATOR,
    "Host.reserve": Role.OPERATOR,
    "Host.give_up": Role.OPERATOR,
    "Host.destroy": Role.ADMIN,
    "Host.release": Role.ADMIN,
    "Host.allow_cluster": Role.ADMIN,
    "Host.forbid_cluster": Role.ADMIN,
    "Host.save_remote_server": Role.ADMIN,
    "Host.check_remote_server": Role.OPERATOR,
    "Host.remove_remote_server": Role.ADMIN,
    "Host.allow_path": Role.ADMIN,
    "Host.forbid_path": Role.ADMIN,
    "Host.restore": Role.ADMIN,
    "Host.install_units": Role.ADMIN,
    "Host.uninstall_units": Role.ADMIN,
    "Trouble.dismiss": Role.OPERATOR,
    "Identity.create": Role.ADMIN,
    "Identity.set_certificate": Role.ADMIN,
    "Profile.create": Role.TUNER,
    "Profile.revise": Role.TUNER,
    "Profile.ask": Role.OPERATOR,
    "Workload.create": Role.TUNER,
    "Workload.check": Role.OPERATOR,
    "Recipe.create": Role.TUNER,
    "Recipe.destroy": Role.TUNER,
    "DataSet.create": Role.TUNER,
    "DataSet.prepare": Role.OPERATOR,
    "DataCopy.remove": Role.OPERATOR,
    "Twin.create": Role.TUNER,
    "Campaign.create": Role.OPERATOR,
    "Campaign.start": Role.OPERATOR,
    "Campaign.cancel": Role.OPERATOR,
    "Campaign.pause": Role.OPERATOR,
    "Campaign.resume": Role.OPERATOR,
    "Campaign.clone": Role.OPERATOR,
    "Campaign.extend": Role.OPERATOR,
    "Campaign.retry": Role.OPERATOR,
    "Campaign.partial_update": Role.OPERATOR,
    "Campaign.archive": Role.OPERATOR,
    "Campaign.unarchive": Role.OPERATOR,
    "Campaign.destroy": Role.OPERATOR,
    "Campaign.priority": Role.OPERATOR,
    "Campaign.ask_hosts": Role.OPERATOR,
    "Schedule.create": Role.OPERATOR,
    "Schedule.partial_update": Role.OPERATOR,
    "Schedule.destroy": Role.OPERATOR,
    "Schedule.pause": Role.OPERATOR,
    "Schedule.resume": Role.OPERATOR,
    "Searches.create": Role.OPERATOR,
    "Searches.pause": Role.OPERATOR,
    "Searches.resume": Role.OPERATOR,
    "Searches.stop": Role.OPERATOR,
    "Searches.extend": Role.OPERATOR,
    "Searches.change": Role.OPERATOR,
    "Searches.pick": Role.OPERATOR,
    "Run.cancel": Role.OPERATOR,
    "Run.give_up": Role.OPERATOR,
    "Import.create": Role.OPERATOR,
    "Import.say": Role.OPERATOR,
    "Import.commit": Role.OPERATOR,
    "Import.destroy": Role.OPERATOR,
    "Pin.create": Role.OPERATOR,
    "Pin.partial_update": Role.OPERATOR,
    "Pin.move": Role.OPERATOR,
    "Pin.destroy": Role.OPERATOR,
    "Decision.create": Role.TUNER,
    "Decision.accept": Role.TUNER,
    "Decision.reject": Role.TUNER,
    "Decision.withdraw": Role.TUNER,
    "Decision.renew": Role.TUNER,
    "Decision.confirm": Role.OPERATOR,
    "Feed.create": Role.VIEWER,
    "Feed.destroy": Role.VIEWER,
    "Decision.ask_drift": Role.OPERATOR,
    "Decision.comment": Role.OPERATOR,
    "Token.create": Role.VIEWER,
    "Token.destroy": Role.VIEWER,
    "Token.rotate": Role.VIEWER,
    "TrustedJob.destroy": Role.VIEWER,
    "Session.destroy": Role.VIEWER,
    "User.create": Role.ADMIN,
    "User.partial_update": Role.ADMIN,
    "Team.create": Role.ADMIN,
    "Team.partial_update": Role.ADMIN,
    "Team.destroy": Role.ADMIN,
    "Team.set_member": Role.ADMIN,
    "Team.remove_member": Role.ADMIN,
    "Team.hand_over": Role.ADMIN,
    "Channel.create": Role.VIEWER,
    "Channel.partial_update": Role.VIEWER,
    "Channel.test": Role.VIEWER,
    "Channel.renew_secret": Role.VIEWER,
    "Delivery.retry": Role.VIEWER,
}


@dataclass(frozen=True)
class Endpoint:
    name: str
    method: str
    url_name: str
    room: str
    keys: tuple[str, ...]

    @property
    def needs(self) -> Role:
        return READERS.get(self.name, Role.VIEWER) if self.method == "get" else WRITERS[self.name]


def endpoints(patterns: list[Any] | None = None) -> Iterator[Endpoint]:
    for pattern in get_resolver("apps.api_urls").url_patterns if patterns is None else patterns:
        if isinstance(pattern, URLResolver):
            yield from endpoints(pattern.url_patterns)
        elif isinstance(pattern, URLPattern) and hasattr(pattern.callback, "actions"):
            room = pattern.callback.cls.__name__.removesuffix("ViewSet")
            keys = tuple(pattern.pattern.regex.groupindex)
            for method, action in pattern.callback.actions.items():
                yield Endpoint(f"{room}.{action}", method, f"api:{pattern.name}", room, keys)


ALL = list(endpoints())


@pytest.fixture
def rows(db: None) -> dict[str, Any]:
    return filled.once(one_of_each)


def one_of_each() -> dict[str, Any]:
    """One row for each part of the API: its name -> the key in its addresses."""
    tuner = make_user(Role.TUNER)
    campaign = make_campaign(Campaign.State.FINISHED, by=tuner)
    run = campaign.runs.first()
    assert run is not None
    artefact = Artefact.objects.create(run=run, path="out/measure/stdout", size=3, sha256="0" * 64, content=b"tps")
    series = Series.objects.create(run=run, step="measure", source="cpu", columns=["t"])
    decided = {"settings": {"cpu_affinity": {"server": "0"}}, "evidence": {}}
    decision = Decision.objects.create(campaign=campaign, author=tuner, title="t", decision="d", **decided)
    decision.hosts.add(campaign.host)
    copy = make_copy(host=campaign.host, by=tuner)
    part = RunPart.objects.create(run=run, host=campaign.host, role="server", position=0, spec=run.spec)
    part.artefacts.create(path="out/measure/stdout", size=3, sha256="0" * 64, content=b"LOG")
    channel = Channel.objects.create(name="mine", owner=tuner, kind="mail", address="t@example.org")
    address = "https://hooks.example.org/"
    webhook = Channel.objects.create(name="room", owner=tuner, kind="webhook", address=address)
    return {
        "Host": campaign.host_id,
        "Identity": campaign.host.identity_id,
        "Trouble": Trouble.objects.create(host=campaign.host, run=run.pk, kind=Trouble.Kind.CONFLICT).pk,
        "Profile": make_profile(by=tuner).profile_id,
        "Setting": "cpu_affinity",
        "Recipe": "cpu-scaling",
        "RecipeFile": "cpu-scaling",
        "Workload": campaign.workload_id,
        "DataSet": copy.dataset_id,
        "DataCopy": copy.pk,
        "Twin": make_twin(by=tuner).pk,
        "Campaign": campaign.pk,
        "Results": campaign.pk,
        "Summary": campaign.pk,
        "Judgements": campaign.pk,
        "OnHosts": campaign.pk,
        "Queue": campaign.host_id,
        "Baselines": campaign.host_id,
        "CampaignExport": campaign.pk,
        "RunExport": run.pk,
        "Run": run.pk,
        "Schedule": make_schedule(campaign, by=tuner).pk,
        "Searches": make_search(campaign, by=tuner).pk,
        "RunPart": part.pk,
        "Proof": run.pk,
        "Observed": run.pk,
        "Artefact": artefact.pk,
        "Series": series.pk,
        "Measurement": run.measurements.first().pk,  # type: ignore[union-attr]
        "Import": Import.objects.create(digest="0" * 64, title="old.zip", created_by=tuner).pk,
        "Pin": Pin.objects.create(title="p", address=f"/runs/{run.pk}/", chart="time", by=tuner).pk,
        "Decision": decision.pk,
        "Me": None,
        "Version": None,
        "Compare": [f"level:{campaign.pk}:{label}" for label in ("1 cpu", "2 cpus")],
        "Audit": None,
        "Session": Session.objects.create(session_key="k", expire_date=timezone.now(), user=tuner).public,
        "Why": None,
        "Timeline": None,
        "Search": None,
        "Palette": None,
        "Feed": None,
        "Token": issue_token(tuner, "t", Role.VIEWER)[0].pk,
        "TrustedJob": TrustedJob.objects.create(
            user=tuner, name="nightly", issuer="https://ci.example.org", claims={"repository": "shop"}, minutes=15
        ).pk,
        "User": tuner.pk,
        "Team": Team.objects.create(name="storage").pk,
        "Channel": channel.pk,
        "Delivery": Delivery.objects.create(channel=webhook, kind="test", subject="s", payload={}).pk,
    }


def test_each_writing_endpoint_has_a_rule_and_each_rule_an_endpoint() -> None:
    assert {each.name for each in ALL if each.method != "get"} == set(WRITERS)


def test_the_table_of_addresses_is_read() -> None:
    assert len(ALL) > 50


def test_each_endpoint_requires_its_role(rows: dict[str, Any]) -> None:
    clients = {role: browser(make_user(role)) for role in Role}

    wrong = {each.name: what for each in ALL if (what := refusals_that_differ(each, rows, clients))}

    assert wrong == {}


def refusals_that_differ(endpoint: Endpoint, rows: dict[str, Any], clients: dict[Role, APIClient]) -> list[Any]:
    """What an endpoint answers each role and a request without login, where its rule says otherwise. Nothing of the
    requests remains."""
    keys = dict.fromkeys(endpoint.keys, rows[endpoint.room])
    file = FILES.get(endpoint.room)
    url = reverse(endpoint.url_name, kwargs=keys | ({"file": file} if file else {}))
    until = 2 if endpoint.room == "Series" else 1  # seconds there, revisions elsewhere
    parameters = {"from": 1, "to": until, "host": rows["Host"], "file": "shell", "path": "out/measure/stdout", "q": "t"}
    parameters |= {"of": rows["Compare"]}
    query = parameters if endpoint.method == "get" else {}
    done = [200] if endpoint.method == "get" else [200, 201, 202, 204, 400, 404, 415, 502]

    cache.clear()  # limits of requests
    with transaction.atomic():
        answers = {role: getattr(client, endpoint.method)(url, query) for role, client in clients.items()}
        anonymous = getattr(APIClient(), endpoint.method)(url, query)
        transaction.set_rollback(True)

    wrong: list[Any] = []
    for role, answer in answers.items():
        if role.includes(endpoint.needs):
            wrong += [] if answer.status_code in done else [(role, answer.status_code, answer.content)]
            continue
        refusal = (answer.status_code, answer["Content-Type"])
        sentence = f"is {role.value}; this needs {endpoint.needs.value}"
        if refusal != (403, "application/problem+json") or sentence not in answer.json()["title"]:
            wrong.append((role, *refusal, answer.content))
    refusal = (anonymous.status_code, anonymous.get("WWW-Authenticate"))
    if refusal != (401, "Bearer") or anonymous.json()["hint"] != "log in, or send Authorization: Bearer TOKEN":
        wrong.append(("without login", *refusal, anonymous.content))
    return wrong
