"""manage.py create_admin NAME: the first admin, whose secret is printed once."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from apps.accounts import services
from apps.accounts.models import Role, User
from apps.accounts.tokens.lifecycle import issue_token
from common.errors import PlanError


class Command(BaseCommand):
    help = "Create an admin and print a generated password or an API token, once. Only the secret is written to stdout."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--token", type=int, metavar="DAYS", help="print an API token instead of a password")
        parser.add_argument("--reset", action="store_true", help="make an existing user an admin, with a new secret")

    def handle(self, *, name: str, token: int | None, reset: bool, **_: Any) -> str:
        try:
            with transaction.atomic():
                # A further token takes nothing from an admin; a new password would.
                known = User.objects.filter(username=name, role=Role.ADMIN).first() if token else None
                user = known or services.create_admin(name, reset=reset)
                if token is None:
                    secret, kind = services.generate_password(user), f"password of {name}"
                else:
                    secret = issue_token(user, "create_admin", Role.ADMIN, days=token, by_operator=True)[1]
                    kind = f"API token of {name}, valid for {token} days"
        except PlanError as error:
            raise CommandError(str(error)) from error
        self.stderr.write(f"{kind}, shown only once:")
        return secret
