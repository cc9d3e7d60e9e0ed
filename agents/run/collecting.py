"""The collectors of a step, and the programs that they start. The session of the agent in PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from ..collectors import COLLECTORS, Collector, Subject
from ..collectors.over_sql.round_trip import is_over_tcp
from ..records.processes import DEVNULL, PIPE, Account, Child, environment, spawn
from .running import Run


def make(run: Run, out: Path) -> list[Collector]:
    """The collectors of the spec. Their programs write to files in `out`."""

    def start_client(argv: list[str], purpose: str) -> Child:
        assert run.cluster is not None  # noqa: S101 - for the type checker
        return _start(run, argv, purpose, out, run.cluster.account, PIPE, run.cluster.env)

    def attach(argv: list[str], purpose: str) -> Child:
        return _start(run, argv, purpose, out, Account(name=str(run.system.euid())), DEVNULL, {})

    directory = Path((run.spec["target"] or {}).get("data_dir") or run.job.path)
    subject = Subject(directory, run.cluster, run.scene.postmaster, start_client, attach, run.scene.group)
    chosen = [COLLECTORS[name] for name in run.spec["collect"]["sources"]]
    has_tcp = run.cluster is not None and is_over_tcp(run.cluster)
    possible = [
        each for each in chosen if (run.scene.group or not each.needs_group) and (has_tcp or not each.needs_tcp)
    ]
    return [each(run.system, subject) for each in possible]


def start_psql(run: Run, argv: list[str], env: dict[str, str]) -> Child:
    """Start the psql of a session of the agent."""
    out = run.job.path / "out"
    out.mkdir(exist_ok=True, mode=0o700)
    assert run.cluster is not None  # noqa: S101 - for the type checker
    return _start(run, argv, "session", out, run.cluster.account, PIPE, env)


def _start(
    run: Run, argv: list[str], purpose: str, out: Path, account: Account, stdin: int, env: dict[str, str]
) -> Child:
    """Start a program of the agent, which is not part of the load: it runs on the agent's CPUs."""
    run.emit("command", {"purpose": purpose, "argv": [*account.wrapper, *argv], "env": env})
    with (out / f"{purpose}.stderr").open("ab") as stderr:
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
