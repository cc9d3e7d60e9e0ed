"""The installed postgres checks parameters before anything is changed."""

from __future__ import annotations

import pytest

from agents.errors import Unplannable
from agents.host.system import System
from agents.postgres import gucs
from agents.postgres.cluster import initdb_options
from tests.agents.theirs import DEBIANS

SYSTEM = System()


@pytest.fixture(params=[pytest.param(15, marks=pytest.mark.needs("postgresql-15")), 18])
def postgres(request: pytest.FixtureRequest, bin_dir: str) -> str:
    """The bin directory of PostgreSQL 15 (Debian's) and of 18 (the wheel's)."""
    return DEBIANS if request.param == 15 else bin_dir


def test_parameters_that_the_server_accepts_pass(postgres: str) -> None:
    parameters = {"shared_buffers": "1GB", "work_mem": "64", "wal_level": "minimal", "random_page_cost": "1.1"}

    gucs.check(SYSTEM, postgres, {**parameters, "debug_discard_caches": "0", "pg_stat_statements.max": "as it likes"})


@pytest.mark.parametrize(
    ("name", "value", "accepted", "hint"),
    [
        ("work_mme", "1MB", "parameters of the PostgreSQL in", "did you mean work_mem"),
        ("work_mem", "1kB", "outside the valid range", ""),
        ("work_mem", "4XB", 'Valid units for this parameter are "B", "kB", "MB", "GB", and "TB"', ""),
        ("wal_level", "most", "Available values: minimal, replica, logical", ""),
        ("block_size", "4096", "cannot be changed", ""),
        ("zzzzzzzz", "1", "parameters of the PostgreSQL", "see pg_settings"),
    ],
)
def test_parameters_that_the_server_rejects_are_refused_with_its_message(
    postgres: str, name: str, value: str, accepted: str, hint: str
) -> None:
    with pytest.raises(Unplannable) as refused:
        gucs.check(SYSTEM, postgres, {"max_connections": "50", name: value})

    assert (refused.value.field, refused.value.value) == (f"postgresql.{name}", value)
    assert accepted in refused.value.accepted and hint in refused.value.hint


@pytest.mark.needs("postgresql-15")
def test_versions_differ(bin_dir: str) -> None:
    gucs.check(SYSTEM, bin_dir, {"io_method": "worker"})
    with pytest.raises(Unplannable, match="io_method"):
        gucs.check(SYSTEM, DEBIANS, {"io_method": "worker"})
    gucs.check(SYSTEM, DEBIANS, {"old_snapshot_threshold": "1h"})
    with pytest.raises(Unplannable, match="old_snapshot_threshold"):
        gucs.check(SYSTEM, bin_dir, {"old_snapshot_threshold": "1h"})


def test_contexts_are_the_servers_own(postgres: str) -> None:
    contexts = gucs.contexts(SYSTEM, postgres)

    assert (contexts["shared_buffers"], contexts["work_mem"], contexts["max_wal_size"]) == (
        "postmaster",
        "user",
        "sighup",
    )
    assert len(contexts) > 300


@pytest.mark.parametrize(
    ("major", "options", "last"),
    [
        (15, {}, ["--locale=C.UTF-8", "--data-checksums"]),
        (15, {"--no-data-checksums": ""}, ["--locale=C.UTF-8"]),
        (18, {"--no-data-checksums": ""}, ["--locale=C.UTF-8", "--no-data-checksums"]),
        (18, {"--locale": "C", "--wal-segsize": "1"}, ["--locale=C", "--data-checksums", "--wal-segsize=1"]),
    ],
)
def test_options_of_initdb_follow_its_version(major: int, options: dict[str, str], last: list[str]) -> None:
    assert initdb_options(major, options)[3:] == last


def test_an_option_that_this_initdb_lacks_is_refused() -> None:
    with pytest.raises(Unplannable, match="needs PostgreSQL 17, not 15"):
        initdb_options(15, {"--locale-provider": "builtin", "--builtin-locale": "C"})
