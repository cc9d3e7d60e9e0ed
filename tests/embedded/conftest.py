"""Short state directories: unix socket paths are limited, and pytest's own tmp_path is long."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.remote import short_dir


@pytest.fixture
def state() -> Iterator[Path]:
    with short_dir() as path:
        yield path
