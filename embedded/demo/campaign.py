"""The demo's campaign: register this machine as a host, run the recipe cpu-scaling on it, and print its result."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import verdicts
from common.wording import host_state, percent, signed
from embedded import paths
from embedded.demo.client import Client
from embedded.errors import StackError
from embedded.servers.loopback import Loopback

HOST = "this-machine"
RECIPE = "cpu-scaling"
POLL_S = 0.5
CHECK_TIMEOUT_S = 120
BAR_WIDTH = 30


def register(client: Client, loopback: Loopback) -> dict[str, Any]:
    """Return this machine as a host: that of an earlier demo, or a new one with its key compared and pinned."""
    known = client.get(f"hosts/?name={HOST}")["results"]
    host = known[0] if known else _add(client, loopback)
    fields = _paths(loopback)
    if any(host[name] != value for name, value in fields.items()):
        host = client.patch(f"hosts/{host['id']}/", **fields)
    if not host["fingerprint"]:
        _pin(client, host, loopback)
    return wait_for_check(client, host)


def _paths(loopback: Loopback) -> dict[str, Any]:
    return {
        "port": loopback.port,
        "python": sys.executable,
        "spool_dir": str(loopback.spool),
        "data_dir": str(loopback.home / "clusters"),
        "pg_bin_dirs": [str(_bin_dir())],
    }


def _bin_dir() -> Path:
    """Return the directory of the wheel with PostgreSQL's programs."""
    from embedded.servers.postgres import bin_dir

    return bin_dir()


def _add(client: Client, loopback: Loopback) -> dict[str, Any]:
    identity = client.post("identities/", name="demo")
    loopback.authorize(identity["public_key"])
    fields = {"name": HOST, "address": "127.0.0.1", "user": loopback.user, "identity": identity["id"]}
    added: dict[str, Any] = client.post("hosts/", **fields, **_paths(loopback))
    return added


def _pin(client: Client, host: dict[str, Any], loopback: Loopback) -> None:
    """Compare the key that the host presents with its own file, and approve it."""
    offered = client.post(f"hosts/{host['id']}/fetch-host-key/")
    if offered["key"].split()[:2] != loopback.host_key.split()[:2]:
        raise StackError(f"another server answers on port {loopback.port}: {offered['fingerprint']}")
    client.post(f"hosts/{host['id']}/approve-host-key/", fingerprint=offered["fingerprint"])


def wait_for_check(client: Client, host: dict[str, Any]) -> dict[str, Any]:
    client.post(f"hosts/{host['id']}/check/")
    deadline = time.monotonic() + CHECK_TIMEOUT_S
    while time.monotonic() < deadline:
        checked: dict[str, Any] = client.get(f"hosts/{host['id']}/")
        if checked["check_requested_at"] is None:
            if checked["state"] != "ready":
                reason = f"{HOST} is {host_state(checked['state'])}: {checked['state_reason']}"
                raise StackError(f"{reason}; fix this, then run `make demo` again")
            return checked
        time.sleep(POLL_S / 2)
    raise StackError(f"{HOST} was not checked within {CHECK_TIMEOUT_S} s; see {paths.CHECKOUT}/var/log/worker.log")


def say_level(host: dict[str, Any]) -> str:
    """Return what this level of privilege can and cannot do."""
    facts = host["facts"]
    level = f"level {facts['level']}: "
    if facts["level"] == "root":
        return level + "every setting can be applied"
    return level + "cpu affinity, NUMA policy and PostgreSQL settings; huge pages and transparent huge pages need root"


def run(
    client: Client, host: dict[str, Any], watch: Callable[[], None], recipe: str | None = RECIPE, **choices: Any
) -> dict[str, Any]:
    """Create and start a campaign from this recipe, or from `choices` alone, and follow it.

    Returns the ended campaign from the API. Calls `watch` often."""
    fields = choices if recipe is None else {**choices, "recipe": recipe}
    campaign = client.post("campaigns/", host=host["id"], **fields)
    client.post(f"campaigns/{campaign['id']}/start/")
    return follow(client, campaign, watch)


def follow(client: Client, campaign: dict[str, Any], watch: Callable[[], None]) -> dict[str, Any]:
    """Follow a started campaign to its end. Returns it from the API. Calls `watch` often."""
    bar = Bar()
    while True:
        campaign = client.get(f"campaigns/{campaign['id']}/")
        bar.show(campaign["progress"])
        watch()
        if campaign["state"] in ("finished", "cancelled") and campaign["results_ready"]:
            bar.end()
            return dict(campaign)
        time.sleep(POLL_S)


class Bar:
    """Progress in one line that is overwritten, or a line per run without a terminal."""

    def __init__(self) -> None:
        self._terminal, self._done = sys.stderr.isatty(), -1

    def show(self, progress: dict[str, Any]) -> None:
        done, total = progress["done"], progress["total"]
        if not self._terminal and done == self._done:
            return
        self._done = done
        filled = BAR_WIDTH * done // max(total, 1)
        eta = "" if progress["eta_s"] is None else f"  ETA {progress['eta_s']:.0f} s"
        line = f"  [{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {done}/{total} runs{eta}"
        print(
            line.ljust(79) if self._terminal else line,
            end="\r" if self._terminal else "\n",
            file=sys.stderr,
            flush=True,
        )

    def end(self) -> None:
        if self._terminal:
            print(file=sys.stderr)


def report(table: dict[str, Any]) -> str:
    """Return the result table: for each level runs, mean, interval, difference, verdict and proof."""
    head = ("", "runs", table["metric"], "95 % CI", f"against {table['baseline']}", "verdict", "proven")
    rows = [head, *(_row(level) for level in table["levels"])]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    proofs = [f"  {level['label']}: {line}" for level in table["levels"] for line in level["proof_lines"]]
    observed = ["", "observed on the host during the runs:", *proofs] if proofs else []
    return "\n".join([*lines, "", table["sentence"], *observed])


def _row(level: dict[str, Any]) -> tuple[str, ...]:
    bounds = f"{_figure(level['low'])} .. {_figure(level['high'])}" if level["low"] is not None else "too few runs"
    relative = "" if level["relative_percent"] is None else percent(level["relative_percent"])
    if level["relative_low"] is not None:
        relative += f" [{signed(level['relative_low'])}, {signed(level['relative_high'])}]"
    runs = f"{level['ok']} of {level['planned']}"
    proven = f"{level['proven']} of {level['ok']}" if level["proof_lines"] or not level["ok"] else "no settings"
    verdict = verdicts.verdict(level["verdict"]).word + (" (preliminary)" if level["preliminary"] else "")
    mean = "" if level["mean"] is None else _figure(level["mean"])
    return level["label"], runs, mean, bounds, relative, verdict, proven


def _figure(value: float) -> str:
    """Return a rate as an integer, or a latency with as many decimals as needed."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}"


def succeeded(table: dict[str, Any]) -> bool:
    """Return whether every planned run was ok and proven."""
    return all(level["ok"] == level["planned"] == level["proven"] for level in table["levels"])
