"""Fixtures of the tests of faults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.injection.struck import Field, struck


@pytest.fixture
def here() -> Iterator[Field]:
    """A spool and a cluster on this machine, for runs that faults hit."""
    with struck() as field:
        yield field
