"""manage.py reset_second_factor NAME: for users who lost their second factor, and for the only admin."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.models import User
from apps.accounts.second_factor import factors
from common.errors import PlanError


class Command(BaseCommand):
    help = "Remove the second factor and the recovery codes of a user, and end all sessions of the user."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")

    def handle(self, *, name: str, **_: Any) -> str:
        user = User.objects.filter(username=name).first()
        if user is None:
            raise CommandError(f"no user has the name {name!r}; the page Users lists all names")
        try:
            factors.reset(user, by=None)
        except PlanError as error:
            raise CommandError(error.reason) from error
        return f"{name} logs in with the password alone, and can enrol a new second factor on the page Account."
