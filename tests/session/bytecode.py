"""Workers of a whole session import the tests in different orders, so that each rewrites the asserts of another share.

pytest keeps the rewritten bytecode beside the sources. On a fresh checkout all workers would need each file at the same
moment, and each would rewrite all: 5 s of CPU time per worker.
"""

from __future__ import annotations

import importlib
import os
from contextlib import suppress
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    worker, workers = os.environ.get("PYTEST_XDIST_WORKER"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if worker and session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        import_from(int(worker.removeprefix("gw")) / workers)


def import_from(share: float) -> None:
    """Import all modules of tests, beginning after this share of them. pytest reports those that cannot be imported."""
    names = [
        ".".join(path.relative_to(TESTS.parent).with_suffix("").parts) for path in sorted(TESTS.rglob("test_*.py"))
    ]
    first = int(share * len(names))
    for name in [*names[first:], *names[:first]]:
        with suppress(Exception, pytest.skip.Exception, pytest.fail.Exception):
            importlib.import_module(name)
