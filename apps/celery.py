"""The Celery application. Its tasks take an id and make one call."""

import logging.config
import os
import resource
from typing import Any

from celery import Celery
from celery.apps import worker as program
from celery.signals import celeryd_init, worker_init, worker_ready, worker_shutting_down
from django.conf import settings

from apps import logs

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.settings")
DESCRIPTORS = 65536  # a followed run takes four, and 1024 is a common limit

app = Celery("proving_ground")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@celeryd_init.connect
def log_from_the_start(**_: Any) -> None:
    """Also what Celery warns of before Django is set up, such as running as root."""
    logging.config.dictConfig(settings.LOGGING)
    logging.captureWarnings(True)
    if settings.LOG_FORMAT == "json":
        program.safe_say = logs.say  # type: ignore[attr-defined]  # not in its types


@worker_init.connect
def raise_limit(**_: Any) -> None:
    """As many open files as this account may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))


@worker_ready.connect
def hear(sender: Any, **_: Any) -> None:
    """Threads follow runs for long, and are woken when one needs attention; processes poll instead."""
    if sender.pool.__class__.__module__ == "celery.concurrency.thread":
        from apps.campaigns.execution import nudges

        nudges.listen()


@worker_shutting_down.connect
def let_go(**_: Any) -> None:
    """Threads cannot be ended: each ends its tick by itself."""
    from apps.campaigns.execution import claims

    claims.stopping.set()
