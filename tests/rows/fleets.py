"""Rows of campaigns that take several hosts: the same on each, and a primary with a standby and a client."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from django.utils import timezone

from apps.accounts.models import User
from apps.campaigns import services
from apps.campaigns.execution import campaign_end
from apps.campaigns.models import Artefact, Campaign, Run, RunEvent
from apps.hosts.models import Host
from tests.rows import populate

LEVELS = (("1 cpu", "0"), ("2 cpus", "0,1"))


def team(by: User) -> dict[str, Campaign]:
    """On hosts of their own."""
    each = [populate.host("rack-1"), populate.host("rack-2")]
    roles = {name: populate.host(f"net-{name}") for name in ("client", "server", "standby")}
    return {"on_each": on_each(by, each), "with_standby": with_standby(by, **roles)}


def on_each(by: User, hosts: list[Host]) -> Campaign:
    """Three blocks on each; the second host gains less."""
    factor = {"name": "server cpus", "levels": [_level(label, cpus) for label, cpus in LEVELS]}
    planned = services.create_from_recipe(
        by=by,
        host=hosts[0],
        recipe="cpu-scaling",
        name="Two generations of servers",
        factors=[factor],
        repetitions=3,
        seed=7,
        placement=Campaign.Placement.EACH,
        further_hosts=hosts[1:],
    )
    return _ended(planned, by, {hosts[0]: (9800.0, 18600.0), hosts[1]: (9900.0, 11200.0)})


def with_standby(by: User, *, client: Host, server: Host, standby: Host) -> Campaign:
    planned = services.create_from_recipe(
        by=by,
        host=server,
        recipe="synchronous-replication",
        name="Waiting for a standby",
        repetitions=1,
        seed=7,
        roles={
            "client": client.pk,
            "standbys": [standby.pk],
            "addresses": {str(host.pk): "127.0.0.1" for host in (client, server, standby)},
        },
    )
    done = _ended(planned, by, {})
    for run in done.runs.all():
        for part in run.parts.all():
            part.state, part.outcome, part.agent_state, part.last_seq = "ended", "ok", "SEALED", 1
            part.save()
            entry = {"level": "info", "message": f"{part.name} streams"}
            RunEvent.objects.create(part=part, seq=1, at=run.ended_at, kind="log", data=entry)
            Artefact.objects.create(part=part, path="out/postgresql.log", size=7, sha256="", content=b"LOG: ok")
    return done


def _level(label: str, cpus: str) -> dict[str, Any]:
    return {"label": label, "set": {"settings.cpu_affinity.server": cpus}}


def _ended(planned: Campaign, by: User, rates: dict[Host, tuple[float, float]]) -> Campaign:
    services.start_campaign(planned, by=by)
    chance, begin = random.Random(1), timezone.now() - timedelta(hours=1)
    labels = sorted({run.label for run in planned.runs.all()})
    for run in planned.runs.order_by("position"):
        mean = rates.get(run.host, (6000.0,) * len(labels))[labels.index(run.label)]
        _end(run, begin + timedelta(seconds=9 * run.position), mean * chance.gauss(1, 0.006))
    campaign_end.close_campaign(planned.pk)
    planned.refresh_from_db()
    return planned


def _end(run: Run, at: Any, tps: float) -> None:
    run.spec["settings"].setdefault("cpu_affinity", {"server": "0"})
    populate.end_well(run, at, tps)
