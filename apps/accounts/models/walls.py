"""Private teams: which rows a reader may see. The one rule is here; a model only declares what it belongs to.

A request has a reader: the user behind it. While the request is handled, every query on a walled model leaves out the
rows of private teams of which the reader is not a member. Workers, commands and migrations have no reader, and see all
rows. A foreign key of a row that is visible is followed without asking again: the row itself is hidden if one of the
objects in its `behind` is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import _GeneratorContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Self, TypeVar

from django.db import models
from django.db.models import Count, Exists, OuterRef, Q

M = TypeVar("M", bound=models.Model, covariant=True)
Teams = frozenset[int]
# A list of more keys in each query takes longer than a subquery.
MOST_LISTED = 200


class Reader:
    """Whose rows are read. `read_hidden` returns the private teams hidden from the user; the first query asks it.
    The keys of hidden hosts, campaigns and so on are also read once for a request, because most queries need them."""

    def __init__(self, read_hidden: Callable[[], Iterable[int]]) -> None:
        self.change(read_hidden)

    def change(self, read_hidden: Callable[[], Iterable[int]]) -> None:
        """Continue the request as another user, or as the same one with other limits."""
        self._read_hidden: Callable[[], Iterable[int]] = read_hidden
        self._hidden: Teams | None = None
        self._keys: dict[type[models.Model], list[Any]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy of a queryset, such as that of a filter, belongs to the same request."""
        return self

    @property
    def hidden(self) -> Teams:
        if self._hidden is None:
            with everything():
                self._hidden = frozenset(self._read_hidden())
        return self._hidden

    def keys(self, model: type[models.Model]) -> Any:
        """Primary keys of the rows of a model that are hidden from the user: a list, or a subquery for a long one."""
        if model not in self._keys:
            with everything():
                self._keys[model] = list(only_hidden_keys(model, self.hidden)[: MOST_LISTED + 1])
        keys = self._keys[model]
        return keys if len(keys) <= MOST_LISTED else only_hidden_keys(model, self.hidden)


_reader: ContextVar[Reader | None] = ContextVar("reader", default=None)


@contextmanager
def reading_as(reader: Reader | None) -> Iterator[None]:
    """Queries inside see the rows of this reader; with None all rows."""
    token = _reader.set(reader)
    try:
        yield
    finally:
        _reader.reset(token)


def everything() -> _GeneratorContextManager[None]:
    """Show all rows to any reader, for checks that must not miss one. Their messages must not name a hidden object."""
    return reading_as(None)


def change_reader(read_hidden: Callable[[], Iterable[int]]) -> None:
    """Set the reader of a request whose user is named by a token, or by the URL of a feed."""
    reader = _reader.get()
    if reader is not None:
        reader.change(read_hidden)


def hidden() -> Teams:
    """The private teams that are hidden from the current reader."""
    reader = _reader.get()
    return reader.hidden if reader else frozenset()


def sees(row: models.Model | None) -> bool:
    """Whether there is a row, named by a foreign key of a visible one, that the current reader may see."""
    if row is None:
        return False
    return not hidden() or type(row)._default_manager.filter(pk=row.pk).exists()


def count_visible(model: Any, path: str, *, distinct: bool = False) -> Count:
    """How many rows the reader sees at `path`, a chain of relations of `model`. A plain Count would count all."""
    for name in path.split("__"):
        model = model._meta.get_field(name).related_model
    seen = Q(**{f"{path}__in": model._default_manager.all()}) if hidden() else None
    return Count(path, distinct=distinct, filter=seen)


class WalledQuerySet(models.QuerySet[M]):
    """Rows that the reader may see. A queryset from before the request, such as the one of a viewset, is restricted
    when it is used."""

    _restricted_for: Reader | None = None

    def __init__(self, model: Any = None, query: Any = None, using: Any = None, hints: Any = None) -> None:
        super().__init__(model, query, using, hints)
        if query is None and model is not None:
            self._restrict()

    def _clone(self) -> Self:
        clone: Self = super()._clone()  # type: ignore[misc]  # Django's own
        clone._restricted_for = self._restricted_for
        clone._restrict()
        return clone

    def _restrict(self) -> None:
        reader = _reader.get()
        if reader is None or reader is self._restricted_for:
            return
        if self._restricted_for is not None:
            raise RuntimeError(f"a query on {self.model.__name__} was restricted for another request")
        self._restricted_for = reader
        for condition in _hidden_from(reader, self.model):
            self.query.add_q(~Q(condition))


