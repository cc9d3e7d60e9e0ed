"""Which tests a session takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

OF_THE_DATABASE = """
    import pytest

    pytestmark = pytest.mark.thorough

    def test_thorough(): pass

    @pytest.mark.fast
    def test_of_a_thorough_file_that_is_fast(): pass
"""
OF_THE_MACHINE = """
    import pytest

    @pytest.fixture
    def stack(): pass

    def test_of_the_machine(stack): pass

    @pytest.mark.fast
    def test_of_the_machine_that_is_fast(stack): pass

    def test_unit(): pass
"""


@pytest.fixture(autouse=True)
def only_our_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.mark.parametrize("options", [[], ["-p", "xdist", "-n", "2"]], ids=["one process", "workers"])
@pytest.mark.parametrize("wrong", ["test_ome.py", "test_ome.py::test_it"])
def test_a_path_that_does_not_exist_is_named(pytester: pytest.Pytester, options: list[str], wrong: str) -> None:
    pytester.makepyfile(test_one="def test_it(): pass")

    result = pytester.runpytest_subprocess("-p", "tests.session.tiers", *options, "test_one.py::test_it", wrong)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: there is no file or folder */test_ome.py"])


def test_make_test_leaves_out_thorough_tests_and_those_of_the_machine(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(**{"tests/room/test_database": OF_THE_DATABASE, "tests/room/test_machine": OF_THE_MACHINE})

    def passed(tier: str) -> set[str]:
        result = pytester.runpytest_subprocess("-p", "tests.session.tiers", "-v", "--tier", tier)
        return set(re.findall(r"::(\w+) PASSED", result.stdout.str()))

    fast = {"test_of_a_thorough_file_that_is_fast", "test_of_the_machine_that_is_fast", "test_unit"}
    assert passed("fast") == fast
    assert passed("all") == fast | {"test_thorough", "test_of_the_machine"}
