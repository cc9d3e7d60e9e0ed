"""Functions that create single rows for tests. They connect to no host."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from typing import Any

from django.utils import timezone
from rest_framework.test import APIClient

from apps.accounts.models import Membership, Role, Team, User
from apps.accounts.tokens.lifecycle import Restriction, issue_token
from apps.campaigns import services
from apps.campaigns.design.steps import single
from apps.campaigns.execution import campaign_end
from apps.campaigns.library import datasets, own_recipes, workloads
from apps.campaigns.models import Campaign, DataCopy, DataSet, OwnRecipe, Run, Schedule, Twin, Workload
from apps.campaigns.recipes.reading import dump
from apps.campaigns.schedules.services import create_schedule
from apps.hosts.models import Facts, Host, HostKey, Identity
from apps.results.models import Measurement
from apps.searches.models import Search
from apps.searches.services import create_search
from apps.tuning.models import Revision
from apps.tuning.services import create_profile

PASSWORD = "correct horse battery"
_numbers = count(1)

# A host of four cpus with PostgreSQL 18, as the agent of an ordinary user reads it, shortened.
FACTS: dict[str, Any] = {
    "level": "user",
    "euid": 1000,
    "hostname": "db",
    "machine_id": "0123456789abcdef0123456789abcdef",
    "kernel": {"release": "6.1.0", "version": "#1 SMP", "arch": "x86_64"},
    "os": {"name": "Debian GNU/Linux", "version": "12"},
    "python": "3.11.2",
    "cpus": {
        "online": "0-3",
        "allowed": "0-3",
        "sockets": 1,
        "cores": 4,
        "threads": 4,
        "model": "a processor",
        "topology": [{"cpu": cpu, "socket": 0, "core": cpu, "node": 0} for cpu in range(4)],
    },
    "numa": {"nodes": [{"id": 0, "cpus": "0-3", "mem_kb": 8_000_000}], "distances": [[10]]},
    "memory": {"total_kb": 8_000_000, "available_kb": 6_000_000, "free_kb": 5_000_000, "swap_kb": 0},
    "huge_pages": {"default_kb": 2048, "sizes": [{"kb": 2048, "total": 0, "free": 0, "per_node": {}}]},
    "transparent_huge_pages": {"enabled": "madvise", "defrag": "madvise"},
    "sysctls": {"vm.nr_hugepages": "0"},
    "tools": {name: {"path": f"/usr/bin/{name}", "version": ""} for name in ("taskset", "fio", "numactl")},
    "postgresql": [
        {
            "bin_dir": "/usr/lib/postgresql/18/bin",
            "version": "18.6",
            "major": 18,
            "tools": ["initdb", "pg_test_fsync", "pgbench", "postgres", "psql"],
        }
    ],
}
FACTORS = [
    {
        "name": "server cpus",
        "levels": [
            {"label": "1 cpu", "set": {"settings.cpu_affinity.server": "0"}},
            {"label": "2 cpus", "set": {"settings.cpu_affinity.server": "0,1"}},
        ],
    }
]
OPTIONS = {"builtin": "select-only", "scale": 1, "clients": 2, "jobs": 1, "time_s": 2, "progress_s": 1}


def number_from(first: int) -> None:
    """The next names end in this number."""
    global _numbers
    _numbers = count(first)


def make_user(role: Role = Role.VIEWER, name: str = "") -> User:
    """A user with PASSWORD."""
    return User.objects.create_user(name or f"{role.value}-{next(_numbers)}", password=PASSWORD, role=role)


def make_member(team: Team, role: Role, house: Role = Role.VIEWER) -> User:
    """A user with a role in a team and another in the instance."""
    user = make_user(house)
    Membership.objects.create(team=team, user=user, role=role)
    return user


def make_identity(name: str = "") -> Identity:
    """A public key without the private half."""
    public_key = "ssh-ed25519 AAAA proving-ground"
    return Identity.objects.create(name=name or f"key-{next(_numbers)}", public_key=public_key)


def make_host(name: str = "", *, facts: dict[str, Any] | None = None, **fields: Any) -> Host:
    """A ready host with a pinned key and FACTS; `facts={}` is one that was never checked."""
    number = next(_numbers)
    ready = {"address": "127.0.0.1", "user": "dba", "state": Host.State.READY, "level": "user"} | fields
    ready.setdefault("identity", None)
    ready["identity"] = ready["identity"] or make_identity()
    host = Host.objects.create(name=name or f"db{number}", machine_id=f"{number:032x}", **ready)
    HostKey.objects.create(host=host, key="ssh-ed25519 AAAA", fingerprint=f"SHA256:{number}", state="pinned")
    data = FACTS if facts is None else facts
    if data:
        Facts.objects.create(host=host, number=1, digest="0" * 64, data=data)
    return host


def make_profile(name: str = "", settings: dict[str, Any] | None = None, by: User | None = None) -> Revision:
    """The first revision of a new profile."""
    chosen = {"cpu_affinity": {"server": "0"}} if settings is None else settings
    return create_profile(name or f"profile-{next(_numbers)}", chosen, by=by or make_user(Role.TUNER))


def make_workload(name: str = "", by: User | None = None, **options: Any) -> Workload:
    """A pgbench workload of two seconds."""
    name = name or f"workload-{next(_numbers)}"
    return workloads.save_workload(name, single("pgbench", OPTIONS | options), by=by or make_user(Role.TUNER))


def make_recipe(name: str = "", by: User | None = None, **changes: Any) -> OwnRecipe:
    """A recipe of the team's that compares FACTORS."""
    about = {"version": 1, "name": name or f"recipe-{next(_numbers)}", "title": "Cpus", "question": "Do cpus help?"}
    texts = {"about": "What we always ask.", "chart": "One point per run.", "restarts": "The private cluster."}
    design = {"metric": "tps", "delta": 0.02, "repetitions": 3, "order": "randomised"}
    recipe = {**about, **texts, **design, "steps": single("pgbench", OPTIONS), "factors": FACTORS, **changes}
    return own_recipes.import_recipe(dump(recipe), by=by or make_user(Role.TUNER))


