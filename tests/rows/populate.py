"""The rows of a team after a month: users, hosts with facts, campaigns with runs, a decision."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import numpy as np
from django.contrib.auth.hashers import make_password
from django.utils import timezone

from agents.wire.protocol import digest
from apps.accounts.models import Channel, Delivery, Role, Team, User
from apps.accounts.team import teams
from apps.campaigns import services
from apps.campaigns.design.steps import single
from apps.campaigns.execution import campaign_end
from apps.campaigns.library import copies, datasets, preparing, workloads
from apps.campaigns.models import Artefact, Campaign, DataSet, Run, RunEvent
from apps.decisions import services as decisions
from apps.decisions.models import Decision, Event
from apps.hosts import contact
from apps.hosts import services as hosts
from apps.hosts.access import keys
from apps.hosts.models import Facts, Host, HostKey, Identity, Trouble
from apps.infrastructure import vault
from apps.results import services as results
from apps.results.models import Import, Measurement, StepStability
from apps.results.runs import stability
from apps.results.store import fold, ingest
from apps.tuning import services as tuning
from apps.tuning.models import Profile
from tests.rows import pinned, proofs, scheduled, searched, split, storage
from tests.rows.factories import make_recipe, make_twin
from tests.servers.machine import facts, kernel

PASSWORD = "correct horse battery"
TPS = {"1 cpu": 9810.0, "2 cpus": 18650.0, "4 cpus": 30120.0}


def user(role: Role, name: str = "") -> User:
    return User.objects.create(username=name or f"a-{role.value}", password=_hashed(), role=role)


@cache
def _hashed() -> str:
    """Once for all: hashing is slow on purpose."""
    return make_password(PASSWORD)


def host(name: str = "bench-01", *, state: str = Host.State.READY, checked: bool = True, **fields: Any) -> Host:
    """Pinned and checked, unless `checked` is False: then it is new, and has offered a key."""
    public, private = keys.generate(f"proving-ground {name}")
    identity, _ = Identity.objects.get_or_create(
        name="bench-2026", defaults={"public_key": public, "private_key_encrypted": vault.encrypt(private)}
    )
    added = Host.objects.create(
        name=name,
        address=f"{name}.example.net",
        user="proving",
        identity=identity,
        state=state if checked else Host.State.NEW,
        machine_id=digest(name)[:32] if checked else "",
        level="root" if checked else "",
        agent_digest=digest("agent") if checked else "",
        last_contact_at=timezone.now() if checked else None,
        **fields,
    )
    key = HostKey(host=added, key=public, fingerprint=keys.fingerprint(public))
    if checked:
        key.state, key.approved_at = HostKey.State.PINNED, timezone.now()
        key.approved_by = User.objects.filter(role=Role.ADMIN).first()
        older = facts(kernel=kernel(release="6.12.41-amd64"))
        Facts.objects.create(host=added, number=1, digest=digest(1), data=older)
        Facts.objects.create(host=added, number=2, digest=digest(2), data=facts())
    key.save()
    return added


def campaign(by: User, on: Host, *, repetitions: int = 5, name: str = "CPU isolation and scaling") -> Campaign:
    """A draft from the recipe cpu-scaling, with three levels."""
    factor = {
        "name": "server cpus",
        "levels": [
            {"label": label, "set": {"settings.cpu_affinity.server": cpus}}
            for label, cpus in (("1 cpu", "0"), ("2 cpus", "0,1"), ("4 cpus", "0-3"))
        ],
    }
    return services.create_from_recipe(
        by=by, host=on, recipe="cpu-scaling", name=name, factors=[factor], repetitions=repetitions, seed=7
    )


def started(by: User, on: Host, **options: Any) -> Campaign:
    planned = campaign(by, on, **options)
    services.start_campaign(planned, by=by)
    return planned


def finished(by: User, on: Host, *, failed: int = 1, not_in_effect: int = 1, **options: Any) -> Campaign:
    """Every run has ended: most of them ok, a few not."""
    done = started(by, on, **options)
    chance = random.Random(42)
    runs = list(done.runs.order_by("position"))
    begin = timezone.now() - timedelta(hours=2)
    for place, run in enumerate(runs):
        at = begin + timedelta(seconds=9 * place)
        if place in range(3, 3 + failed):
            end_badly(run, at, Run.Outcome.FAILED)
        elif place in range(7, 7 + not_in_effect):
            end_badly(run, at, Run.Outcome.NOT_IN_EFFECT)
        else:
            end_well(run, at, TPS[run.label] * chance.gauss(1, 0.006))
    campaign_end.close_campaign(done.pk)
    done.refresh_from_db()
    return done


def begin(run: Run, at: datetime) -> None:
    """The agent has it."""
    run.state, run.started_at, run.epoch = Run.State.RUNNING, at, 12 + run.position
    run.agent_state, run.step = "RUNNING", "measure"
    run.save()


def record_events(run: Run, at: datetime, tps: float, seconds: int = 5) -> None:
    """Events of a run that is measured for `seconds`."""
    cpus = run.spec["settings"].get("cpu_affinity", {}).get("server", "0")
    events: list[tuple[float, str, dict[str, Any]]] = [
        (0.0, "state", {"state": "APPLYING", "step": ""}),
        (
            0.1,
            "command",
            {"purpose": "initdb", "argv": ["/usr/lib/postgresql/17/bin/initdb", "-D", "/var/lib/x"], "env": {}},
        ),
        (1.2, "proof", _proof("before", "server: postmaster", cpus)),
        (1.3, "state", {"state": "RUNNING", "step": "measure"}),
        (
            1.4,
            "command",
            {"purpose": "measure", "argv": ["pgbench", "-n", "-M", "prepared", "-c", "8"], "env": {"PGHOST": "/run/x"}},
        ),
        (1.4, "measuring", {"step": "measure", "began": at.timestamp() + 1.4}),
        (2.0, "log", {"level": "info", "message": "PostgreSQL and the load generator run as postgres"}),
    ]
    for second in range(1, seconds + 1):
        events.append(
            (
                1.4 + second,
                "progress",
                {"step": "measure", "done": second / seconds, "eta_s": seconds - second, "note": ""},
            )
        )
        for source, values in _samples(tps, second).items():
            events.append(
                (1.4 + second, "sample", {"step": "measure", "source": source, "t": float(second), "values": values})
            )
    events.append((6.0, "proof", _proof("during", "server: every process and thread", cpus)))
    begin(run, at)
    rows = [
        RunEvent(run=run, seq=seq, at=at + timedelta(seconds=offset), kind=kind, data=data)
        for seq, (offset, kind, data) in enumerate(events, start=1)
    ]
    RunEvent.objects.bulk_create(rows)
    run.last_seq = len(rows)
    run.save()


def _proof(phase: str, subject: str, cpus: str, actual: str = "") -> dict[str, Any]:
    evidence = {
        "source": "Cpus_allowed_list of /proc/PID/status",
        "processes": [{"pid": 4711, "name": "postgres", "cpus": actual or cpus, "last_cpu": 0}],
    }
    proof = {"setting": "cpu_affinity", "phase": phase, "subject": subject, "wanted": cpus, "found": actual or cpus}
    return {**proof, "ok": not actual or actual == cpus, "evidence": evidence}


def _samples(tps: float, second: int) -> dict[str, dict[str, float]]:
    wave = 1 + 0.01 * np.sin(second)
    busy = {f"cpu{n}.busy": 96.0 - 3 * n + second for n in range(4)}
    return {
        "pgbench": {"tps": tps * wave, "latency_ms": 8000 / tps / wave, "stddev_ms": 0.09},
        "cpu": {"busy": 41.0 + second, "user": 30.0, "system": 11.0, "iowait": 0.2, **busy},
    }


def end_well(run: Run, at: datetime, tps: float) -> None:
    """ok, proven, with measurements, series and raw output."""
    record_events(run, at, tps)
    out = f"pgbench (17.6)\ntps = {tps:.6f} (without initial connection time)\n".encode()
    Artefact.objects.create(run=run, path="out/measure/stdout", size=len(out), sha256=digest(str(out)), content=out)
    _end(run, at, Run.Outcome.OK, None)
    figures = (("tps", tps, "1/s", "higher"), ("latency_avg", 8000 / tps, "ms", "lower"))
    for name, value, unit, better in figures:
        Measurement.objects.create(run=run, step="measure", name=name, value=value, unit=unit, better=better)
    fold.fold(run)
    StepStability.objects.bulk_create(stability.stability_findings(run))
    proof = {"checked": 2, "ok": 2, "lines": [f"cpu_affinity server: {run.spec['settings']['cpu_affinity']['server']}"]}
    Run.objects.filter(pk=run.pk).update(ingested_at=timezone.now(), proof=proof)


def end_badly(run: Run, at: datetime, outcome: str) -> None:
    """failed with the tool's last words, or not in effect with wanted and found."""
    error: dict[str, Any] = {
        "blame": "workload",
        "message": "measure ended with exit code 2: pgbench",
        "hint": "read the last lines of its output",
        "stderr": "pgbench: error: \x1b[31mFATAL\x1b[0m: <b>sorry, too many clients already</b>",
    }
    if outcome == Run.Outcome.NOT_IN_EFFECT:
        error = {
            "blame": "host",
            "message": "cpu_affinity (server: postmaster) is not in effect",
            "hint": "",
            "wanted": "0,1",
            "found": "0",
        }
    begin(run, at)
    _end(run, at, outcome, error)
    ingest.ingest(run)


