"""One function per kind of expected.json: from a sample's bytes to values under the corpus's names.

A module per family of tools, each with its READERS. The tests import them from here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.contract.readers import explain, fio, host, pg_test, pgbench, sysbench, tables, tracer

READERS: dict[str, Callable[[bytes], dict[str, Any]]] = {
    **explain.READERS,
    **fio.READERS,
    **host.READERS,
    **pg_test.READERS,
    **pgbench.READERS,
    **sysbench.READERS,
    **tables.READERS,
    **tracer.READERS,
}
