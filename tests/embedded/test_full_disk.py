"""The message of `make up` on a full disk, and the next start when there is room again."""

from __future__ import annotations

import errno
import re
import subprocess
from pathlib import Path

import pytest

from embedded import __main__ as program
from embedded import stack
from embedded.errors import StackError
from embedded.supervisor import Stopped, Supervisor
from tests.faults.injection.struck import fill, small

ADVICE = re.compile(
    r"error: cannot write (\S+): (.+); free some space there \(df -h, df -i\), then start again: nothing is lost\n"
)
PAGE = 4096  # bytes that a file system of memory takes at a time


@pytest.mark.parametrize("number", program.FULL)
def test_a_disk_without_room_is_named_without_a_traceback(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: bool) -> int:
        raise OSError(number, "No space left on device", "/srv/var/secrets.json")

    monkeypatch.setattr(program, "up", full)

    assert program.main(["up"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: cannot write /srv/var/secrets.json: No space left on device; free some space there")


def test_another_error_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: bool) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(program, "up", broken)

    with pytest.raises(OSError, match="Input/output"):
        program.main(["up"])


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            'initdb -D /srv/pg failed with 1: initdb: error: could not write file "/srv/pg/PG_VERSION": No space left '
            "on device\ninitdb: removing data directory",
            'initdb: error: could not write file "/srv/pg/PG_VERSION": No space left on device',
        ),
        (
            "manage.py migrate failed with 1:\nApplying hosts.0010_labels...Traceback (most recent call last):\n"
            'psycopg.errors.DiskFull: could not extend file "base/16384/17958": No space left on device\nHINT:  Check',
            'psycopg.errors.DiskFull: could not extend file "base/16384/17958": No space left on device',
        ),
        ("valkey ended with status 1; the end of /srv/valkey.log:\n    Disk quota exceeded", "Disk quota exceeded"),
    ],
)
def test_a_program_that_finds_the_disk_full_is_quoted_in_one_line(
    output: str, reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: bool) -> int:
        raise StackError(output)

    monkeypatch.setattr(program, "up", full)

    assert program.main(["up"]) == 1
    said = ADVICE.fullmatch(capsys.readouterr().err)
    assert said and said[2] == reason


def start_stores(state: Path) -> None:
    with Supervisor(state) as supervisor:
        stack.Stack(supervisor).start_stores()


def reason_of_failure(capsys: pytest.CaptureFixture[str]) -> str:
    """What `make up` says about the full disk, in one line."""
    assert program.main(["up"]) == 1
    error = capsys.readouterr().err
    said = ADVICE.fullmatch(error)
    assert said, error
    return said[2]


@pytest.mark.needs("root")
def test_up_on_a_disk_that_is_really_full(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new disk without room for a cluster, and one that fills up later. Nothing that was there is lost."""

    def serve(_: Supervisor) -> None:
        raise Stopped("SIGINT")

    monkeypatch.setattr(stack, "default_state", lambda: state)
    monkeypatch.setattr(Supervisor, "serve", serve)
    with small(state, "20m") as ballast:
        assert any(message in reason_of_failure(capsys) for message in program.FULL_MESSAGES)
        secrets = (state / "secrets.json").read_bytes()

        subprocess.run(["mount", "-o", "remount,size=64m", str(state)], check=True, timeout=30)
        start_stores(state)
        for left in (0, 5 * PAGE):  # for the supervisor's own files, but not for PostgreSQL's
            fill(ballast)
            with ballast.open("ab") as file:
                file.truncate(file.tell() - left)
            assert "No space left on device" in reason_of_failure(capsys)
            assert not list(state.glob("children.json?*"))

        ballast.unlink()
        start_stores(state)
        assert (state / "secrets.json").read_bytes() == secrets