def _end(run: Run, at: datetime, outcome: str, error: dict[str, Any] | None) -> None:
    timings = {"RECEIVED": 0.02, "APPLYING": 1.31, "VERIFIED": 0.01, "RUNNING": 5.62, "ROLLING_BACK": 0.35}
    run.manifest = {
        "run": str(run.pk),
        "digest": run.digest,
        "agent": digest("agent"),
        "outcome": outcome,
        "error": error,
        "clean": True,
        "conflicts": [],
        "last_seq": run.last_seq,
        "timings": timings,
        "files": [],
    }
    run.state, run.outcome, run.error, run.ended_at = Run.State.ENDED, outcome, error, at + timedelta(seconds=8)
    run.agent_state, run.next_tick_at = "SEALED", None
    run.save()


def profile(by: User, name: str = "oltp") -> Profile:
    """Two revisions that differ."""
    first = tuning.create_profile(
        name, {"postgresql": {"shared_buffers": "4GB"}}, description="our OLTP machines", by=by
    )
    settings = {"postgresql": {"shared_buffers": "8GB", "max_wal_size": "16GB"}, "cpu_affinity": {"server": "0-3"}}
    tuning.revise(first.profile, settings, note="more shared_buffers", by=by)
    return first.profile


def big_profile(by: User, name: str = "everything") -> Profile:
    """Every kind of setting; no simulated host supports two of them."""
    settings = {
        "cpu_affinity": {"server": "0-3", "client": "99"},
        "numa": {"policy": "membind", "nodes": "7"},
        "transparent_huge_pages": {"enabled": "never", "defrag": "madvise"},
        "huge_pages": {"use": "on", "pool": "auto"},
        "postgresql": {"shared_buffers": "8GB", "work_mem": "64MB", "max_wal_size": "16GB", "jit": "off"},
    }
    return tuning.create_profile(name, settings, description="all at once", by=by).profile


