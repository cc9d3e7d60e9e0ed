"""Which tests a session takes."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.parametrize("options", [[], ["-p", "xdist", "-n", "2"]], ids=["one process", "workers"])
@pytest.mark.parametrize("wrong", ["test_ome.py", "test_ome.py::test_it"])
def test_a_path_that_does_not_exist_is_named(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: list[str], wrong: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_one="def test_it(): pass")

    result = pytester.runpytest_subprocess("-p", "tests.session.tiers", *options, "test_one.py::test_it", wrong)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: there is no file or folder */test_ome.py"])
