"""The Celery application. Each task takes an id and makes one call."""

import gc
import logging.config
import os
import resource
from typing import Any

from celery import Celery
from celery.apps import worker as program
from celery.signals import beat_init, celeryd_init, worker_init, worker_ready, worker_shutting_down
from django.conf import settings

from apps import logs

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.settings")
DESCRIPTORS = 65536  # following a run takes four, and 1024 is a common limit

app = Celery("proving_ground")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@celeryd_init.connect
def log_from_the_start(**_: Any) -> None:
    """Configure logging before Django does, for early warnings of Celery, such as running as root."""
    logging.config.dictConfig(settings.LOGGING)
    logging.captureWarnings(True)
    if settings.LOG_FORMAT == "json":
        program.safe_say = logs.say  # type: ignore[attr-defined]  # not in its types


@worker_init.connect
def raise_limit(**_: Any) -> None:
    """Raise the limit of open files as far as this account may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))


@worker_ready.connect
def freeze_modules(**_: Any) -> None:
    """Keep what is loaded out of garbage collection, which would stop the threads for 100 ms each time."""
    gc.collect()
    gc.freeze()


@worker_ready.connect
def listen_for_nudges(sender: Any, **_: Any) -> None:
    """Let threads that follow runs be woken when one needs attention. Processes poll instead."""
    if sender.pool.__class__.__module__ == "celery.concurrency.thread":
        from apps.campaigns.execution import nudges

        nudges.listen()


@beat_init.connect
def push_metrics(**_: Any) -> None:
    """Send the metrics of the instance from its beat, if the operator wants that."""
    if settings.OTLP_METRICS_URL:
        from apps.monitoring import metric_push

        metric_push.start()


@worker_shutting_down.connect
def stop_ticks(**_: Any) -> None:
    """Ask the threads to end their ticks, because a thread cannot be killed, and to wait for no events meanwhile."""
    from apps.campaigns.execution import claims, nudges

    claims.stopping.set()
    nudges.wake_all()
