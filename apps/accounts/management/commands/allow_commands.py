"""manage.py allow_commands NAME: let a user write and start workloads that execute programs."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts import services
from apps.accounts.models import User
from common.errors import PlanError


class Command(BaseCommand):
    help = "Let a user write and start workloads that execute programs or scripts of the user's own on your hosts."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--revoke", action="store_true", help="take the permission away")

    def handle(self, *, name: str, revoke: bool, **_: Any) -> str:
        user = User.objects.filter(username=name).first()
        if user is None:
            raise CommandError(f"there is no user {name!r}")
        try:
            services.allow_commands(user, not revoke, by=None)
        except PlanError as error:
            raise CommandError(str(error)) from error
        return f"{name} may {'no longer ' if revoke else ''}run commands"
