"""The version of PostgreSQL's programs, which a run asks for once."""

from __future__ import annotations

from pathlib import Path

from agents.host.system import System
from agents.postgres.instance import show_version
from agents.records.processes import Account


def install(bin_dir: Path, version: str) -> None:
    """A program that prints this version, and writes a line for each time that it does."""
    new = bin_dir / "new"
    new.write_text(f"#!/bin/sh\necho asked >>{bin_dir}/asked\necho 'postgres (PostgreSQL) {version}'\n")
    new.chmod(0o755)
    new.rename(bin_dir / "postgres")


def test_the_version_of_a_program_is_asked_for_once_until_it_is_upgraded(tmp_path: Path) -> None:
    system, account = System(), Account(name="ours")
    install(tmp_path, "17.1")
    before = [show_version(system, account, str(tmp_path)).stdout.split()[-1] for _ in range(2)]

    install(tmp_path, "17.2")
    after = [show_version(system, account, str(tmp_path)).stdout.split()[-1] for _ in range(2)]

    assert (before, after) == (["17.1"] * 2, ["17.2"] * 2)
    assert (tmp_path / "asked").read_text().split() == ["asked"] * 2
