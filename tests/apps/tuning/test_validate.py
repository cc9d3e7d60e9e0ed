"""A profile has only settings of the catalogue; a refusal names field, value and accepted values."""

from __future__ import annotations

from typing import Any

import pytest

from apps.tuning import gucs, rules
from common.errors import PlanError


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"cpu_affinity": {"server": "0-1", "client": "0x2"}},
        {"postgresql": {"shared_buffers": "128MB", "work_mem": 4096, "jit": "off", "random_page_cost": 1.1}},
        {"postgresql": {"synchronous_commit": "remote_write", "checkpoint_timeout": "15min", "jit": False}},
        {"postgresql": {"pg_stat_statements.track": "all"}},
        {"postgresql": {"wal_compression": "lz4", "default_toast_compression": "lz4", "io_method": "io_uring"}},
        {"postgresql": {"wal_compression": "zstd"}},
        {"postgresql": {"old_snapshot_threshold": "1h", "wal_keep_segments": 64}},
        {"initdb": {"data_checksums": False, "wal_segment_size": 64, "locale": "C"}},
    ],
)
def test_settings_of_the_catalogue_are_accepted(settings: dict[str, Any]) -> None:
    rules.validate(settings)


@pytest.mark.parametrize(
    ("settings", "field", "accepted"),
    [
        ({"cpu_afinity": {}}, "settings.cpu_afinity", "cpu_affinity"),
        ({"cpu_affinity": {"sever": "0"}}, "settings.cpu_affinity", "server"),
        ({"postgresql": {"shared_bufers": "1GB"}}, "settings.postgresql.shared_bufers", "shared_buffers"),
        ({"postgresql": {"work_mem": "4 parsecs"}}, "settings.postgresql.work_mem", "in kB or with a unit"),
        ({"postgresql": {"work_mem": "1kB"}}, "settings.postgresql.work_mem", "from 64"),
        ({"postgresql": {"jit": "maybe"}}, "settings.postgresql.jit", "on or off"),
        (
            {"postgresql": {"wal_compression": "brotli"}},
            "settings.postgresql.wal_compression",
            "pglz, on, off, lz4, zstd",
        ),
        ({"postgresql": {"wal_level": "loud"}}, "settings.postgresql.wal_level", "replica"),
        ({"postgresql": {"old_snapshot_threshhold": "1h"}}, "settings.postgresql.old_snapshot_threshhold", ""),
        ({"initdb": {"wal_segment_size": 48}}, "settings.initdb.wal_segment_size", "64"),
        ({"postgresql": {"server_version": "17"}}, "settings.postgresql.server_version", ""),
    ],
)
def test_an_unknown_parameter_is_refused_by_name(settings: dict[str, Any], field: str, accepted: str) -> None:
    with pytest.raises(PlanError) as refused:
        rules.validate(settings)

    assert refused.value.subject == field
    assert accepted in refused.value.hint


@pytest.mark.parametrize(
    ("name", "restart"),
    [
        ("shared_buffers", True),
        ("work_mem", False),
        ("max_wal_size", False),
        ("auto_explain.log_nested_statements", False),
    ],
)
def test_the_catalogue_marks_parameters_that_need_a_restart(name: str, restart: bool) -> None:
    assert gucs.needs_restart(name) is restart


def test_parameters_of_older_versions_are_not_in_the_catalogue() -> None:
    assert not gucs.FORMER & gucs.catalogue().keys()


def test_a_patch_sets_paths_and_removes_with_none() -> None:
    base = {"cpu_affinity": {"server": "0"}, "postgresql": {"jit": "on"}}

    patched = rules.patch(base, {"cpu_affinity.client": "1", "postgresql.jit": None})

    assert patched == {"cpu_affinity": {"server": "0", "client": "1"}, "postgresql": {}}
    assert base["postgresql"] == {"jit": "on"}


def test_a_diff_lists_each_path_that_differs() -> None:
    before = {"postgresql": {"jit": "on", "work_mem": "4MB"}}
    after = {"postgresql": {"jit": "off", "work_mem": "4MB"}, "cpu_affinity": {"server": "0"}}

    diff = [(row.path, row.before, row.after) for row in rules.diff(before, after)]

    assert diff == [("cpu_affinity.server", None, "0"), ("postgresql.jit", "on", "off")]
