"""Users and teams with their roles, credentials, notifications, and the append-only audit log."""

from apps.accounts.models.channels import USER_KINDS, Channel, Delivery
from apps.accounts.models.credentials import (
    ApiToken,
    Credential,
    ProviderAccount,
    ProviderSession,
    Session,
    TrustedJob,
)
from apps.accounts.models.limits import ANY, NONE, UNLIMITED, Limits, Role, Scope
from apps.accounts.models.records import AuditEntry, AuditSeal, AuditStream, IdempotentRequest
from apps.accounts.models.second_factor import Passkey, RecoveryCode, SecondFactor
from apps.accounts.models.users import HasOwners, Membership, Owned, Team, User, hidden_from, unjoined_teams
from apps.accounts.models.walls import Teams, Walled, WalledQuerySet

__all__ = [
    "ANY",
    "NONE",
    "UNLIMITED",
    "USER_KINDS",
    "ApiToken",
    "AuditEntry",
    "AuditSeal",
    "AuditStream",
    "Channel",
    "Credential",
    "Delivery",
    "HasOwners",
    "IdempotentRequest",
    "Limits",
    "Membership",
    "Owned",
    "Passkey",
    "ProviderAccount",
    "ProviderSession",
    "RecoveryCode",
    "Role",
    "Scope",
    "SecondFactor",
    "Session",
    "Team",
    "Teams",
    "TrustedJob",
    "User",
    "Walled",
    "WalledQuerySet",
    "hidden_from",
    "unjoined_teams",
]
