"""Users, teams, and the roles of users in the instance and in teams."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from django.contrib.auth.models import AbstractUser
from django.db import models

from apps.accounts.models.limits import UNLIMITED, Limits, Role


class Thing(Protocol):
    """What a role is held on: `owners` are the keys of the teams that have a say, None among them for the house."""

    @property
    def owners(self) -> Collection[int | None]: ...


class User(AbstractUser):
    """`role` is that in the house. Behind a token it is the token's where that is less: see `limit_to`."""

    role = models.CharField(max_length=10, choices=Role, default=Role.VIEWER)
    may_run_commands = models.BooleanField(
        default=False, help_text="create and start workloads that execute programs or scripts of the user"
    )

    limits: Limits = UNLIMITED
    whole: Role | None = None

    def may(self, role: Role, on: Thing | None = None) -> bool:
        """Whether this user's role includes `role`: in the instance, or on a thing, in every team that owns it."""
        if on is None or (self.of_house and self.limits.team is None):
            return self.is_active and Role(self.role).includes(role)
        allowed = self.is_active and self.limits.role.includes(role)
        return allowed and all(self.role_in(team).includes(role) for team in on.owners)

    def may_somewhere(self, role: Role) -> bool:
        """Whether it does in the instance, or in any team: on what, a service has to ask."""
        if not self.is_active or self.may(role):
            return self.is_active
        return any(self.role_in(team).includes(role) for team in (*self.held, self.limits.team))

    def role_in(self, team: int | None) -> Role:
        """In the team with this key, within the limits of the token that asks; None is the instance."""
        return self.limits.role_in(team, self.own_role_in(team))

    def own_role_in(self, team: int | None) -> Role:
        """The same, whatever a token limits. Instance admins are admins of every team; others are viewers of teams
        that they are not a member of."""
        if team is None or self.of_house:
            return Role(self.whole or self.role)
        return self._roles_in_teams.get(team, Role.VIEWER)

    @property
    def of_house(self) -> bool:
        """Whether this is an instance admin, whatever a token limits."""
        return (self.whole or self.role) == Role.ADMIN

    @property
    def held(self) -> dict[int, Role]:
        """Team -> role there of this member, within the limits."""
        return {team: self.limits.role_in(team, own) for team, own in self._roles_in_teams.items()}

    @property
    def _roles_in_teams(self) -> dict[int, Role]:
        """One query for as long as this row is in memory."""
        models.prefetch_related_objects([self], "memberships")
        return {each.team_id: Role(each.role) for each in self.memberships.all()}

    @property
    def narrowed(self) -> str | None:
        """The limits of the token that asks, if it keeps back something that the user may do; else None."""
        held = [Role(self.whole or self.role), *self._roles_in_teams.values()]
        limited = self.limits.team is not None or bool(self.limits.scopes)
        return str(self.limits) if limited or not all(self.limits.role.includes(each) for each in held) else None

    def limit_to(self, limits: Limits) -> None:
        """Let this row, never the table, do no more than a token permits, in the instance and in every team."""
        self.whole, self.limits = Role(self.role), limits
        self.role = self.role_in(None)


class Team(models.Model):
    """People with roles of their own, and the things that are theirs."""

    name = models.CharField(max_length=63, unique=True)
    about = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def owners(self) -> Collection[int | None]:
        """Its admins see to it."""
        return (self.pk,)


class Membership(models.Model):
    """What somebody may do with what is a team's."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role, default=Role.VIEWER)

    class Meta:
        ordering = ["team__name", "user__username"]
        constraints = [models.UniqueConstraint(fields=["team", "user"], name="member_once")]

    def __str__(self) -> str:
        return f"{self.user} in {self.team}"


class Owned(models.Model):
    """What may be a team's. Everybody who logs in reads it; the roles of its team say who changes it."""

    team = models.ForeignKey(
        Team,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="%(class)ss",
        help_text="owning team; null: none, so instance roles apply",
    )

    class Meta:
        abstract = True

    @property
    def owners(self) -> Collection[int | None]:
        return (self.team_id,)