def make_copy(host: Host | None = None, by: User | None = None) -> DataCopy:
    """A pristine data set on a host."""
    number = next(_numbers)
    made = datasets.save_dataset(f"data-{number}", "pgbench", {"scale": number}, by=by or make_user(Role.TUNER))
    target = {"kind": "private", "bin_dir": "/usr/lib/postgresql/18/bin", "data_dir": "/var/lib/x", "os_user": ""}
    about = {"dataset": made, "recipe": {"kind": "pgbench", "options": {}}, "major": 18, "seconds": [["g", 1.5]]}
    where = {"host": host or make_host(), "home": "/var/lib/x/1", "database": "ds_1", "target": target}
    return DataCopy.objects.create(fingerprint=made.digest, state=DataCopy.State.PRISTINE, **about, **where)


def make_twin(dataset: DataSet | None = None, workload: Workload | None = None, by: User | None = None) -> Twin:
    """Of a database with two statements, one of them made."""
    by = by or make_user(Role.TUNER)
    name = f"twin-{next(_numbers)}"
    dataset = dataset or datasets.save_dataset(name, "pgbench", {"scale": 1}, by=by)
    workload = workload or workloads.save_workload(name, single("pgbench", {"builtin": "select-only"}), by=by)
    counts = {"calls": 1200, "ms": 90.0, "rows": 1200, "hit": 3600, "read": 12, "temp": 0, "wal_bytes": 0}
    made = {"queryid": "1", "script": "s01", "reason": "", "text": "select id from t where id = $1", "share": 0.9}
    other = {
        "queryid": "2",
        "script": "",
        "reason": "it calls the function audit",
        "text": "select audit()",
        "share": 0.1,
    }
    return Twin.objects.create(
        name=name, dataset=dataset, workload=workload, database="shop", version=180006, seconds=900.0, factor=1.0,
        covered=0.9, statements=[{**made, **counts}, {**other, **counts}], missing=["index i"], author=by,
    )  # fmt: skip


