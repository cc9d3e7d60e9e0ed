"""Objects that live as long as a session are left out of garbage collection.

A worker has imported the whole project and holds thousands of tests. A collection would visit all of them. In a forked
process, where a test lets an agent die, it would also copy their pages. While tests are collected nothing becomes
garbage, but each new object counts: a quarter of the CPU time went into visits of all objects.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
