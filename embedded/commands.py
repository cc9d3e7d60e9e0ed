"""The processes of the server, as arguments of `python -m`. docker-compose.yml runs the same; a test compares them."""

from __future__ import annotations

# Threads suit pages that wait for PostgreSQL. Two processes, so that one can be replaced. A stream to a live page keeps
# its thread: 200 of them (PROVING_LIVE_STREAMS), and 16 for all else. A thread that was never needed costs nothing.
WEB = (
    "gunicorn",
    "apps.wsgi",
    "--config=python:apps.serving",
    "--worker-class=apps.worker.PatientWorker",
    "--logger-class=apps.worker.Logger",
    "--workers=2",
    "--threads=216",
    "--timeout=60",
    "--graceful-timeout=5",
    "--keep-alive=20",
    "--access-logfile=-",
    "--no-control-socket",
)

# Without the banner, which would break the format of the log.
CELERY = ("celery", "--app=apps.celery", "--quiet")

# PostgreSQL has the state, so workers need not exchange messages, and only the next task is prefetched.
ALONE = ("--prefetch-multiplier=1", "--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=INFO")

# Reading results needs CPU time, hence processes.
WORKER = (*CELERY, "worker", "--pool=prefork", "--concurrency=2", "--queues=celery", *ALONE)

# Following a run mostly waits for its host, hence a thread for each, PROVING_RUNS_AT_ONCE of them, with few
# connections.
DISPATCHER = (*CELERY, "worker", "--pool=threads", "--queues=runs", "--hostname=dispatcher@%h", *ALONE)
DISPATCHER_ENVIRONMENT = {"PROVING_DATABASE_POOL": "20"}

BEAT = (*CELERY, "beat", "--loglevel=INFO", "--pidfile=")

MIGRATE = ("manage.py", "migrate", "--noinput")


def web(bind: str) -> list[str]:
    """Return the web server on ADDRESS:PORT."""
    return ["-m", *WEB, f"--bind={bind}"]


def worker() -> list[str]:
    """Return one worker: results, checks of hosts, and periodic tasks."""
    return ["-m", *WORKER]


def dispatcher() -> list[str]:
    """Return one dispatcher, which follows runs."""
    return ["-m", *DISPATCHER]


def beat(schedule: str) -> list[str]:
    """Return the scheduler of periodic tasks. `schedule`: the file with the times of its last calls."""
    return ["-m", *BEAT, f"--schedule={schedule}"]
