"""The output of `proving --version`, and the error for an incompatible server."""

from __future__ import annotations

import tomllib
from typing import Any

from tests.cli.program import CLI, Program

VERSION = tomllib.loads((CLI / "pyproject.toml").read_text())["project"]["version"]


def test_it_shows_its_version_without_a_server(tmp_path: Any) -> None:
    assert Program(tmp_path).run("--version").stdout.split()[:2] == ["proving", VERSION]


def test_a_server_of_another_series_is_refused_in_one_sentence(proving: Program, settings: Any) -> None:
    settings.VERSION = "9.4.1"

    done = proving.run("hosts")

    message = f"error: proving {VERSION} is not compatible with this server, version 9.4.1"
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == message
    assert "install proving 9, the version of the server" in done.stderr
