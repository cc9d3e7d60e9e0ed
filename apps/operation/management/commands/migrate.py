"""manage.py migrate: Django's command. Afterwards, the role in PROVING_RUNTIME_ROLE has its rights on all tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.core.management.commands import migrate

from apps.operation import runtime_role
from common.errors import PlanError


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        super().handle(*args, **options)
        if not settings.RUNTIME_ROLE or options["plan"] or options["check_unapplied"]:
            return
        try:
            file = settings.RUNTIME_PASSWORD_FILE
            runtime_role.prepare(settings.RUNTIME_ROLE, runtime_role.password_in(Path(file)) if file else "")
        except PlanError as error:
            raise CommandError(f"{error}; {error.hint}") from error
        if options["verbosity"]:
            self.stdout.write(f"The server's role {settings.RUNTIME_ROLE} has its rights on all tables.")
