"""Stacks of tests start with a copy of a migrated cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command

from embedded import temporary
from embedded.servers.postgres import MIGRATED
from embedded.supervisor import Supervisor
from tests.embedded.test_run import connect

pytestmark = pytest.mark.fast


@pytest.mark.django_db
def test_no_model_lacks_a_migration() -> None:
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def test_a_copied_database_needs_no_migration_and_wants_a_password_of_its_own(state: Path) -> None:
    with Supervisor(state) as supervisor:
        stack = temporary.TemporaryStack(supervisor)
        stack.start_stores()

        assert "No migrations to apply" in stack.manage("migrate", "--noinput")
        assert stack.manage("shell", "-v0", "-c", "print(6 * 7)") == "42\n"
        with connect(f"{stack.postgres.url.rpartition('/')[0]}/{MIGRATED}") as original:
            assert original.execute("SELECT count(*) FROM django_migrations").fetchone() != (0,)


@pytest.mark.parametrize(
    "file", ["apps/settings.py", "apps/hosts/models/usage.py", "apps/results/migrations/0001_x.py"]
)
def test_the_original_is_created_again_after_a_change_of_what_determines_it(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = tmp_path / file
    changed.parent.mkdir(parents=True)
    changed.write_text("before = 1\n")
    monkeypatch.setattr(temporary.paths, "CHECKOUT", tmp_path)
    before = temporary.digest()

    assert temporary.digest() == before
    changed.write_text("after = 1\n")
    assert temporary.digest() != before


RACER = """
import sys, time
from pathlib import Path
from embedded import temporary
originals, copy = map(Path, sys.argv[1:])
temporary.ORIGINALS = originals
def create(original):
    time.sleep(0.5)
    original.mkdir(exist_ok=True)
    with (originals / "created").open("a") as file:
        file.write("once\\n")
temporary._create = create
copy.with_suffix(".ready").touch()
while len(list(copy.parent.glob("*.ready"))) < 3:
    time.sleep(0.01)
temporary.copy_migrated(copy)
"""


def test_processes_that_need_it_at_the_same_time_create_it_once(tmp_path: Path) -> None:
    originals = tmp_path / "originals"
    argv = [sys.executable, "-c", RACER, str(originals)]
    racing = [subprocess.Popen([*argv, str(tmp_path / f"copy{number}")]) for number in range(3)]

    assert [process.wait(60) for process in racing] == [0, 0, 0]
    assert (originals / "created").read_text() == "once\n"
    assert all((tmp_path / f"copy{number}").is_dir() for number in range(3))
