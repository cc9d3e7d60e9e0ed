"""The collectors of a step, and the programs that they start."""

from __future__ import annotations

from pathlib import Path

from ..collectors import COLLECTORS, Collector, Subject
from ..collectors.over_sql.round_trip import is_over_tcp
from ..records.processes import DEVNULL, PIPE, Account, Child, environment, spawn
from .running import Run


def make(run: Run, out: Path) -> list[Collector]:
    """The collectors of the spec. Their programs write to files in `out`."""

    def converse(argv: list[str], purpose: str) -> Child:
        return _start(run, argv, purpose, out, run.cluster.account if run.cluster else run.account, PIPE)

    def attach(argv: list[str], purpose: str) -> Child:
        return _start(run, argv, purpose, out, Account(name=str(run.system.euid())), DEVNULL)

    directory = Path((run.spec["target"] or {}).get("data_dir") or run.job.path)
    subject = Subject(directory, run.cluster, run.scene.postmaster, converse, attach, run.scene.group)
    chosen = [COLLECTORS[name] for name in run.spec["collect"]["sources"]]
    has_tcp = run.cluster is not None and is_over_tcp(run.cluster)
    possible = [
        each for each in chosen if (run.scene.group or not each.needs_group) and (has_tcp or not each.needs_tcp)
    ]
    return [each(run.system, subject) for each in possible]


def _start(run: Run, argv: list[str], purpose: str, out: Path, account: Account, stdin: int) -> Child:
    """Start a program of the agent, which is not part of the load: it runs on the agent's CPUs."""
    env = run.cluster.env if run.cluster and account is run.cluster.account else {}
    run.emit("command", {"purpose": purpose, "argv": [*account.wrapper, *argv], "env": env})
    with (out / f"{purpose}.stderr").open("wb") as stderr:
        return spawn(
            run.journal,
            argv,
            purpose=purpose,
            account=account,
            env=environment(run.job.run, env),
            stdin=stdin,
            stdout=PIPE,
            stderr=stderr,
        )
