"""A twin and the database that it was captured from: fidelity, and the effects of three known changes on both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from embedded.demo import campaign
from embedded.servers.postgres import bin_dir
from tests.cli.program import Program
from tests.loads.checks import Checks
from tests.loads.databases import ANALYZE, Source
from tests.servers.ground import Ground
from tests.servers.production import Production, start

HISTORY = 60_000  # transactions of production before the capture: updates have moved rows, and left room on pages
TRANSACTIONS = 20_000  # between the snapshots
MINUTES = 0.6  # between the snapshots
COVERED = 0.95
BLOCKS = 0.15  # relative deviation per call
CALLS = 2.0  # percentage points of all calls
CLIENTS = 4
METRIC = "measure.tps"
NOTHING = "select 1"
SOURCES = ("stations", "hotels", "parcels", "clinic", "forum", "bank", "market", "saas", "events")


@dataclass(frozen=True)
class Effect:
    """A factor with two levels: as in production, and changed."""

    path: str
    before: str
    after: str

    @property
    def factor(self) -> dict[str, Any]:
        levels = [{"label": each, "set": {self.path: each}} for each in (self.before, self.after)]
        return {"name": self.path.rpartition(".")[2], "levels": levels}


EFFECTS = ("index", "synchronous_commit", "work_mem")


def _effects(source: Source) -> dict[str, Effect]:
    return {
        "index": Effect("steps.prepare.statements", NOTHING, f"drop index {source.index}"),
        "synchronous_commit": Effect("settings.postgresql.synchronous_commit", "on", "off"),
        "work_mem": Effect("settings.postgresql.work_mem", "64kB", "8MB"),
    }


def measure(ground: Ground, checks: Checks, name: str, repetitions: int, seconds: int, effects: Sequence[str]) -> None:
    """`name`: the module in tests.loads.databases with the database and the load of production."""
    source: Source = import_module(f"tests.loads.databases.{name}").DATABASE
    with TemporaryDirectory() as home, start(source) as production:
        program = Program(Path(home), ground.stack.base_url, ground.client.token)
        program.env["PATH"] = f"{home}/bin:{bin_dir()}:/usr/bin:/bin"
        twin = _create(program, production, source, checks)
    all_effects = _effects(source)
    _fidelity(ground, twin, checks, all_effects["work_mem"])
    loads = {"production-like": _production_like(ground, source, seconds), "twin": _closed(ground, twin, seconds)}
    for effect in effects:
        _effect(ground, checks, effect, all_effects[effect], loads, repetitions)


def _create(program: Program, production: Production, source: Source, checks: Checks) -> dict[str, Any]:
    """Capture production under its load, and create the twin with the program `proving`."""
    file = program.home / f"{source.name}.jsonl"
    secret = [part for column in source.secret_columns for part in ("--secret", column)]
    production.work(HISTORY)
    production.sql(ANALYZE)  # as autovacuum does after so many changes
    load = production.work_between_snapshots(TRANSACTIONS)
    _run(program, "capture", "--dsn", production.dsn, "--minutes", str(MINUTES), *secret, "--out", str(file))
    load.join()
    raw = file.read_bytes()
    leaked = [each for each in (*source.secrets, production.password) if each.encode() in raw]
    checks.check(not leaked, f"no secret value in the {len(raw):,} bytes of the capture")
    # As many transactions as in the capture: updates change what the next ones read.
    run = ["--clients", str(CLIENTS), "--jobs", "2", "--seconds", f"{60 * MINUTES:.0f}", "--pace", "production"]
    twin = _run(program, "create", str(file), "--name", source.name, *run)
    print(f"\n{'time':>7}  statement")
    for statement in twin["statements"]:
        share, script = f"{100 * statement['share']:6.2f}%", statement["script"] or "-"
        print(f"{share}  {script:4}{statement['text'][:80]}  {statement['reason']}")
    checks.check(twin["covered"] >= COVERED, f"statements of the twin cover {100 * twin['covered']:.1f} % of the time")
    left_out = [statement for statement in twin["statements"] if not statement["script"]]
    checks.check(len(left_out) >= len(source.others), f"{len(left_out)} statements are left out, each with a reason")
    return twin


def _fidelity(ground: Ground, twin: dict[str, Any], checks: Checks, effect: Effect) -> None:
    """One run of the twin, statement by statement."""
    factor = effect.factor
    one = {**factor, "levels": factor["levels"][1:]}
    ended = _campaign(ground, "fidelity", twin["workload"], twin["dataset"], one, repetitions=1)
    (run,) = _runs(ground, ended)
    fidelity = ground.client.get(f"runs/{run['id']}/observed/")["fidelity"]
    print(f"\nfidelity {100 * fidelity['value']:.1f} %\n{'':25}  calls, %       rows/call      blocks/call")
    for statement in fidelity["statements"]:
        production, own = statement["production"], statement["twin"]
        pairs = [(100 * one["calls_share"], one["rows"], one["blocks"]) for one in (production, own)]
        columns = "  ".join(f"{a:6.2f} {b:6.2f}" for a, b in zip(*pairs, strict=True))
        print(f"{statement['text'][:25]:25}  {columns}")
        checks.check(abs(pairs[0][0] - pairs[1][0]) <= CALLS, f"calls within {CALLS:g} points: {statement['script']}")
        ratio = own["blocks"] / production["blocks"] if production["blocks"] else 1.0
        checks.check(abs(ratio - 1) <= BLOCKS, f"blocks per call within 15 %: {statement['script']}, {ratio:.3f}")


def _production_like(ground: Ground, source: Source, seconds: int) -> tuple[int, int]:
    """Workload and data set: production's own rows and scripts. Each run begins with the history of production."""
    steps = [{"name": f"create-{n}", "sql": sql} for n, sql in enumerate(_statements(source.tables), start=1)]
    steps.append({"name": "vacuum", "sql": ANALYZE, "transaction": False})
    dataset = ground.client.post("datasets/", name="production-like", kind="sql", options={"steps": steps})
    scripts = [{"name": f"p{n}", "weight": w, "text": f"{text}\n"} for n, (w, text) in enumerate(source.load, start=1)]
    load = {"scripts": scripts, "clients": CLIENTS, "jobs": 2}
    history = _step("history", "pgbench", {**load, "transactions": HISTORY // CLIENTS, "random_seed": 7}, role="warm")
    measured = _step("measure", "pgbench", {**load, "time_s": seconds}, role="measure")
    vacuum = _step("vacuum", "sql", {"statements": ANALYZE}, role="warm")
    return _workload(ground, "production-like", [history, vacuum], measured), dataset["id"]


def _statements(tables: str) -> list[str]:
    return [table for table in tables.split(";\n") if table.strip()]


def _closed(ground: Ground, twin: dict[str, Any], seconds: int) -> tuple[int, int]:
    """Workload and data set of the twin: as fast as possible, and with the step that a factor changes."""
    (measured,) = ground.client.get(f"workloads/{twin['workload']}/")["steps"]
    options = {name: value for name, value in measured["options"].items() if name != "rate"}
    closed = {**measured, "options": {**options, "time_s": seconds}}
    return _workload(ground, "twin-closed", [], closed), twin["dataset"]


def _workload(ground: Ground, name: str, first: Sequence[dict[str, Any]], measured: dict[str, Any]) -> int:
    prepare = _step("prepare", "sql", {"statements": NOTHING}, role="warm")
    return int(ground.client.post("workloads/", name=name, steps=[*first, prepare, measured])["id"])


def _step(name: str, kind: str, options: dict[str, Any], *, role: str) -> dict[str, Any]:
    return {"name": name, "role": role, "kind": kind, "options": options}


def _effect(
    ground: Ground,
    checks: Checks,
    name: str,
    effect: Effect,
    loads: dict[str, tuple[int, int]],
    repetitions: int,
) -> None:
    """The same comparison with both loads."""
    levels = []
    for load, (workload, dataset) in loads.items():
        ended = _campaign(ground, f"{name}, {load}", workload, dataset, effect.factor, repetitions)
        errors = {(run["error"] or {}).get("message", "") for run in _runs(ground, ended)} - {""}
        assert not errors, errors
        level = ground.client.get(f"campaigns/{ended['id']}/results/")["levels"][-1]
        levels.append(level)
        interval = f"{level['relative_low']:+.1f} % to {level['relative_high']:+.1f} %"
        print(f"{name}, {load}: {level['relative_percent']:+.1f} %, 95 % CI {interval}: {level['verdict']}", flush=True)
    production_like, twin = levels
    overlap = (
        production_like["relative_low"] <= twin["relative_high"]
        and twin["relative_low"] <= production_like["relative_high"]
    )
    # Without it, the two checks below say nothing: wide intervals always overlap.
    detected = production_like["verdict"] not in ("undetectable", "")
    checks.check(detected, f"{name}: the effect is detected on production-like data")
    checks.check(production_like["verdict"] == twin["verdict"], f"{name}: same verdict")
    checks.check(overlap, f"{name}: the intervals overlap")


def _campaign(
    ground: Ground, name: str, workload: int, dataset: int, factor: dict[str, Any], repetitions: int
) -> dict[str, Any]:
    """Run a campaign of a workload with one measured step, and return it from the API."""
    return campaign.run(
        ground.client, ground.host, ground.supervisor.check, recipe=None, name=name, question="?", workload=workload,
        dataset=dataset, factors=[factor], repetitions=repetitions, metric=METRIC, seed=1,
    )  # fmt: skip


def _runs(ground: Ground, ended: dict[str, Any]) -> list[dict[str, Any]]:
    return list(ground.client.get(f"runs/?campaign={ended['id']}&page_size=100")["results"])


def _run(program: Program, *arguments: str) -> dict[str, Any]:
    done = program.run("twin", *arguments, "--json", timeout=300)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))