def workload(by: User, name: str = "tpcb-small") -> Any:
    options = {"builtin": "tpcb-like", "scale": 10, "clients": 8, "jobs": 2, "time_s": 10}
    return workloads.save_workload(name, single("pgbench", options), description="a small TPC-B", by=by)


def dataset(by: User, name: str = "accounts") -> DataSet:
    options = {"scale": 4000, "fillfactor": 90, "foreign_keys": True}
    return datasets.save_dataset(name, "pgbench", options, description="64 GB, twice the memory of bench-01", by=by)


MADE = [["d", 0.02], ["t", 0.05], ["g", 618.4], ["v", 40.2], ["p", 244.9], ["f", 95.0]]


def data_told(dataset: DataSet, state: str, **changes: Any) -> dict[str, Any]:
    """An event of kind dataset, as an agent sends it."""
    fingerprint = dataset.digest
    return {
        "fingerprint": fingerprint,
        "home": "/var/lib/proving-ground/clusters/3f2a90c1d7aa",
        "name": str(dataset),
        "kind": dataset.kind,
        "options": dataset.options,
        "major": 17,
        "database": f"ds_{fingerprint[:12]}",
        "state": state,
        "size": 63_412_000_000 if state != "preparing" else None,
        "seconds": MADE if state != "preparing" else None,
        "made_by": None,
        "made_at": 1780000000.0 if state != "preparing" else None,
        "relations": {"public.pgbench_accounts": {"bytes": 54_000_000_000, "rows": 400_000_000}},
        "used": None,
        **changes,
    }


