"""Secrets by reference: what the operator allows is read at each use; nothing else is, and no error has a secret."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.infrastructure import references
from common.errors import HostError, PlanError

SECRET = "s3cret-of-bench"


@pytest.fixture
def folder(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The allowed directory. The variables that begin with BENCH_ are allowed, too."""
    allowed = tmp_path / "hosts"
    allowed.mkdir()
    own = allowed / "ssh_keys"
    own.write_text("key of the server")
    monkeypatch.setenv("BENCH_PASSWORD", SECRET)
    monkeypatch.setenv("HOME_PASSWORD", SECRET)
    settings.SECRET_SOURCES = references.sources(
        "SOURCES", [f"file:{allowed}", "env:BENCH_"], {"PROVING_SSH_KEYS_FILE": str(own)}
    )
    return allowed


def refusal(reference: str) -> HostError:
    with pytest.raises(HostError) as raised:
        references.read(reference)
    assert SECRET not in str(raised.value) and raised.value.subject == reference
    return raised.value


def test_a_file_and_a_variable_are_read_at_each_use_without_the_final_newline(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "password").write_text(f"{SECRET}\n")
    assert references.read(f"file:{folder}/password") == SECRET
    assert references.read("env:BENCH_PASSWORD") == SECRET

    (folder / "password").write_text("changed\r\n")
    monkeypatch.setenv("BENCH_PASSWORD", "changed")

    assert references.read(f"file:{folder}/password") == references.read("env:BENCH_PASSWORD") == "changed"


def test_a_link_inside_the_directory_is_followed_as_kubernetes_changes_it(folder: Path) -> None:
    for day in ("monday", "tuesday"):
        (folder / day).mkdir()
        (folder / day / "password").write_text(day)
    (folder / "..data").symlink_to("monday")
    (folder / "password").symlink_to("..data/password")
    assert references.read(f"file:{folder}/password") == "monday"

    (folder / "next").symlink_to("tuesday")
    (folder / "next").rename(folder / "..data")

    assert references.read(f"file:{folder}/password") == "tuesday"


@pytest.mark.parametrize(
    "reference",
    [
        "file:/etc/shadow",
        "file:{folder}/../outside",
        "file:{folder}/./password",
        "file:{folder}//password",
        "file:{folder}",
        "file:{folder}-other/password",
        "file:relative",
        "file:/proc/self/environ",
        "env:HOME_PASSWORD",
        "env:PROVING_SECRET_KEY",
        "env:BENCH_PASSWORD=x",
        "env:",
        "vault:secret/bench",
        "password",
        "",
        "file:{folder}/" + "x" * 600,
        "file:{folder}/a\0b",
    ],
)
def test_everything_else_is_refused_before_it_is_touched(
    folder: Path, reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = reference.replace("{folder}", str(folder))
    monkeypatch.setattr(Path, "resolve", lambda *_, **__: pytest.fail("the file system was touched"))

    refusal(reference)
    with pytest.raises(PlanError) as raised:
        references.check("password_from", reference)
    assert raised.value.subject == "password_from" and f"file:{folder}/" in raised.value.hint


def test_a_link_out_of_the_directory_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text(SECRET)
    (folder / "link").symlink_to(tmp_path / "outside")

    assert "leads out" in refusal(f"file:{folder}/link").message


def test_secrets_of_the_server_itself_are_never_read(folder: Path) -> None:
    (folder / "alias").symlink_to("ssh_keys")

    assert "the server itself" in refusal(f"file:{folder}/ssh_keys").message
    assert "the server itself" in refusal(f"file:{folder}/alias").message


def test_a_reference_that_cannot_be_read_is_named_with_the_cause(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "empty").write_text("\n")
    (folder / "large").write_text(SECRET * 10_000)
    (folder / "binary").write_bytes(b"\xff" + SECRET.encode())
    (folder / "nul").write_text(f"{SECRET}\0x")
    (folder / "sub").mkdir()
    (folder / "loop").symlink_to("loop")

    found = {
        name: refusal(f"file:{folder}/{name}").message for name in ("gone", "loop", "pipe", "empty", "large", "sub")
    }
    found |= {name: refusal(f"file:{folder}/{name}").message for name in ("binary", "nul")}

    assert found == {
        "gone": "cannot be read: No such file or directory",
        "loop": "cannot be read: symbolic links lead to each other",
        "pipe": "cannot be read: it is not a regular file",
        "empty": "is empty",
        "large": "cannot be read: it is larger than 64 KiB",
        "sub": "cannot be read: Is a directory",
        "binary": "is not UTF-8 text",
        "nul": "contains a NUL",
    }
    assert refusal("env:BENCH_GONE").message == "cannot be read: the variable is not set"


def test_without_sources_nothing_is_allowed(settings: Any, tmp_path: Path) -> None:
    settings.SECRET_SOURCES = references.Sources()

    with pytest.raises(PlanError, match="PROVING_SECRET_SOURCES is not set"):
        references.check("private_key_from", f"file:{tmp_path}/key")
    refusal(f"file:{tmp_path}/key")


@pytest.mark.parametrize(
    "entry",
    [
        *("/run/secrets", "file:", "file:secrets", "file:/", "file:/proc", "file:/proc/", "file://"),
        *("env:", "env:P", "env:PROVING_", "env:PROVING_SSH", "env:9", "env:A-B", "vault:kv"),
    ],
)
def test_an_entry_that_would_open_more_stops_the_start(entry: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="PROVING_SECRET_SOURCES contains"):
        references.sources("PROVING_SECRET_SOURCES", [entry], {})


def test_the_sources_are_shown_as_references_begin() -> None:
    known = references.sources("S", ["file:/run/secrets/hosts/", " env:BENCH_"], {})

    assert str(known) == "file:/run/secrets/hosts/, env:BENCH_"