def make_campaign(
    state: str = Campaign.State.DRAFT,
    runs: int = 0,
    *,
    by: User | None = None,
    host: Host | None = None,
    repetitions: int = 3,
    **fields: Any,
) -> Campaign:
    """Two levels x repetitions. The first `runs` of them ended ok; all of them where `state` is finished."""
    by = by or make_user(Role.TUNER)
    all_fields = {
        "name": f"campaign {next(_numbers)}",
        "question": "Do cpus help?",
        "factors": FACTORS,
        "seed": 1,
    } | fields
    all_fields.setdefault("workload", None)
    all_fields["workload"] = all_fields["workload"] or make_workload(by=by)
    campaign = services.create_campaign(by=by, host=host or make_host(), repetitions=repetitions, **all_fields)
    if state == Campaign.State.DRAFT:
        return campaign
    services.start_campaign(campaign, by=by)
    planned = list(campaign.runs.order_by("position"))
    for run in planned if state == Campaign.State.FINISHED else planned[:runs]:
        end_run(run)
    campaign_end.close_campaign(campaign.pk)
    if state == Campaign.State.CANCELLED:
        services.cancel_campaign(campaign, by=by)
    campaign.refresh_from_db()
    return campaign


def make_schedule(campaign: Campaign | None = None, by: User | None = None, **fields: Any) -> Schedule:
    """Every night at 02:30 UTC."""
    all_fields = {"name": f"nightly {next(_numbers)}", "when": "daily 02:30", "time_zone": "UTC"} | fields
    return create_schedule(campaign or make_campaign(), by=by or make_user(Role.OPERATOR), **all_fields)


def make_search(campaign: Campaign | None = None, by: User | None = None, **fields: Any) -> Search:
    """A search over two settings with a small budget, before its first round."""
    all_fields = {"name": f"search {next(_numbers)}", "space": ["work_mem 64kB to 1GB log", "jit on, off"]} | fields
    sizes = {"budget_runs": 40, "candidates": 3, "blocks": 2, "finalists": 1, "confirmation_blocks": 5, "seed": 1}
    return create_search(campaign or make_campaign(), by=by or make_user(Role.OPERATOR), **(sizes | all_fields))


def end_run(
    run: Run,
    outcome: str = Run.Outcome.OK,
    *,
    wall_s: float = 10.0,
    tps: float | None = None,
    latency_ms: float | None = None,
) -> Run:
    """A run that ended now after `wall_s`, read into results; by default twice the cpus give nearly twice the TPS."""
    now = timezone.now()
    run.state, run.outcome, run.next_tick_at = Run.State.ENDED, outcome, None
    run.started_at, run.ended_at, run.ingested_at = now - timedelta(seconds=wall_s), now, now
    run.proof = {"checked": 3, "ok": 3, "lines": [f"server: every process: {run.label}"]}
    run.save()
    if outcome == Run.Outcome.OK:
        value = tps or (1000.0 if run.label.startswith("1") else 1900.0) + run.block
        better = {"tps": ("TPS", "higher", value), "latency_avg": ("ms", "lower", latency_ms or 2000.0 / value)}
        Measurement.objects.bulk_create(
            Measurement(run=run, step="measure", name=name, unit=unit, better=direction, value=figure)
            for name, (unit, direction, figure) in better.items()
        )
    return run


def browser(user: User, **options: Any) -> APIClient:
    """A client with the user's session."""
    client = APIClient(**options)
    client.force_login(user)
    return client


def script(
    user: User,
    role: Role | None = None,
    days: int = 1,
    *,
    scopes: Sequence[str] = (),
    team: Team | None = None,
    networks: Sequence[str] = (),
) -> APIClient:
    """A client with a token of the user."""
    restriction = Restriction(scopes, team, networks)
    _, secret = issue_token(user, "script", role or Role(user.role), days=days, restriction=restriction)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client
