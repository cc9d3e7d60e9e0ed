"""Short state directories: unix socket paths are limited, and pytest's own tmp_path is long."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def state() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="pg-"))
    yield path
    shutil.rmtree(path)
