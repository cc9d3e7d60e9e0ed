"""The server's own processes, as arguments of `python -m`. docker-compose.yml runs the same; a test compares them."""

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

# Quiet: a banner is no line of the log.
CELERY = ("celery", "--app=apps.celery", "--quiet")

# PostgreSQL says what is due and who holds it, so workers need not gossip, and nothing is prefetched but the next task.
ALONE = ("--prefetch-multiplier=1", "--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=INFO")

# Reading results takes cpu time: processes.
WORKER = (*CELERY, "worker", "--pool=prefork", "--concurrency=2", "--queues=celery", *ALONE)

# To follow a run is to wait for its host: a thread for each, PROVING_RUNS_AT_ONCE of them, which share few connections.
DISPATCHER = (*CELERY, "worker", "--pool=threads", "--queues=runs", "--hostname=dispatcher@%h", *ALONE)
DISPATCHER_ENVIRONMENT = {"PROVING_DATABASE_POOL": "20"}

BEAT = (*CELERY, "beat", "--loglevel=INFO", "--pidfile=")

MIGRATE = ("manage.py", "migrate", "--noinput")


def web(bind: str) -> list[str]:
    """The web server on ADDRESS:PORT."""
    return ["-m", *WEB, f"--bind={bind}"]


def worker() -> list[str]:
    """One worker: results, checks of hosts, and what beat wants done."""
    return ["-m", *WORKER]


def dispatcher() -> list[str]:
    """One dispatcher, which follows runs."""
    return ["-m", *DISPATCHER]


def beat(schedule: str) -> list[str]:
    """The clock; `schedule` is the file in which it remembers when it last called."""
    return ["-m", *BEAT, f"--schedule={schedule}"]
