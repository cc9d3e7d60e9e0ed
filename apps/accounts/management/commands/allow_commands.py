"""manage.py allow_commands NAME: let a user write and start workloads that execute programs."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts import services
from apps.accounts.models import User
from common.errors import PlanError


class Command(BaseCommand):
    help = "Allow a user to create and start workloads that execute the user's own programs or scripts on hosts."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--revoke", action="store_true", help="revoke the permission")

    def handle(self, *, name: str, revoke: bool, **_: Any) -> str:
        user = User.objects.filter(username=name).first()
        if user is None:
            raise CommandError(f"user {name!r} does not exist")
        try:
            services.allow_commands(user, not revoke, by=None)
        except PlanError as error:
            raise CommandError(str(error)) from error
        return f"{name} may {'no longer ' if revoke else ''}run commands"
