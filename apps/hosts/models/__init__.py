"""Hosts, SSH and signing keys, permissions and reservations, facts, and leases."""

from apps.hosts.models.hosts import Facts, Host, HostKey, Lease, Trouble
from apps.hosts.models.keys import AgentSignature, Identity, SigningKey
from apps.hosts.models.usage import AllowedPath, ClusterConsent, RemoteServer, Reservation
from apps.hosts.models.validators import ACCOUNT, LABEL, NAME, PATH, STORAGE

__all__ = [
    "ACCOUNT",
    "LABEL",
    "NAME",
    "PATH",
    "STORAGE",
    "AgentSignature",
    "AllowedPath",
    "ClusterConsent",
    "Facts",
    "Host",
    "HostKey",
    "Identity",
    "Lease",
    "RemoteServer",
    "Reservation",
    "SigningKey",
    "Trouble",
]
