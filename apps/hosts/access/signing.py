"""Sign agents for the launcher that an admin installs on a host; see agents/launcher.py.

The key is created on first use and encrypted by the vault. Signatures have the format of ssh-keygen -Y sign
(PROTOCOL.sshsig in OpenSSH)."""

from __future__ import annotations

import base64
import hashlib
import struct
import time

import asyncssh
from django.db import transaction
from django.db.models import Max

from agents import launcher
from apps.accounts.services import audit
from apps.hosts.access import keys
from apps.hosts.models import AgentSignature, SigningKey
from apps.infrastructure import vault
from common.errors import PlanError

COMMENT = "proving-ground agent"
_MAGIC, _VERSION, _HASH, _WIDTH = b"SSHSIG", 1, b"sha512", 70


def current_key() -> SigningKey:
    """Return the current signing key, creating it if there is none."""
    key = SigningKey.objects.filter(state=SigningKey.State.CURRENT).first()
    return key or _make(SigningKey.State.CURRENT)


@transaction.atomic
def prepare_next_key() -> SigningKey:
    """Create the next key, so that hosts can trust it before it is used. PlanError if there is one already."""
    if SigningKey.objects.filter(state=SigningKey.State.NEXT).exists():
        hint = "sign_agent without options lists the keys; --use-next makes it sign"
        raise PlanError("key", "the next key already exists", hint=hint)
    return _make(SigningKey.State.NEXT)


@transaction.atomic
def use_next_key() -> SigningKey:
    """Make the next key the current one. Hosts that do not trust it refuse agents from now on."""
    following = SigningKey.objects.select_for_update().filter(state=SigningKey.State.NEXT).first()
    if following is None:
        raise PlanError("key", "there is no next key", hint="create one with --next, and add it on each host first")
    SigningKey.objects.filter(state=SigningKey.State.CURRENT).update(state=SigningKey.State.RETIRED)
    following.state = SigningKey.State.CURRENT
    following.save(update_fields=["state"])
    audit(None, "signing_key.use", following, after={"public_key": following.public_key})
    return following


def _make(state: str) -> SigningKey:
    public, private = keys.generate(COMMENT)
    with transaction.atomic():
        SigningKey.objects.filter(state=state).select_for_update().first()
        made, new = SigningKey.objects.get_or_create(
            state=state, defaults={"public_key": public, "private_key_encrypted": vault.encrypt(private)}
        )
        if new:
            audit(None, "signing_key.create", made, after={"public_key": public, "state": state})
    return made


def signers_line(key: SigningKey) -> str:
    """Return the line for this key in the launcher's file `signers`."""
    return f'{launcher.SIGNER} namespaces="{launcher.NAMESPACE}" {key.public_key}'


def signers() -> str:
    """Return the file `signers`: the current and the next key."""
    current_key()
    known = SigningKey.objects.exclude(state=SigningKey.State.RETIRED).order_by("pk")
    return "".join(f"{signers_line(key)}\n" for key in known)


@transaction.atomic
def newest_signature(sha256: str) -> AgentSignature:
    """Return a signature of this agent that is newer than that of any other agent.

    It is renewed if another agent was signed since, as after a return to an older server. So a host refuses replayed
    agents but never the current one."""
    key = SigningKey.objects.select_for_update().get(pk=current_key().pk)
    newest = AgentSignature.objects.order_by("-serial").first()
    if newest and newest.sha256 == sha256 and newest.key_id == key.pk:
        return newest
    highest = AgentSignature.objects.aggregate(Max("serial"))["serial__max"] or 0
    serial = max(highest + 1, int(time.time()))  # increases even if the database was lost
    made = AgentSignature(sha256=sha256, serial=serial, key=key)
    made.signature = _sign(key, made.statement)
    made.save()
    audit(None, "agent.sign", sha256, after={"serial": serial, "key": keys.fingerprint(key.public_key)})
    return made


def parcel(sha256: str, agent: bytes) -> bytes:
    """Return the input of `proving-agent install`."""
    signed_agent = newest_signature(sha256)
    statement, signature = signed_agent.statement.encode(), signed_agent.signature.encode()
    return b"%d %d %d\n" % (len(statement), len(signature), len(agent)) + statement + signature + agent


def _sign(key: SigningKey, statement: str) -> str:
    private = asyncssh.import_private_key(vault.decrypt(key.private_key_encrypted, what="the key that signs agents"))
    namespace, digest = launcher.NAMESPACE.encode(), hashlib.sha512(statement.encode()).digest()
    signature = private.sign(_MAGIC + _strings(namespace, b"", _HASH, digest), private.algorithm)
    blob = struct.pack(">I", _VERSION) + _strings(private.public_data, namespace, b"", _HASH, signature)
    text = base64.b64encode(_MAGIC + blob).decode()
    lines = [text[at : at + _WIDTH] for at in range(0, len(text), _WIDTH)]
    return "\n".join(["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----", ""])


def _strings(*parts: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)