def preparation(by: User, of: DataSet, on: Host, at: datetime, *, ended: bool = True) -> Campaign:
    """A data set that was made on a host, or is being made."""
    made = preparing.prepare(of, on, by=by)
    run = made.runs.get()
    begin(run, at)
    events: list[tuple[float, str, dict[str, Any]]] = [
        (1.0, "state", {"state": "RUNNING", "step": "dataset"}),
        (2.0, "dataset", data_told(of, "preparing")),
    ]
    note = "g: generate data, on the client, 120,000,000 of 400,000,000 rows"
    events.append((190.0, "progress", {"step": "dataset", "done": 0.19, "eta_s": 810.0, "note": note}))
    used = {
        "means": "prepared",
        "reason": "for later runs, and it had to be created first",
        "seconds": 0.4,
        "wrote": None,
    }
    if ended:
        events.append((1000.0, "dataset", data_told(of, "pristine", made_by=str(run.pk), used=used)))
    rows = [
        RunEvent(run=run, seq=seq, at=at + timedelta(seconds=offset), kind=kind, data=data)
        for seq, (offset, kind, data) in enumerate(events, start=1)
    ]
    RunEvent.objects.bulk_create(rows)
    Run.objects.filter(pk=run.pk).update(last_seq=len(rows), step="dataset")
    copies.learn(run, [data for _, kind, data in events if kind == "dataset"])
    if ended:
        Run.objects.filter(pk=run.pk).update(
            state=Run.State.ENDED, outcome=Run.Outcome.OK, ended_at=at + timedelta(seconds=1003),
            ingested_at=at + timedelta(seconds=1004), next_tick_at=None,
        )  # fmt: skip
        campaign_end.close_campaign(made.pk)
    return made


def decision(by: User, on: Campaign, title: str = "Give PostgreSQL four cpus on bench-01") -> Decision:
    text = "The batch job keeps cpus 4-7; PostgreSQL has 0-3."
    return decisions.write_decision(
        by=by, campaign=on, title=title, decision=text, reasons="Throughput grows with cpus.", level="4 cpus"
    )


def went_stale(decision: Decision) -> None:
    """As if PostgreSQL had been upgraded on its host."""
    standing, now = decision.standings.get(), timezone.now()
    sentence = "PostgreSQL was 17.6 and is 18.6."
    reason = {"fact": "postgresql", "before": "17.6", "after": "18.6", "words": sentence}
    decision.standings.update(reasons=[reason], stale_since=now)
    Event.objects.create(decision=decision, kind=Event.Kind.STALE, host=standing.host, text=sentence)


def uploaded(by: User, *names: str, **mapping: Any) -> Import:
    """A draft of an import of these samples."""
    draft, _ = results.upload([(name, (storage.SAMPLES / name).read_bytes()) for name in names], by=by)
    return results.store_mapping(draft, mapping, by=by)


def imported(by: User) -> Campaign:
    """Outputs of old pgbench versions, one of them aborted, from a host that no longer exists."""
    names = [f"pgbench-{version}-select.out" for version in (12, 14)] + ["pgbench-14-abort.out", "pgbench-14-abort.err"]
    fields = {"name": "Select-only, 12 against 14", "question": "Did the upgrade pay?", "host": "bench-00"}
    draft = uploaded(by, *names, pattern="pgbench-{version}-{_}.out", metric="tps", delta=0.03, **fields)
    return results.commit(draft, by=by)


def notified(admin: User, operator: User, done: Campaign) -> Channel:
    """A webhook with deliveries, and a mail channel of a user. Returns the webhook."""
    fields = {"kind": "mail", "events": ["campaign.finished", "campaign.failed"]}
    Channel.objects.create(name="olga", owner=operator, address="olga@example.net", active=False, **fields)
    secret, url = vault.encrypt("whs_example"), "https://chat.example.net/hooks/4f1d"
    chat = Channel(name="on call", owner=admin, kind="webhook", address=url, secret_encrypted=secret)
    chat.events = ["campaign.failed", "host.quarantined", "host.unreachable"]
    chat.save()
    now, path = timezone.now(), f"/campaigns/{done.pk}/"
    sent = {"state": Delivery.State.SENT, "next_try_at": None, "ended_at": now, "attempts": 1, "status": 204}
    gone = {"state": Delivery.State.FAILED, "next_try_at": None, "ended_at": now, "attempts": 12, "status": 404}
    later = {
        "attempts": 2,
        "next_try_at": now + timedelta(seconds=50),
        "error": "chat.example.net: no answer: timed out",
    }
    for subject, kind, how in (
        ("bench-04: a host was quarantined", "host.quarantined", later),
        (f"{done} has finished", "campaign.finished", sent),
        ("bench-04: a host is unreachable", "host.unreachable", gone | {"error": "answered 404"}),
    ):
        payload = {"text": subject, "path": path}
        Delivery.objects.create(channel=chat, kind=kind, subject=subject, payload=payload, **how)
    return chat


