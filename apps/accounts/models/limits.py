"""Roles and scopes, and how the limits of an API token reduce the roles of its owner."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import models


class Role(models.TextChoices):
    """What a user may do. Each role includes the roles before it."""

    VIEWER = "viewer", "viewer: reads everything"
    OPERATOR = "operator", "operator: starts and cancels campaigns"
    TUNER = "tuner", "tuner: writes profiles, workloads and decisions"
    ADMIN = "admin", "admin: adds hosts and users"

    def includes(self, other: Role) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(other)


class Scope(models.TextChoices):
    """The actions that a token permits in addition to reading."""

    READ = "read", "read only"
    CAMPAIGNS = "campaigns", "campaigns: campaigns and what they consist of, their results and decisions"
    HOSTS = "hosts", "hosts: hosts and SSH keys"


# Scopes of actions: every token permits an action with ANY; a token with scopes never permits one with NONE.
ANY, NONE = "any", ""


@dataclass(frozen=True)
class Limits:
    """What a token permits at most. `team` is the key of the only team in which the role counts, None for all teams and
    the instance. Without `scopes`, it permits all actions.

    apps/accounts/tokens checks networks and expiry when it admits the token, before any action.
    """

    role: Role = Role.ADMIN
    team: int | None = None
    scopes: tuple[str, ...] = ()

    def __str__(self) -> str:
        team = f"team {self.team}" if self.team is not None else ""
        return ", ".join(each for each in (self.role.value, team, *self.scopes) if each)

    def role_in(self, team: int | None, own: Role) -> Role:
        """The owner's role `own` in `team`, reduced to these limits. `team` None is the instance."""
        if self.team is not None and team != self.team:
            return Role.VIEWER
        return min(own, self.role, key=list(Role).index)

    def permits(self, scope: str) -> bool:
        """Whether an action of this scope is permitted, if the role is sufficient."""
        return not self.scopes or scope in (ANY, Scope.READ) or scope in self.scopes

    def includes(self, other: Limits) -> bool:
        """Whether these limits permit everything that the `other` limits permit."""
        team = self.team is None or self.team == other.team
        scopes = not self.scopes or (bool(other.scopes) and all(self.permits(scope) for scope in other.scopes))
        return self.role.includes(other.role) and team and scopes


UNLIMITED = Limits()
