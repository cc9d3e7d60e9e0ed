"""Years of campaigns, to measure pages with a long history: python -m tests.rows.history --runs 1000000

Campaign by campaign, the newest first, so that a database that grows keeps what its newest pages show. Each is drawn
from the seed and its own number, and rows go in by COPY. Nothing here was measured; constraints hold all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import django
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
HOSTS = 20
MOST = 1_000_000  # runs that this module writes
# Of one ordinary campaign on its host; a thousand of them reach back four years.
SLOT = timedelta(hours=36)
SIZES = ("14GB", "13GB", "12GB", "11GB", "10GB", "9GB", "8GB", "7GB", "6GB", "5GB", "4GB", "3GB", "2GB", "1GB")
SMALLER = ("512MB", "256MB", "128MB", "64MB", "32MB", "16MB", "8MB", "4MB", "2MB", "1MB", "512kB", "256kB", "128kB")
BLOCKS = 251
CHUNK = 20_000
LOOK_UPS = {"builtin": "select-only", "clients": 1, "jobs": 1, "transactions": 100}
SPLIT_STEPS = [
    {"name": "warm", "role": "warm", "kind": "pgbench", "options": {**LOOK_UPS, "transactions": 100_000}},
    {"name": "idx1", "role": "measure", "kind": "pgbench", "options": LOOK_UPS},
    {"name": "seq", "role": "measure", "kind": "sql", "options": {"query": "select count(*) from t", "times": 1}},
    {"name": "idx2", "role": "measure", "kind": "pgbench", "options": LOOK_UPS},
]
# Of an ordinary campaign: what varies, and how much more each level gives than the one before.
SUBJECTS = (
    ("server cpus", ("1 cpu", "2 cpus", "4 cpus", "8 cpus"), "settings.cpu_affinity.server", 0.85),
    ("shared_buffers", ("128MB", "1GB", "4GB", "8GB"), "settings.postgresql.shared_buffers", 0.06),
    ("clients", ("8", "16", "32", "64"), "workload.clients", 0.3),
    ("random_page_cost", ("4", "1.1"), "settings.postgresql.random_page_cost", 0.015),
)
NULL = "\\N"


@dataclass(frozen=True)
class Shape:
    """A campaign to be: which combinations in how many blocks, and what each of its runs yields."""

    number: int
    host: int
    name: str
    workload: int
    metric: str
    factors: list[dict[str, Any]]
    cells: list[dict[str, str]]
    blocks: int
    steps: list[dict[str, Any]]
    begin: datetime
    run_s: float
    lost: float  # share of runs that are not ok
    state: str = "finished"
    ended: int | None = None  # how many runs have ended, where not all have


# (step, name, unit, better) -> a value for each run
Figures = Mapping[tuple[str, str, str, str], Floats]


def level(label: str, path: str, value: Any) -> dict[str, Any]:
    return {"label": label, "set": {path: value}}


def cache_split(number: int, host: int, workload: int, end: datetime) -> Shape:
    """27 sizes of shared_buffers with and without huge pages, in 251 blocks: 13 554 runs."""
    sizes = (*SIZES, *SMALLER)
    pages = [level(use, "settings.huge_pages.use", use) for use in ("off", "on")]
    factors = [
        {"name": "shared_buffers", "levels": [level(s, "settings.postgresql.shared_buffers", s) for s in sizes]},
        {"name": "huge pages", "levels": pages},
    ]
    cells = [{"shared_buffers": size, "huge pages": use} for size, use in product(sizes, ("off", "on"))]
    return Shape(
        number=number,
        host=host,
        name="shared_buffers and huge pages",
        workload=workload,
        metric="idx1.latency_avg",
        factors=factors,
        cells=cells,
        blocks=BLOCKS,
        steps=SPLIT_STEPS,
        begin=end - timedelta(seconds=130 * len(cells) * BLOCKS),
        run_s=130.0,
        lost=0.004,
    )


def ordinary(number: int, host: int, workload: int, steps: list[dict[str, Any]], now: datetime, seed: int) -> Shape:
    """5 to 100 runs of one factor; a few of them were cancelled half way."""
    chance = np.random.default_rng((seed, number))
    factor, labels, path, _ = SUBJECTS[number % len(SUBJECTS)]
    labels = labels[: int(chance.integers(2, len(labels) + 1))]
    blocks = int(chance.integers(3, 100 // len(labels) + 1))
    levels = [level(label, path, int(label) if label.isdigit() else label) for label in labels]
    end = now - timedelta(hours=1) - (number // HOSTS) * SLOT - timedelta(minutes=37 * (number % HOSTS))
    run_s = float(chance.uniform(40, 300))
    cancelled = number % 50 == 49
    runs = len(labels) * blocks
    return Shape(
        number=number,
        host=host,
        name=f"{factor} {number}",
        workload=workload,
        metric="tps",
        factors=[{"name": factor, "levels": levels}],
        cells=[{factor: label} for label in labels],
        blocks=blocks,
        steps=steps,
        begin=end - timedelta(seconds=run_s * runs),
        run_s=run_s,
        lost=0.2 if number % 17 == 3 else 0.01,
        state="cancelled" if cancelled else "finished",
        ended=runs // 2 if cancelled else None,
    )


def order_of(shape: Shape, chance: np.random.Generator) -> list[tuple[int, int]]:
    """(block, cell) of each run: every block in an order of its own."""
    return [(block, int(cell)) for block in range(shape.blocks) for cell in chance.permutation(len(shape.cells))]


def split_figures(shape: Shape, order: Sequence[tuple[int, int]], chance: np.random.Generator) -> Figures:
    """The effect of the experiment: with large shared buffers, look-ups without huge pages are slower."""
    cell = np.array([cell for _, cell in order])
    block = np.array([block for block, _ in order])
    size, huge = 1 - cell // 2 / (len(shape.cells) / 2 - 1), cell % 2
    host = chance.normal(0, 0.01, shape.blocks)[block]  # what a boot has in common
    small = size < 0.5

    def noisy(values: Floats, spread: float) -> Floats:
        scattered = values * np.exp(host + chance.normal(0, spread, len(cell)))
        return scattered * np.where(chance.random(len(cell)) < 0.01, chance.uniform(1.2, 2.5, len(cell)), 1)

    idx1 = noisy(np.where(huge, 0.08, 0.08 + 0.04 * size**2), 0.03)
    idx2 = noisy(np.where(huge, 0.082, 0.082 + 0.04 * size**2) + np.where(small, 0.05, 0.0), 0.04)
    seq = noisy(1800 - 300 * size, 0.02)
    return {
        ("idx1", "latency_avg", "ms", "lower"): idx1,
        ("idx1", "tps", "tps", "higher"): 1000 / idx1,
        ("seq", "execution_mean", "ms", "lower"): seq,
        ("idx2", "latency_avg", "ms", "lower"): idx2,
        ("idx2", "tps", "tps", "higher"): 1000 / idx2,
    }


def ordinary_figures(shape: Shape, order: Sequence[tuple[int, int]], chance: np.random.Generator) -> Figures:
    cell = np.array([cell for _, cell in order])
    gain = SUBJECTS[shape.number % len(SUBJECTS)][3]
    base = float(chance.uniform(800, 20_000))
    tps = base * (1 + gain) ** cell * np.exp(chance.normal(0, chance.uniform(0.004, 0.03), len(cell)))
    latency = 8000 / tps
    return {
        ("measure", "tps", "tps", "higher"): tps,
        ("measure", "latency_avg", "ms", "lower"): latency,
        ("measure", "latency_p95", "ms", "lower"): latency * chance.uniform(1.5, 2.5),
        ("measure", "latency_stddev", "ms", "lower"): latency * chance.uniform(0.1, 0.6),
    }


def line(cells: Iterable[Any]) -> str:
    """A row as COPY reads it."""
    return "\t".join(NULL if cell is None else _escaped(cell) for cell in cells) + "\n"


def _escaped(cell: Any) -> str:
    if isinstance(cell, dict | list):
        cell = json.dumps(cell)
    elif isinstance(cell, bool):
        cell = "t" if cell else "f"
    return str(cell).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def copy(table: str, columns: Sequence[str], lines: Iterable[str]) -> None:
    from django.db import connection

    named = ", ".join(f'"{name}"' for name in columns)
    with connection.cursor() as cursor, cursor.copy(f"copy {table} ({named}) from stdin") as sink:
        for each in lines:
            sink.write(each)


MEASUREMENT = ("run_id", "step", "name", "unit", "better", "definition", "value")
RUN = (
    *("id", "campaign_id", "host_id", "facts_id", "position", "block", "cell", "spec", "digest", "state", "outcome"),
    *("error", "proof", "manifest", "started_at", "ended_at", "ingested_at"),
    *("agent_state", "step", "events_offset", "events_damaged", "last_seq"),
)
ERROR = {"blame": "workload", "message": "pgbench ended with 1", "stderr": "FATAL:  sorry, too many clients already"}


class Writer:
    """Writes campaigns to the database. `hosts` and `facts` are keys by index, `by` keys of users."""

    def __init__(self, seed: int, hosts: Sequence[int], facts: Sequence[int], by: Sequence[int]) -> None:
        self.seed, self.hosts, self.facts, self.by = seed, hosts, facts, by
        self.runs: list[str] = []
        self.figures: list[str] = []
        self.campaigns: list[Any] = []

    def add(self, shape: Shape) -> int:
        """How many runs it has."""
        chance = np.random.default_rng((self.seed, shape.number, 1))
        order = order_of(shape, chance)
        draw = split_figures if len(shape.factors) > 1 else ordinary_figures
        campaign = self._campaign(shape, len(order))
        self._runs(shape, campaign, order, draw(shape, order, chance), chance)
        self.campaigns.append(campaign)
        return len(order)

    def _campaign(self, shape: Shape, runs: int) -> Any:
        from apps.campaigns.models import Campaign

        over = shape.state != "running"
        ended = shape.begin + timedelta(seconds=shape.run_s * (shape.ended or runs))
        return Campaign(
            id=uuid.uuid5(uuid.NAMESPACE_OID, f"{self.seed} {shape.number}"),
            name=shape.name,
            recipe="cache-split" if len(shape.factors) > 1 else "",
            question=f"What does {shape.factors[0]['name']} do to {shape.metric}?",
            host_id=self.hosts[shape.host],
            workload_id=shape.workload,
            factors=shape.factors,
            repetitions=shape.blocks,
            seed=shape.number + 100,
            metric=shape.metric,
            delta=0.02,
            state=shape.state,
            created_by_id=self.by[shape.number % len(self.by)],
            created_at=shape.begin - timedelta(minutes=5),
            started_at=shape.begin,
            ended_at=ended if over else None,
        )

    def _runs(
        self, shape: Shape, campaign: Any, order: list[tuple[int, int]], figures: Figures, chance: np.random.Generator
    ) -> None:
        specs = [_spec(shape, cell) for cell in shape.cells]
        lost = chance.random(len(order)) < shape.lost
        raw = chance.bytes(16 * len(order))
        ended = len(order) if shape.ended is None else shape.ended
        heads = [("\t".join((*figure, "")) + "\t", values.tolist()) for figure, values in figures.items()]
        for place, (block, cell) in enumerate(order):
            key = uuid.UUID(bytes=raw[16 * place : 16 * place + 16], version=4)
            outcome = _outcome(place, ended, bool(lost[place]), shape.state)
            at = shape.begin + timedelta(seconds=shape.run_s * place)
            self.runs.append(self._run(shape, campaign, key, place, block, cell, specs[cell], outcome, at))
            if outcome == "ok":
                self.figures += [f"{key}\t{head}{values[place]:.6g}\n" for head, values in heads]

    def _run(
        self,
        shape: Shape,
        campaign: Any,
        key: uuid.UUID,
        place: int,
        block: int,
        cell: int,
        spec: tuple[str, str, str],
        outcome: str,
        at: datetime,
    ) -> str:
        began, over = outcome not in ("", "cancelled"), bool(outcome)
        end = at + timedelta(seconds=0.9 * shape.run_s) if began else campaign.ended_at
        head = (key, campaign.pk, self.hosts[shape.host], self.facts[shape.host], place, block)
        proof = {"checked": 3, "ok": 3, "lines": [f"server: every process: {spec[2]}"]} if outcome == "ok" else None
        manifest = {"outcome": outcome, "timings": {"APPLYING": 1.4, "RUNNING": shape.run_s, "ROLLING_BACK": 0.6}}
        rest = (
            *("ended" if over else "queued", outcome, ERROR if outcome == "failed" else None, proof),
            *(manifest if began else None, at if began else None, end if over else None, end if over else None),
            *("ACKED" if began else "", "", 0, 0, 40 if began else 0),
        )
        return f"{line(head)[:-1]}\t{spec[0]}\t{spec[1]}\t{line(rest)}"

    def flush(self) -> None:
        """Writes what has gathered, in one transaction."""
        from django.db import transaction

        from apps.campaigns.models import Campaign

        with transaction.atomic():
            created_at = {each.pk: each.created_at for each in self.campaigns}
            Campaign.objects.bulk_create(self.campaigns)
            for campaign in self.campaigns:  # the field takes the time of its writing
                campaign.created_at = created_at[campaign.pk]
            Campaign.objects.bulk_update(self.campaigns, ["created_at"], batch_size=1000)
            _audit(self.campaigns)
            copy("campaigns_run", RUN, self.runs)
            copy("results_measurement", MEASUREMENT, self.figures)
        self.runs, self.figures, self.campaigns = [], [], []


def _outcome(place: int, ended: int, lost: bool, state: str) -> str:
    if place >= ended:
        return "" if state == "running" else "cancelled"
    return "failed" if lost else "ok"


def _spec(shape: Shape, cell: Mapping[str, str]) -> tuple[str, str, str]:
    """(cell, spec and digest as COPY reads them, the cell in words) of one combination."""
    from agents.wire.protocol import digest

    changes: dict[str, Any] = {}
    steps = shape.steps
    for factor in shape.factors:
        for each in factor["levels"]:
            if each["label"] == cell[factor["name"]]:
                changes |= each["set"]
    settings: dict[str, Any] = {}
    for path, value in changes.items():
        root, *rest = path.split(".")
        if root == "settings":
            settings.setdefault(rest[0], {})[rest[1]] = value
        else:
            steps = [{**step, "options": {**step["options"], rest[0]: value}} for step in steps]
    target = {"kind": "private", "bin_dir": "/usr/lib/postgresql/18/bin", "data_dir": "/var/lib/x", "os_user": ""}
    spec = {"version": 1, "target": target, "settings": settings, "dataset": None, "steps": steps}
    spec["collect"] = {"interval_s": 1.0, "sources": []}
    return f"{_escaped(cell)}\t{_escaped(spec)}", digest(spec), ", ".join(cell.values())


def _audit(campaigns: Sequence[Any]) -> None:
    rows = []
    for campaign in campaigns:
        key = {"id": str(campaign.pk)}
        rows.append(
            (
                campaign.created_at,
                campaign.created_by_id,
                "campaign.create",
                campaign.name,
                None,
                {**key, "seed": campaign.seed},
            )
        )
        rows.append(
            (campaign.started_at, campaign.created_by_id, "campaign.start", campaign.name, None, {**key, "runs": 50})
        )
    copy("accounts_auditentry", ("at", "actor_id", "action", "target", "before", "after"), map(line, rows))


def people() -> list[int]:
    from apps.accounts.models import User

    names = ("ada", "grace", "edgar")
    if not User.objects.filter(username="ada").exists():
        User.objects.bulk_create(
            User(username=name, role="tuner", password="!", may_run_commands=True) for name in names
        )
    return list(User.objects.filter(username__in=names).order_by("pk").values_list("pk", flat=True))


def fleet() -> tuple[list[int], list[int]]:
    """(keys of the hosts, and of the newest facts of each)."""
    from apps.hosts.models import Facts, Host
    from tests.rows.factories import make_host

    names = [f"db{place + 1:02}" for place in range(HOSTS)]
    for name in names:
        if not Host.objects.filter(name=name).exists():
            make_host(name)
    hosts = list(Host.objects.filter(name__in=names).order_by("name").values_list("pk", flat=True))
    newest = dict(Facts.objects.filter(host__in=hosts).order_by("number").values_list("host_id", "pk"))
    return hosts, [newest[host] for host in hosts]


def workload(name: str, steps: list[dict[str, Any]]) -> tuple[int, list[dict[str, Any]]]:
    from apps.accounts.models import User
    from apps.campaigns.library.workloads import save_workload
    from apps.campaigns.models import Workload

    known = Workload.objects.filter(name=name).first()
    made = known or save_workload(name, steps, by=User.objects.get(username="ada"))
    return made.pk, made.steps


def fill(runs: int, *, large: bool, seed: int = 1, tell: Callable[[str], None] = print) -> None:
    """Add campaigns until there are at least `runs` runs. `large`: one with 13,554 runs is among them.

    Beyond MOST runs, campaigns are copies."""
    from django.utils import timezone

    from apps.campaigns.design.steps import single
    from apps.campaigns.models import Campaign, Run
    from tests.rows.copied import copy_until

    by, (hosts, facts) = people(), fleet()
    writer, now, begun = Writer(seed, hosts, facts, by), timezone.now(), time.monotonic()
    oltp, steps = workload("oltp", single("pgbench", {"builtin": "tpcb-like", "clients": 8, "time_s": 60}))
    split, _ = workload("cache-split", SPLIT_STEPS)
    have = first = Run.objects.count()
    known = set(Campaign.objects.values_list("seed", flat=True))
    gathered = 0
    for shape in _shapes(large, known, oltp, split, steps, now, seed):
        if have >= min(runs, MOST) and len(shape.factors) < 2:
            break
        added = writer.add(shape)
        have, gathered = have + added, gathered + added
        if gathered >= CHUNK:
            writer.flush()
            gathered, spent = 0, time.monotonic() - begun
            left = spent / (have - first) * max(0, min(runs, MOST) - have)
            tell(f"  {have} runs after {spent:.0f} s, about {left:.0f} s to go")
    writer.flush()
    if runs > have:
        copy_until(runs, tell)
    analyze()
    tell(f"{Run.objects.count()} runs, {time.monotonic() - begun:.0f} s")


def _shapes(
    large: bool, known: set[int], oltp: int, split: int, steps: list[dict[str, Any]], now: datetime, seed: int
) -> Iterator[Shape]:
    """Two active campaigns, the large one, and ordinary ones without end; existing ones are left out."""
    numbers = iter(range(1, 10**9))
    going_on = [ordinary(n, n, oltp, steps, now, seed) for n in (next(numbers), next(numbers))]
    later = timedelta(hours=1)
    shapes = [replace(each, state="running", ended=4, begin=each.begin + later) for each in going_on]
    if large:
        shapes.append(cache_split(0, HOSTS - 1, split, now - timedelta(days=2)))
    yield from (shape for shape in shapes if shape.number + 100 not in known)
    for number in numbers:
        if number + 100 not in known:
            yield ordinary(number, number % HOSTS, oltp, steps, now, seed)


def analyze() -> None:
    """Do the work of autovacuum and the checkpointer, because years of rows were written in minutes."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("vacuum analyze")
        cursor.execute("checkpoint")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.rows.history", description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000, help="in all (1 000 000)")
    parser.add_argument("--no-large", action="store_true", help="without the campaign of 13 554 runs")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.settings")
    django.setup()
    fill(options.runs, large=not options.no_large, seed=options.seed)


if __name__ == "__main__":
    main()
