"""Objects that live as long as a session are left out of garbage collection.

A worker has imported the whole project and holds thousands of tests. A collection would visit all of them. In a forked
process, where a test lets an agent die, it would also copy their pages.
"""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
