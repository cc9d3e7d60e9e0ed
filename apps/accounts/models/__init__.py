"""Users with a role, teams with roles of their own, API tokens, and the append-only audit log."""

from apps.accounts.models.channels import OWN_KINDS, Channel, Delivery
from apps.accounts.models.credentials import ApiToken, Credential, ProviderAccount, ProviderSession, Session
from apps.accounts.models.limits import ANY, NONE, UNLIMITED, Limits, Role, Scope
from apps.accounts.models.records import AuditEntry, AuditSeal, AuditStream, IdempotentRequest
from apps.accounts.models.second_factor import RecoveryCode, SecondFactor
from apps.accounts.models.users import Membership, Owned, Team, Thing, User

__all__ = [
    "ANY",
    "NONE",
    "OWN_KINDS",
    "UNLIMITED",
    "ApiToken",
    "AuditEntry",
    "AuditSeal",
    "AuditStream",
    "Channel",
    "Credential",
    "Delivery",
    "IdempotentRequest",
    "Limits",
    "Membership",
    "Owned",
    "ProviderAccount",
    "ProviderSession",
    "RecoveryCode",
    "Role",
    "Scope",
    "SecondFactor",
    "Session",
    "Team",
    "Thing",
    "User",
]
