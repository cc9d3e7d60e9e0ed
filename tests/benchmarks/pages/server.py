"""The server whose pages are requested: its stores, its history and the session of a user who sees everything."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import django

from embedded import commands, processes
from embedded.servers.postgres import RUNTIME_USER
from embedded.stack import Stack
from embedded.supervisor import Supervisor

FEW = 10_000  # runs of the history
STAGES = [("10 000 runs", FEW, False), ("13 554 in one campaign", FEW, True)]


def stages(more: Sequence[int]) -> list[tuple[str, int, bool]]:
    """(title, runs, whether with the large campaign) of all stages, with one for each number in `more`."""
    return STAGES + [(f"{runs:,} runs".replace(",", " "), runs, True) for runs in more]


@contextmanager
def running(state: Path | None) -> Iterator[Stack]:
    """PostgreSQL and Valkey, and on request the web server. No worker processes the runs."""
    with tempfile.TemporaryDirectory(prefix="pg-pages-") as fresh:
        where = state or Path(fresh)
        where.mkdir(exist_ok=True)
        os.environ["PROVING_API_PER_USER_MIN"] = "0"  # one user asks for all
        with Supervisor(where) as supervisor:
            stack = Stack(supervisor)
            stack.start_stores()
            stack.manage(*commands.MIGRATE[1:])
            stack.manage("runtime_role", RUNTIME_USER, stdin=stack.postgres.runtime_password)
            stack.manage("collectstatic", "--noinput", env=stack.static_root)
            os.environ.update(stack.environment())
            django.setup()
            yield stack


def fill_pages(state: Path) -> dict[str, str]:
    """Adds the rows of a team, unless `state` has them already: {name: address} of all pages."""
    from apps.accounts.models import User
    from tests.documents.pages import pages, pages_of_fleets
    from tests.rows import fleets, populate

    known = state / "pages.pickle"
    if not known.exists():
        team = populate.team()
        User.objects.filter(pk=team["admin"].pk).update(may_run_commands=True)  # for a workload of the history
        listed = [*pages(team), *pages_of_fleets(fleets.team(team["operator"]))]
        known.write_bytes(pickle.dumps({f"page {name}": url for name, url, _ in listed}))
    return dict(pickle.loads(known.read_bytes()))


def session(name: str = "ada") -> str:
    """The session key of a user with this name, who may see everything."""
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY

    from apps.accounts.models import User
    from apps.accounts.sessions import SessionStore

    defaults = {"role": "tuner", "password": "!", "may_run_commands": True}
    (user, _), store = User.objects.get_or_create(username=name, defaults=defaults), SessionStore()
    store[SESSION_KEY], store[BACKEND_SESSION_KEY] = str(user.pk), "django.contrib.auth.backends.ModelBackend"
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.save()
    return str(store.session_key)


def peak_mb(sid: int) -> float:
    """Of the process of the web server that needed most, since it began."""
    statuses = [Path(f"/proc/{process.pid}/status").read_text() for process in processes.in_session(sid)]
    return (
        max(int(line.split()[1]) for text in statuses for line in text.splitlines() if line.startswith("VmHWM")) / 1024
    )


def cpu_ms(sid: int) -> float:
    """CPU time of the processes of a session, in steps of 10 ms."""
    stats = [
        Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        for process in processes.in_session(sid)
    ]
    return sum(1000 * (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK") for stat in stats)
