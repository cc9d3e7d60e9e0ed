"""Decided parameters compared with those in effect in real clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.decisions.configuration_drift import comparison, report
from apps.decisions.evidence.conditions import Range
from apps.decisions.models import Decision
from apps.hosts import contact
from apps.hosts.access import replies
from apps.hosts.models import Host
from tests.agents.theirs import Theirs
from tests.apps.decisions.test_drift import decide
from tests.rows.factories import FACTS, browser
from tests.servers.remote import short_dir
from tests.session.needs import require

Make = Callable[..., Theirs]
WORK_MEM = {"postgresql": {"work_mem": "8MB"}}


@pytest.fixture
def theirs() -> Iterator[Make]:
    """Starts existing clusters with these lines in their configuration."""
    require("postgresql-15")
    started = []

    def start(*lines: str, port: int = 5499) -> Theirs:
        started.append(Theirs(root / str(port), port=port).create().configure(*lines))
        return started[-1].start()

    with short_dir() as root:
        yield start
        for cluster in started:
            cluster.stop()


def by_hand(cluster: Theirs, name: str, value: str) -> None:
    """As a DBA changes it, until new sessions have it or it waits for a restart."""
    cluster.sql(f"alter system set {name} = '{value}'")
    cluster.sql("select pg_reload_conf()")
    now = f"select current_setting(name) = '{value}' or pending_restart from pg_settings where name = '{name}'"
    while cluster.sql(now) != "t":
        pass


def about(decision: Decision, cluster: Theirs) -> Decision:
    """Its campaign has measured this cluster."""
    decision.campaign.target = {"data_dir": str(cluster.data)}
    decision.campaign.save()
    return decision


def parameters(drift: report.HostDrift) -> list[comparison.ComparedValue]:
    """Of its rows those of clusters: the levels of its campaign pin cpus as well."""
    return [row for row in drift.rows if row.cluster]


@pytest.mark.django_db(transaction=True)
def test_a_parameter_that_was_altered_by_hand_is_found(theirs: Make, host: Host, admin: User, client: Client) -> None:
    cluster = theirs("work_mem = 8192")
    settings = {"postgresql": {"work_mem": "8MB", "shared_buffers": "16384kB", "fsync": False, "max_connections": 20}}
    decision = about(decide(admin, host, settings), cluster)

    as_decided = report.ask(decision, host, by=admin)
    by_hand(cluster, "work_mem", "9MB")
    by_hand(cluster, "max_connections", "30")
    drifted = report.ask(decision, host, by=admin)

    assert {(row.key, row.state) for row in parameters(as_decided)} == {
        (name, "same") for name in settings["postgresql"]
    }
    assert {row.cluster for row in parameters(as_decided)} == {str(cluster.data)}
    assert {row.key: row.found for row in drifted.differing} == {
        "work_mem": f"9MB of {cluster.data}/postgresql.auto.conf line 3",
        "max_connections": "20; another value takes effect after a restart",
    }
    client.force_login(admin)
    page = client.get(reverse("drift")).content.decode()
    assert f"here: 2 of {len(drifted.rows)} values" in page and f"of {cluster.data}" in page
    rows = browser(admin).get(f"/api/v1/decisions/{decision.pk}/drift/").json()[0]["rows"]
    assert {row["cluster"] for row in rows} == {str(cluster.data), ""}


@pytest.mark.django_db(transaction=True)
def test_reported_parameters_outlive_newer_facts_with_their_date(theirs: Make, host: Host, admin: User) -> None:
    cluster = theirs("work_mem = 4MB")
    decision = about(decide(admin, host, WORK_MEM), cluster)
    fresh = report.ask(decision, host, by=admin)

    contact.check_host(host)

    (stored,) = report.host_drifts(decision)
    assert (stored.asked, stored.state) == (False, "differs")
    (row,) = parameters(stored)
    assert fresh.at and row.why == f"reported by PostgreSQL on {fresh.at:%Y-%m-%d %H:%M}"


@pytest.mark.django_db(transaction=True)
def test_values_of_several_clusters_name_their_cluster(theirs: Make, host: Host, admin: User) -> None:
    first, second = theirs("work_mem = 8MB"), theirs("work_mem = 1MB", port=5498)

    fresh = report.ask(decide(admin, host, WORK_MEM), host, by=admin)

    states = {row.cluster: row.state for row in parameters(fresh)}
    assert (states[str(first.data)], states[str(second.data)]) == ("same", "differs")


@pytest.mark.django_db(transaction=True)
def test_values_of_a_stopped_cluster_are_not_comparable(theirs: Make, host: Host, admin: User) -> None:
    cluster = theirs()
    host.pg_data_dirs = [str(cluster.data)]
    host.save()
    cluster.stop()

    fresh = report.ask(about(decide(admin, host, WORK_MEM), cluster), host, by=admin)

    (parameter,) = parameters(fresh)
    assert (parameter.state, parameter.found) == ("not comparable", None)
    assert "is not running" in parameter.why


def row(show: str, **changes: Any) -> dict[str, Any]:
    """Of work_mem in pg_settings."""
    known = {"setting": "8192", "unit": "kB", "vartype": "integer", "source": "configuration file", "sourcefile": "/c"}
    return {**known, "sourceline": 1, "pending_restart": False, "show": show, **changes}


def reported(**shown: Any) -> list[dict[str, Any]]:
    return [{"name": "15/main", "data_dir": "/d", "settings": shown, "refused": None}]


def test_a_value_of_one_role_is_not_comparable_with_other_sessions() -> None:
    (compared,) = comparison.rows(FACTS, WORK_MEM, {}, reported(work_mem=row("8MB", source="user")))

    assert (compared.state, compared.why) == ("not comparable", "8MB from user; values of other sessions are unknown")


def test_a_hidden_parameter_is_not_comparable_and_a_missing_one_differs() -> None:
    (hidden,) = comparison.rows(FACTS, WORK_MEM, {}, reported())
    (missing,) = comparison.rows(FACTS, WORK_MEM, {}, reported(work_mem=None))

    assert (hidden.state, "grant pg_read_all_settings" in hidden.why) == ("not comparable", True)
    assert (missing.state, missing.found) == ("differs", "unknown parameter")


def cluster(data_dir: str, major: int, running: bool = True) -> dict[str, Any]:
    return {"name": data_dir, "data_dir": data_dir, "major": major, "running": running}


@pytest.mark.parametrize(
    ("data_dir", "versions", "expected"),
    [
        ("", Range(), ["/15", "/16"]),
        ("/15", Range(), ["/15"]),
        ("/elsewhere", Range(), ["/15", "/16"]),
        ("", Range("16", "18"), ["/16"]),
        ("", Range("14", "14"), ["/14"]),
        ("", Range("9", "9"), []),
    ],
)
def test_the_measured_cluster_is_queried_or_else_clusters_of_the_decided_versions(
    data_dir: str, versions: Range, expected: list[str]
) -> None:
    facts = FACTS | {"clusters": [cluster("/14", 14, running=False), cluster("/15", 15), cluster("/16", 16)]}

    request = comparison.parameters_to_query(facts, WORK_MEM, data_dir, versions)

    assert [each["data_dir"] for each in request["clusters"]] == expected
    assert request["names"] == ["work_mem"]


def test_clusters_that_any_account_may_have_started_do_not_displace_those_of_a_unit() -> None:
    by_hand = [cluster(f"/home/mine/{number}", 16) for number in range(1000)]
    of_unit = cluster("/srv/pg", 16) | {"unit": "postgresql@16-main.service"}

    request = comparison.parameters_to_query(FACTS | {"clusters": [*by_hand, of_unit]}, WORK_MEM, "", Range())

    assert request["clusters"][0] == of_unit
    assert len(request["clusters"]) == replies.MAX_QUERIED
