"""A broken report hook or fixture fails its own tests; the others run, and pytest prints its summary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., pytest.RunResult]
CHECKOUT = Path(__file__).parents[2]
BROKEN_FIXTURES = """
    import pytest

    class Ground:
        '''Of another kind than the stack's: it has no services.'''

    @pytest.fixture
    def ground():
        yield Ground()
        raise OSError("teardown")

    @pytest.fixture(scope="module")
    def broken():
        raise SystemExit("setup")

    def test_failing(ground): assert False
    def test_never_runs(broken): pass
    def test_that_is_fine(): pass
"""
BROKEN_HOOK = """
    import pytest

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(item, call):
        report = yield
        if item.name == "test_broken":
            raise AttributeError("no attribute 'supervisor'")
        return report
"""


@pytest.fixture(params=["", "-p xdist -n 2"], ids=["one process", "workers"])
def run(request: pytest.FixtureRequest, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a session of these tests with the report hook, and optionally another one."""
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(tests: str, hook: str = "") -> pytest.RunResult:
        pytester.makeconftest(hook)
        pytester.makepyfile(tests)
        return pytester.runpytest_subprocess("-p", "tests.session.reports", *request.param.split())

    return run


@pytest.mark.thorough
def test_broken_fixtures_are_errors_of_their_tests(run: Run) -> None:
    result = run(BROKEN_FIXTURES)

    result.assert_outcomes(passed=1, failed=1, errors=2)
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


@pytest.mark.thorough
def test_a_broken_report_hook_fails_its_tests_and_shows_its_trace(run: Run) -> None:
    result = run("def test_broken(): pass\ndef test_fine(): pass", BROKEN_HOOK)

    # setup, call and teardown are reported one by one
    result.assert_outcomes(passed=1, failed=0, errors=2)
    result.stdout.fnmatch_lines(["*a report hook failed*", "*AttributeError: no attribute 'supervisor'"])
