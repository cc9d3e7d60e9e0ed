"""Users, teams, and the roles of users in the instance and in teams."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Protocol

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.expressions import ArraySubquery
from django.db import models
from django.db.models import Exists, OuterRef, Q

from apps.accounts.models.limits import UNLIMITED, Limits, Role
from apps.accounts.models.walls import Teams, Walled


class HasOwners(Protocol):
    """An object that teams own. `owners` has the keys of these teams, and None if the instance roles apply as well."""

    @property
    def owners(self) -> Collection[int | None]: ...


class User(AbstractUser):
    """A user with a `role` in the instance. `limit_to` reduces it in a request with a token."""

    role = models.CharField(max_length=10, choices=Role, default=Role.VIEWER)
    may_run_commands = models.BooleanField(
        default=False, help_text="create and start workloads that execute programs or scripts of the user"
    )
    wrong_codes = models.PositiveIntegerField(
        default=0, db_default=0, help_text="wrong codes of the second factor since the last right one"
    )
    wrong_code_at = models.DateTimeField(null=True, blank=True)

    limits: Limits = UNLIMITED
    # The role in the instance before `limit_to` reduced `role`; None in a session.
    unlimited_role: Role | None = None
    # Private teams of which this user is not a member, if the query for the session or the token returned them.
    unjoined_teams: Teams | None = None

    def may(self, role: Role, on: HasOwners | None = None) -> bool:
        """Whether this user has `role` in the instance, or, with an object `on`, in every team that owns it."""
        if on is None or (self.is_instance_admin and self.limits.team is None):
            return self.is_active and Role(self.role).includes(role)
        allowed = self.is_active and self.limits.role.includes(role)
        return allowed and all(self.role_in(team).includes(role) for team in on.owners)

    def may_somewhere(self, role: Role) -> bool:
        """Whether this user has `role` in the instance or in any team. Services check the role on the object."""
        if not self.is_active or self.may(role):
            return self.is_active
        return any(self.role_in(team).includes(role) for team in (*self.roles_in_teams, self.limits.team))

    def role_in(self, team: int | None) -> Role:
        """The role in the team with this key, reduced to the limits of the request's token. None is the instance."""
        return self.limits.role_in(team, self.own_role_in(team))

    def own_role_in(self, team: int | None) -> Role:
        """The role in this team regardless of a token. Instance admins are admins of every team; other users are
        viewers of teams that they are not a member of."""
        if team is None or self.is_instance_admin:
            return Role(self.unlimited_role or self.role)
        return self._unlimited_roles_in_teams.get(team, Role.VIEWER)

    @property
    def is_instance_admin(self) -> bool:
        """Whether this user is an instance admin, regardless of a token."""
        return (self.unlimited_role or self.role) == Role.ADMIN

    @property
    def roles_in_teams(self) -> dict[int, Role]:
        """Key of each team of this user -> role there, reduced to the limits of the request's token."""
        return {team: self.limits.role_in(team, own) for team, own in self._unlimited_roles_in_teams.items()}

    @property
    def hidden_teams(self) -> Teams:
        """Private teams that this user may not see. A token that is limited to a team shows no other private team."""
        limit = self.limits.team
        if self.is_instance_admin and limit is None:
            return frozenset()
        if self.unjoined_teams is not None and limit is None:
            return self.unjoined_teams
        private: models.QuerySet[Any, Any] = models.QuerySet(Team).filter(private=True).values_list("pk", flat=True)
        own = Q() if self.is_instance_admin else Q(memberships__user=self)
        seen = private.filter(own) if limit is None else private.filter(own, pk=limit)
        return frozenset(private.exclude(pk__in=seen))

    @property
    def _unlimited_roles_in_teams(self) -> dict[int, Role]:
        """The same before any limit. Costs one query per loaded user."""
        models.prefetch_related_objects([self], "memberships")
        return {member.team_id: Role(member.role) for member in self.memberships.all()}

    @property
    def token_limits(self) -> str | None:
        """The limits of the request's token if it permits less than the user may do; otherwise None."""
        roles = [Role(self.unlimited_role or self.role), *self._unlimited_roles_in_teams.values()]
        limited = self.limits.team is not None or bool(self.limits.scopes)
        return str(self.limits) if limited or not all(self.limits.role.includes(role) for role in roles) else None

    def limit_to(self, limits: Limits) -> None:
        """Reduce the roles of this user in memory, not in the database, to what a token permits."""
        self.unlimited_role, self.limits = Role(self.role), limits
        self.role = self.role_in(None)


class Team(Walled):
    """Users with separate roles for the objects that the team owns."""

    name = models.CharField(max_length=63, unique=True)
    about = models.CharField(max_length=500, blank=True)
    private = models.BooleanField(
        default=False, db_default=False, help_text="only members see the team and what belongs to it"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def owners(self) -> Collection[int | None]:
        """A team owns itself, so its admins may change it."""
        return (self.pk,)

    @classmethod
    def hidden_beside(cls, teams: Teams) -> list[Q]:
        return [Q(pk__in=sorted(teams))]


def unjoined_teams(user: str) -> ArraySubquery:
    """Keys of the private teams of which the user in the column `user` is not a member."""
    member: models.QuerySet[Any] = models.QuerySet(Membership).filter(
        team=OuterRef("pk"), user=OuterRef(OuterRef(user))
    )
    return ArraySubquery(models.QuerySet(Team).filter(~Exists(member), private=True).values("pk"))


def hidden_from(user: object) -> Teams:
    """Private teams that are hidden from a user, or from a client that is not logged in."""
    if isinstance(user, User):
        return user.hidden_teams
    return frozenset(models.QuerySet(Team).filter(private=True).values_list("pk", flat=True))


class Membership(Walled):
    """The role of a user for the objects of a team."""

    behind = ("team",)

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role, default=Role.VIEWER)

    class Meta:
        ordering = ["team__name", "user__username"]
        constraints = [models.UniqueConstraint(fields=["team", "user"], name="member_once")]

    def __str__(self) -> str:
        return f"{self.user} in {self.team}"


class Owned(Walled):
    """An object that a team can own. Every user reads it unless the team is private; the roles in its team define who
    may change it."""

    behind: ClassVar[tuple[str, ...]] = ("team",)

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
