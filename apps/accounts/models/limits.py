"""What a role includes, and what an API token lets through of its owner's roles. The one rule for both is here."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import models


class Role(models.TextChoices):
    """What a user may do; each includes the ones before it."""

    VIEWER = "viewer", "viewer: reads everything"
    OPERATOR = "operator", "operator: starts and cancels campaigns"
    TUNER = "tuner", "tuner: writes profiles, workloads and decisions"
    ADMIN = "admin", "admin: adds hosts and users"

    def includes(self, other: Role) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(other)


class Scope(models.TextChoices):
    """Which actions a token permits beside reading."""

    READ = "read", "read only"
    CAMPAIGNS = "campaigns", "campaigns: campaigns and what they consist of, their results and decisions"
    HOSTS = "hosts", "hosts: hosts and SSH keys"


# The scope of an action that a token with any scope permits, and of one that none of them permits.
ANY, NONE = "any", ""


@dataclass(frozen=True)
class Limits:
    """What a token lets through. `team` is the key of the only team in which its roles count; no `scopes`: all actions.

    Its networks and its expiry are checked before any action, when it is admitted: see apps/accounts/tokens.
    """

    role: Role = Role.ADMIN
    team: int | None = None
    scopes: tuple[str, ...] = ()

    def __str__(self) -> str:
        team = f"team {self.team}" if self.team is not None else ""
        return ", ".join(each for each in (self.role.value, team, *self.scopes) if each)

    def role_in(self, team: int | None, own: Role) -> Role:
        """What is left of the role `own` that the owner has in `team`; None is the instance."""
        if self.team is not None and team != self.team:
            return Role.VIEWER
        return min(own, self.role, key=list(Role).index)

    def permits(self, scope: str) -> bool:
        """Whether an action of this scope is permitted, if the role is sufficient."""
        return not self.scopes or scope in (ANY, Scope.READ) or scope in self.scopes

    def includes(self, other: Limits) -> bool:
        """Whether a token with these limits may do all that one with the `other` limits may."""
        team = self.team is None or self.team == other.team
        scopes = not self.scopes or (bool(other.scopes) and all(self.permits(each) for each in other.scopes))
        return self.role.includes(other.role) and team and scopes


UNLIMITED = Limits()