def owners(admin: User, tuner: User) -> Team:
    """A team with a member who is only a viewer in the instance, and its own host and profile."""
    storage = teams.create_team("storage", "disks, file systems, and what they cost", by=admin)
    teams.set_member(storage, user(Role.VIEWER, "sina"), Role.ADMIN, by=admin)
    teams.set_member(storage, tuner, Role.OPERATOR, by=admin)
    host("raid-01", team=storage)
    tuning.create_profile("direct-io", {"cpu_affinity": {"server": "0"}}, team=storage, by=admin)
    return storage


def team() -> dict[str, Any]:
    """All rows for full pages."""
    people = {role.value: user(role, name) for role, name in zip(Role, ("vera", "olga", "tomas", "ada"), strict=True)}
    admin, operator, tuner = people["admin"], people["operator"], people["tuner"]
    here, busy = host(), host("bench-02")
    fresh = host("bench-03", checked=False)
    broken = host("bench-04")
    done = finished(operator, here)
    ok_runs = list(done.runs.filter(outcome=Run.Outcome.OK).order_by("position"))
    not_in_effect = done.runs.filter(outcome=Run.Outcome.NOT_IN_EFFECT).get()
    proofs.record_proofs(ok_runs[0])
    proofs.drifted(not_in_effect)
    conflict = proofs.conflicted(ok_runs[1])
    left = finished(operator, broken, name="Huge pages on the old kernel", repetitions=3)
    dirty_run = left.runs.filter(outcome=Run.Outcome.FAILED).get()
    proofs.dirty(dirty_run)
    contact.report_trouble(broken, left.runs.order_by("position")[0].pk, Trouble.Kind.CONFLICT, conflict.keys)
    hosts.dismiss(Trouble.objects.get(host=broken, kind=Trouble.Kind.CONFLICT), by=operator)
    running = started(operator, busy, name="Scaling on the new kernel")
    now = timezone.now()
    runs = list(running.runs.order_by("position"))
    for place, run in enumerate(runs[:4]):
        end_well(run, now - timedelta(seconds=9 * (5 - place)), TPS[run.label])
    record_events(runs[4], now - timedelta(seconds=4), TPS[runs[4].label], 3)
    Run.objects.filter(pk=runs[4].pk).update(next_tick_at=now)
    stored = storage.finished(admin, here)
    forked = split.finished(tuner, here)
    agreed = decision(tuner, done)
    decisions.accept_decision(agreed, by=admin)
    went_stale(agreed)
    decisions.comment(agreed, "Measured on an idle machine; the batch job was not running.", by=operator)
    accounts = dataset(tuner)
    prepared = preparation(operator, accounts, here, now - timedelta(days=2))
    preparing_run = preparation(
        operator, accounts, host("bench-05"), now - timedelta(minutes=4), ended=False
    ).runs.get()
    return {
        **people,
        "twin": make_twin(accounts, done.workload, by=tuner),
        "owners": owners(admin, tuner),
        "channel": notified(admin, operator, done),
        "dataset": accounts,
        "prepared": prepared,
        "prepared_run": prepared.runs.get(),
        "preparing_run": preparing_run,
        "host": here,
        "fresh": fresh,
        "broken": broken,
        "draft": campaign(operator, here, name="Scaling, again"),
        "finished": done,
        "running": running,
        "storage": stored,
        "split": forked,
        "live_run": runs[4],
        "ok_run": ok_runs[0],
        "conflict": conflict,
        "conflict_run": ok_runs[1],
        "drifted_run": not_in_effect,
        "dirty_run": dirty_run,
        "failed_run": done.runs.filter(outcome=Run.Outcome.FAILED).order_by("position")[0],
        "queued_run": runs[-1],
        "profile": profile(tuner),
        "big_profile": big_profile(tuner),
        "workload": workload(tuner),
        "recipe": make_recipe("ours", by=tuner),
        "decision": agreed,
        "schedule": scheduled.nightly(operator, done),
        "search": searched.finished(done, operator),
        "pins": pinned.dashboard(operator, forked, ok_runs[0]),
        "imported": imported(operator),
        "upload": uploaded(operator, "exp001-dataHP.csv", name="Huge pages", host="bench-00"),
    }
