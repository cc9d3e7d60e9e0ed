"""manage.py rotate_key: secrets that an older key encrypts are encrypted anew with the first of PROVING_SSH_KEYS."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.operation import encrypted_fields
from common.errors import ProvingError


class Command(BaseCommand):
    help = (
        "Encrypt SSH private keys and webhook secrets again with the first key of PROVING_SSH_KEYS, in one transaction."
    )

    def handle(self, **_: Any) -> None:
        try:
            changed = encrypted_fields.rotate()
        except ProvingError as error:
            raise CommandError(str(error)) from error
        keys = encrypted_fields.needed()[0]
        secrets = "1 secret" if changed == 1 else f"{changed} secrets"
        self.stdout.write(f"{secrets} encrypted again; the keys in use are {', '.join(keys) or 'none'}")
        self.stdout.write("only older backups still need the other keys of PROVING_SSH_KEYS")
