"""Removal of the state directory, and files that remain."""

from __future__ import annotations

from pathlib import Path

from embedded import paths


def test_removing_the_state_does_not_delete_results_of_other_commands(tmp_path: Path) -> None:
    state = tmp_path / "var"
    for file in ("postgres/PG_VERSION", "admin.json", "release/0.2.0/SHA256SUMS", "site/index.html"):
        (state / file).parent.mkdir(parents=True, exist_ok=True)
        (state / file).touch()

    paths.remove(state)

    assert sorted(path.name for path in state.rglob("*") if path.is_file()) == ["SHA256SUMS", "index.html"]


def test_a_state_directory_without_other_results_is_removed(tmp_path: Path) -> None:
    state = tmp_path / "var"
    (state / "postgres").mkdir(parents=True)

    paths.remove(state)

    assert not state.exists()
