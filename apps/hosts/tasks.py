"""Tasks take an id and make one call. Periodic tasks wake workers for what is due; `manage.py tick` does it at once.

A host may be deleted before its task begins, or while the task waits for it."""

from __future__ import annotations

from contextlib import suppress

from celery import shared_task
from django.utils import timezone

from apps.hosts import contact
from apps.hosts.models import Host
from apps.infrastructure import waking


@shared_task(name="hosts.check")
def check(host_id: int) -> None:
    with suppress(Host.DoesNotExist):
        contact.check_host(Host.objects.get(pk=host_id))


@shared_task(name="hosts.release")
def release(host_id: int) -> None:
    with suppress(Host.DoesNotExist):
        contact.release_host(Host.objects.get(pk=host_id))


@shared_task(name="hosts.enqueue_checks")
def enqueue_checks() -> None:
    """Enqueue checks that are due, and checks and releases whose message was lost."""
    requested = Host.objects.exclude(check_requested_at=None).values_list("pk", flat=True)
    for host_id in {*contact.claim_checks(timezone.now()), *requested}:
        waking.carry_out(check, host_id)
    for host_id in list(Host.objects.exclude(release_requested_at=None).values_list("pk", flat=True)):
        waking.carry_out(release, host_id)
