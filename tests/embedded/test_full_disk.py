"""The message of `make up` on a full disk."""

from __future__ import annotations

import errno

import pytest

from embedded import __main__ as program


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