class Walled(models.Model):
    """Rows that are hidden with what they belong to: `behind` names the fields of a Team or of walled models.
    `numerous`: whether there are too many rows to select the hidden ones in each query on rows that belong to them.
    `listed`: whether queries on the model itself also leave out keys that were read before, because its conditions are
    many."""

    behind: ClassVar[tuple[str, ...]] = ()
    numerous: ClassVar[bool] = False
    listed: ClassVar[bool] = False

    objects = WalledQuerySet.as_manager()

    class Meta:
        abstract = True

    @classmethod
    def hidden_beside(cls, teams: Teams) -> Iterable[Any]:
        """Conditions of hidden rows that no field in `behind` expresses."""
        return ()

    def validate_unique(self, exclude: Collection[str] | None = None) -> None:
        """A value that a hidden row has is taken like any other."""
        with everything():
            super().validate_unique(exclude)

    def validate_constraints(self, exclude: Collection[str] | None = None) -> None:
        with everything():
            super().validate_constraints(exclude)


def hidden_rows(model: type[models.Model], teams: Teams) -> list[Any]:
    """Return conditions, each of which hides a row; none if no team is hidden."""
    if not teams:
        return []
    if not issubclass(model, Walled):
        raise TypeError(f"{model.__name__} is not walled, so nothing can be behind it")
    conditions = [_hidden_by(model._meta.get_field(name), teams) for name in model.behind]
    return [*conditions, *model.hidden_beside(teams)]


def _hidden_from(reader: Reader, model: type[models.Model]) -> list[Any]:
    """Conditions of the rows that are hidden from the reader, in as few terms as possible."""
    if reader.hidden and model.listed:  # type: ignore[attr-defined]
        keys = reader.keys(model)
        if isinstance(keys, list):
            return [Q(pk__in=keys)]
    return hidden_rows(model, reader.hidden)


def _hidden_by(field: Any, teams: Teams) -> Any:
    """Rows whose `field` names a hidden row. PostgreSQL executes a subquery with IN once for a query, because it does
    not refer to the row. It executes EXISTS as a join, so that a page of one run does not read all hidden runs."""
    target, reader = field.related_model, _reader.get()
    if target._meta.label == "accounts.Team":
        return Q(**{f"{field.attname}__in": sorted(teams)})
    if target.numerous:
        return Exists(only_hidden(target, teams).filter(pk=OuterRef(field.attname)))
    keys = reader.keys(target) if reader and reader.hidden == teams else only_hidden_keys(target, teams)
    if field.many_to_many:
        links: models.QuerySet[Any] = models.QuerySet(field.remote_field.through)
        hidden_links = links.filter(**{f"{field.m2m_reverse_field_name()}__in": keys})
        return Q(pk__in=hidden_links.values(field.m2m_field_name()))
    return Q(**{f"{field.attname}__in": keys})


def only_hidden(model: type[models.Model], teams: Teams) -> models.QuerySet[Any]:
    """The rows that are hidden with these teams."""
    any_of = Q(pk__in=[])
    for condition in hidden_rows(model, teams):
        any_of |= Q(condition)
    return models.QuerySet(model).filter(any_of)


def only_hidden_keys(model: type[models.Model], teams: Teams) -> models.QuerySet[Any, Any]:
    """The primary keys of the rows that are hidden with these teams."""
    return only_hidden(model, teams).values_list("pk", flat=True)


def any_hidden(rows: Iterable[models.Model], teams: Teams) -> bool:
    """Whether one of these rows is hidden with these teams."""
    return bool(teams) and any(only_hidden(type(row), teams).filter(pk=row.pk).exists() for row in rows)


def hidden_keys(model: type[models.Model]) -> list[Any]:
    """Primary keys of the rows that are hidden from the current reader, for SQL that is not built by the ORM."""
    return list(only_hidden_keys(model, hidden())) if hidden() else []
