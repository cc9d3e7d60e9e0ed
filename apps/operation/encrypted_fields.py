"""Every secret that the vault encrypts, whichever app keeps it: fields whose name ends with `_encrypted`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.apps import apps
from django.conf import settings
from django.db import connection, models, transaction

from apps.accounts.services import audit
from apps.fingerprints import fingerprint
from common.errors import PlanError

SUFFIX = "_encrypted"
PUT_FIRST = (
    "set PROVING_SSH_KEYS=NEW,OLD, then recreate the containers with: docker compose up -d; restart keeps old values"
)


@dataclass(frozen=True)
class EncryptedField:
    """One encrypted field of one row; `what` names it in messages."""

    row: models.Model
    field: str

    @property
    def token(self) -> str:
        return str(getattr(self.row, self.field))

    @property
    def what(self) -> str:
        return f"{self.row._meta.verbose_name} {self.row}"


def every() -> Iterator[EncryptedField]:
    """Yield all secrets, row by row; empty fields are not secrets."""
    for model in apps.get_models():
        for field in (column.name for column in model._meta.concrete_fields if column.name.endswith(SUFFIX)):
            rows = model._default_manager.exclude(**{field: ""}).order_by("pk")
            yield from (EncryptedField(row, field) for row in rows.iterator(chunk_size=100))


def opener(token: str) -> str | None:
    """Return the fingerprint of the key of this server that decrypts the token; None if none does."""
    for key in settings.SSH_KEYS:
        try:
            Fernet(key).decrypt(token.encode())
        except InvalidToken:
            continue
        return fingerprint(key)
    return None


def needed() -> tuple[list[str], list[str]]:
    """Return (fingerprints of the keys that decrypt the secrets, names of secrets that no key decrypts)."""
    keys, closed = set(), []
    for secret in every():
        key = opener(secret.token)
        if key:
            keys.add(key)
        else:
            closed.append(secret.what)
    return sorted(keys), closed


def outdated_processes() -> list[str]:
    """Return connected server processes with another first key, such as `web`; see apps/process.py."""
    ours = f"key={fingerprint(settings.SSH_KEYS[0])[:8]}"
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT application_name FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name LIKE 'proving-%%' AND pid <> pg_backend_pid()"
        )
        names = [row[0].removeprefix("proving-").partition(" ") for row in cursor.fetchall()]
    return sorted({kind for kind, _, key in names if key != ours})


@transaction.atomic
def rotate() -> int:
    """Encrypt all secrets with the first of PROVING_SSH_KEYS. Returns how many were encrypted with another key.

    PlanError without a change if no new key is in use, if a running process has another first key, or if no key
    decrypts a secret: it would be lost with its key."""
    _check_keys()
    first, total, changed = fingerprint(settings.SSH_KEYS[0]), 0, 0
    box = MultiFernet([Fernet(key) for key in settings.SSH_KEYS])
    for secret in every():
        key, total = opener(secret.token), total + 1
        if key is None:
            hint = "add the key that encrypted it after the other keys, or delete its object"
            raise PlanError("PROVING_SSH_KEYS", f"no key decrypts the secret of {secret.what}", hint=hint)
        if key != first:
            anew = {secret.field: box.rotate(secret.token.encode()).decode()}
            rows = type(secret.row)._default_manager.filter(pk=secret.row.pk, **{secret.field: secret.token})
            changed += rows.update(**anew)
    if total and not changed:
        message = f"the first key ({first}) already encrypts all {total} secrets, so no new key is in use"
        raise PlanError("PROVING_SSH_KEYS", message, hint=PUT_FIRST)
    audit(None, "keys.rotate", first, after={"secrets": changed})
    return changed


def _check_keys() -> None:
    if len(settings.SSH_KEYS) < 2:
        raise PlanError("PROVING_SSH_KEYS", "contains one key in this process, so no new key is in use", hint=PUT_FIRST)
    if outdated := outdated_processes():
        message = f"another key comes first in {', '.join(outdated)}, which could not decrypt the secrets afterwards"
        raise PlanError("PROVING_SSH_KEYS", message, hint="recreate the containers with: docker compose up -d")
