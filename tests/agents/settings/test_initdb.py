"""Private clusters with options of initdb: one for each choice, each proven."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agents.driver import OK, Connection, of
from tests.agents.theirs import DEBIANS

Spec = Callable[..., dict[str, Any]]
PLAIN = {"data_checksums": False, "wal_segment_size": 1, "encoding": "SQL_ASCII", "locale": "C"}


@pytest.mark.proves("initdb", where="here")
@pytest.mark.parametrize("major", [pytest.param(15, marks=pytest.mark.needs("postgresql-15")), 18])
def test_a_cluster_is_created_as_requested_beside_the_default_one(
    agent: Connection, spec: Spec, data_dir: Path, major: int
) -> None:
    run_spec = spec({"initdb": PLAIN}, time_s=1)
    run_spec["target"]["bin_dir"] = DEBIANS if major == 15 else run_spec["target"]["bin_dir"]
    before = {path.name for path in data_dir.iterdir()}

    for _ in range(2):
        events = agent.events(agent.submit(run_spec))
        assert of(events, "outcome") == [OK]

    proofs = {proof["subject"]: proof["found"] for proof in of(events, "proof", setting="initdb", phase="before")}
    assert proofs == PLAIN
    assert not of(events, "command", purpose="initdb")  # the second run found it made
    assert len({path.name for path in data_dir.iterdir()} - before) == 1


@pytest.mark.fast
def test_a_locale_provider_is_proven(agent: Connection, spec: Spec) -> None:
    options = {"locale_provider": "builtin", "locale": "C.UTF-8"}

    events = agent.events(agent.submit(spec({"initdb": options}, time_s=1)))

    assert of(events, "outcome") == [OK]
    assert {p["subject"]: p["found"] for p in of(events, "proof", setting="initdb")} == options


@pytest.mark.needs("postgresql-15")
def test_initdb_options_that_a_version_lacks_are_refused_before_anything_is_created(
    agent: Connection, spec: Spec, data_dir: Path
) -> None:
    run_spec = spec({"initdb": {"locale_provider": "builtin"}})
    run_spec["target"]["bin_dir"] = DEBIANS
    before = set(data_dir.iterdir())

    (outcome,) = of(agent.events(agent.submit(run_spec)), "outcome")

    assert (outcome["outcome"], outcome["error"]["field"]) == ("failed", "initdb.locale_provider")
    assert set(data_dir.iterdir()) == before
