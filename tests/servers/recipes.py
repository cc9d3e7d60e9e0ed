"""python -m tests.servers.recipes NAME ...: runs small versions of recipes on this machine.

It starts the whole stack, registers this machine over SSH, and creates the campaign with the API. It prints the results
and stores them in var/recipes/: the report, the exports, and pictures of the campaign's page. Needs root; the agent
restores every setting of the host.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from embedded import paths
from embedded.demo import campaign
from tests.servers import remote
from tests.servers.ground import Ground, prepare
from tests.session.alone import alone
from tests.session.needs import find_browser

KEPT = paths.CHECKOUT / "var" / "recipes"
DEVICE_MB = 3000
WIDTHS = (1280, 390)


@dataclass(frozen=True)
class Reduction:
    """Reductions of a recipe: repetitions, options by path, and its levels, by label or new."""

    repetitions: int
    options: Mapping[str, Any] = field(default_factory=dict)
    dataset: Mapping[str, Any] = field(default_factory=dict)
    levels: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    text: tuple[tuple[str, str], ...] = ()  # lines of a job file: the key, and its value
    device: str = ""  # "below": the clusters are put on a loop device; "beside": one more directory is allowed
    boxes: tuple[str, ...] = ()  # figures whose box plot over the first factor, coloured by the second, is the answer
    standbys: tuple[str, ...] = ()  # further hosts, which are this machine under machine-ids of their own


def sizes(path: str, *values: Any) -> list[dict[str, Any]]:
    return [{"label": str(value), "set": {path: value}} for value in values]


FIO = (("numjobs", "2"), ("ramp_time", "1"), ("size", "64m"), ("runtime", "4"))
REDUCED: dict[str, Reduction] = {
    "active-set": Reduction(
        2,
        {"steps.warm.time_s": 1, "steps.measure.time_s": 4},
        {"scale": 50},
        {"rows in use": sizes("workload.define.range", 50_000, 500_000, 5_000_000)},
    ),
    "cache-split": Reduction(
        5,
        # Five repetitions in place of 251: a hundred look-ups take 10 ms here, which one interruption doubles.
        {
            "steps.warm.time_s": 3,
            "steps.idx1.transactions": 5000,
            "steps.idx2.transactions": 5000,
            "steps.settle.seconds": 1,
        },
        {"scale": 40},
        {"shared_buffers": ("1GB", "64MB", "4MB", "128kB")},
        boxes=("idx1.latency_avg", "idx2.latency_avg"),
    ),
    "checkpoint-wal": Reduction(
        3,
        {"steps.measure.time_s": 10},
        {"scale": 30},
        {
            "max_wal_size": sizes("settings.postgresql.max_wal_size", "128MB", "4GB"),
            "checkpoint_timeout": sizes("settings.postgresql.checkpoint_timeout", "30s", "5min"),
        },
    ),
    "connections": Reduction(3, {"steps.warm.time_s": 1, "steps.measure.time_s": 2}, {"scale": 10}),
    "cpu-placement": Reduction(3),
    "cpu-scaling": Reduction(5),
    "fsync-method": Reduction(3, {"steps.alone.time_s": 2, "steps.together.time_s": 2}),
    "huge-page-size": Reduction(5, {"steps.measure.time_s": 3}, {"scale": 30}),
    "huge-pages": Reduction(5, {"steps.measure.time_s": 3}),
    "io-scheduler": Reduction(
        3, {"steps.mixed.time_s": 3}, {"scale": 20}, {"read-ahead": ("none", "128kB", "4MB")}, device="below"
    ),
    "postgresql-version": Reduction(
        5, {"steps.warm.time_s": 1, "steps.reads.time_s": 3, "steps.writes.time_s": 3}, {"scale": 10}
    ),
    "rate-sweep": Reduction(3, {f"steps.{name}.time_s": 3 for name in ("max", "at25", "at50", "at75", "at90")}),
    "smaller-machine": Reduction(3, {"steps.warm.time_s": 2, "steps.measure.time_s": 4}, {"scale": 20}),
    "storage": Reduction(2, {"steps.fsync.secs_per_test": 1}, text=FIO, device="beside"),
    "synchronous-replication": Reduction(3, {"steps.measure.time_s": 3}, standbys=("standby",)),
    "tpcc": Reduction(
        2,
        {"steps.warm.time_s": 2, "steps.measure.time_s": 8},
        {"warehouses": 1},
        {"data": sizes("dataset.warehouses", 1, 4)},
    ),
    "tpcc-replicated": Reduction(
        2,
        {"steps.warm.time_s": 2, "steps.measure.time_s": 6, "steps.measure.clients": 4},
        {"warehouses": 1},
        standbys=("standby1", "standby2"),
    ),
    "transparent-huge-pages": Reduction(3, {"steps.lookups.time_s": 2}),
}


def carry_out(ground: Ground, name: str) -> Path:
    """Run one recipe, reduced. Returns the directory of results."""
    reduction, where = REDUCED[name], KEPT / name
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    with _place(ground, reduction.device) as host, remote.several(list(reduction.standbys)) as servers:
        standbys = [_add(ground, each, server) for each, server in servers.items()]
        described = ground.client.get(f"recipes/{name}/?host={host['id']}")
        undisturbed = alone() if described["needs"] == "root" else nullcontext()
        choices = _choices(ground, name, described, reduction) | ({"roles": {"standbys": standbys}} if standbys else {})
        with undisturbed:
            ended = campaign.run(ground.client, host, ground.supervisor.check, recipe=name, **choices)
    _keep(ground, ended, where)
    return where


def _choices(ground: Ground, name: str, described: dict[str, Any], reduction: Reduction) -> dict[str, Any]:
    """Fields of a campaign that replace those of the recipe."""
    steps = _shorter(described["steps"], reduction)
    workload = ground.client.post("workloads/", name=f"{name}-reduced", steps=steps)
    choices: dict[str, Any] = {"repetitions": reduction.repetitions, "seed": 1, "workload": workload["id"]}
    choices["factors"] = [_fewer(factor, reduction.levels.get(factor["name"])) for factor in described["factors"]]
    if described["dataset"]:
        options = {**described["dataset"]["options"], **reduction.dataset}
        made = {"name": f"{name}-reduced", "kind": described["dataset"]["kind"], "options": options}
        choices["dataset"] = ground.client.post("datasets/", **made)["id"]
    return choices


def _shorter(steps: list[dict[str, Any]], reduction: Reduction) -> list[dict[str, Any]]:
    by_name = {step["name"]: step for step in steps}
    for path, value in reduction.options.items():
        _, name, option = path.split(".")
        by_name[name]["options"][option] = value
    for step in steps:
        if reduction.text and "job_file" in step["options"]:
            values = dict(reduction.text)
            lines = step["options"]["job_file"].splitlines()
            keys = [line.partition("=")[0] for line in lines]
            shorter = [f"{key}={values[key]}" if key in values else line for key, line in zip(keys, lines, strict=True)]
            step["options"]["job_file"] = "\n".join(shorter)
    return steps


def _fewer(factor: dict[str, Any], chosen: Sequence[Any] | None) -> dict[str, Any]:
    if chosen is None:
        return factor
    levels = (
        [level for level in factor["levels"] if level["label"] in chosen]
        if isinstance(chosen[0], str)
        else list(chosen)
    )
    return {**factor, "levels": levels}


def _place(ground: Ground, how: str) -> AbstractContextManager[dict[str, Any]]:
    return _on_a_device(ground, how) if how else nullcontext(ground.host)


@contextmanager
def _on_a_device(ground: Ground, how: str) -> Iterator[dict[str, Any]]:
    """This machine with a file system on a loop device: below its clusters, or beside them."""
    base, client, host = Path(ground.host["data_dir"]).parent, ground.client, ground.host
    image, mount = base / "image", base / "device"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(DEVICE_MB << 20)
    _call("mkfs.ext4", "-q", str(image))
    _call("mount", "-o", "loop,noatime", str(image), str(mount))
    try:
        if how == "below":
            client.patch(f"hosts/{host['id']}/", data_dir=str(mount / "clusters"))
        else:
            client.post(f"hosts/{host['id']}/allow-path/", path=str(mount), kind="directory")
        yield campaign.wait_for_check(client, host)
    finally:
        if how == "below":
            client.patch(f"hosts/{host['id']}/", data_dir=host["data_dir"])
        _call("umount", str(mount))
        image.unlink()
        mount.rmdir()
        campaign.wait_for_check(client, host)


def _add(ground: Ground, name: str, server: remote.Server) -> int:
    """A further host, its key compared and pinned; its id."""
    client = ground.client
    identity = client.post("identities/", name=name)
    server.authorize(identity["public_key"])
    reached = {"address": "127.0.0.1", "port": server.port, "user": server.user, "identity": identity["id"]}
    there = {key: str(server.home / key.partition("_")[0]) for key in ("python", "spool_dir", "data_dir")}
    host = client.post("hosts/", name=name, **reached, **there, pg_bin_dirs=ground.host["pg_bin_dirs"])
    offered = client.post(f"hosts/{host['id']}/fetch-host-key/")
    assert offered["key"].split()[:2] == server.host_key.split()[:2]
    client.post(f"hosts/{host['id']}/approve-host-key/", fingerprint=offered["fingerprint"])
    return int(campaign.wait_for_check(client, host)["id"])


def _call(*argv: str) -> None:
    subprocess.run(argv, check=True, timeout=120)


def _keep(ground: Ground, ended: dict[str, Any], where: Path) -> None:
    table = ground.client.get(f"campaigns/{ended['id']}/results/")
    summary = ground.client.get(f"campaigns/{ended['id']}/summary/")
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = "\n\n".join([f"{ended['name']}, {when}", campaign.report(table), _figures(summary), _not_ok(ground, ended)])
    (where / "report.txt").write_text(text + "\n")
    for file in ("runs.csv", "outputs.zip", *(["cache-split.csv"] if where.name == "cache-split" else [])):
        (where / file).write_bytes(_fetched(ground, f"campaigns/{ended['id']}/export/{file}/"))
    print(f"\n{text}\n{where}", flush=True)
    _photograph(ground, ended, where)


def _figures(summary: dict[str, Any]) -> str:
    """Every main figure: mean and interval of each level."""
    lines = []
    for figure in summary["figures"]:
        lines.append(f"{figure['step']}.{figure['name']} ({figure['unit']})")
        for level in figure["by_level"]:
            if level["n"]:
                interval = "" if level["low"] is None else f"  {level['low']:.4g} .. {level['high']:.4g}"
                lines.append(f"  {level['level']}: {level['mean']:.4g}{interval}  n = {level['n']}")
    return "\n".join(lines)


def _not_ok(ground: Ground, ended: dict[str, Any]) -> str:
    """Why the runs failed that did."""
    rows = ground.client.get(f"runs/?campaign={ended['id']}&page_size=500")["results"]
    wrong = [row for row in rows if row["outcome"] != "ok"]
    messages = [" ".join(str((row["error"] or {}).get(key, "")) for key in ("message", "stderr")) for row in wrong]
    lines = [
        f"#{row['position'] + 1} {row['outcome']}: {message}" for row, message in zip(wrong, messages, strict=True)
    ]
    return "\n".join([f"{len(rows) - len(wrong)} of {len(rows)} runs ok", *lines])


def _fetched(ground: Ground, path: str) -> bytes:
    headers = {"Authorization": f"Bearer {ground.client.token}"}
    request = urllib.request.Request(f"{ground.client.base_url}/api/v1/{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return bytes(answer.read())


def _pictures(ended: dict[str, Any], boxes: Sequence[str]) -> dict[str, str]:
    """What is photographed: name -> address."""
    page, factors = f"/campaigns/{ended['id']}/", [factor["name"] for factor in ended["factors"]]
    views = [{"figure": box, "x": factors[0], "colour": factors[1], "shape": "box"} for box in boxes]
    return {"page": page, **{view["figure"]: f"{page}explore/?{urlencode(view)}" for view in views}}


def _photograph(ground: Ground, ended: dict[str, Any], where: Path) -> None:
    """The campaign's page and its box plots, where there is a browser."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return
    password = ground.stack.manage("create_admin", f"eye-{where.name}").split()[-1]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        for width in WIDTHS:
            context = browser.new_context(base_url=ground.stack.base_url, viewport={"width": width, "height": 900})
            page = context.new_page()
            page.goto("/login/")
            page.fill("#id_username", f"eye-{where.name}")
            page.fill("#id_password", password)
            page.click("main button")
            for name, address in _pictures(ended, REDUCED[where.name].boxes).items():
                page.goto(address)
                page.wait_for_selector("[data-figure][data-drawn]")
                page.screenshot(path=str(where / f"{name}-{width}.png"), full_page=True)
            context.close()
        browser.close()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.servers.recipes", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("names", nargs="+", choices=list(REDUCED), metavar="NAME", help=", ".join(REDUCED))
    options = parser.parse_args(arguments)
    with prepare() as ground:
        for name in options.names:
            carry_out(ground, name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
