"""A test that cannot run on this machine is skipped and listed; under CI it fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults import __main__ as faults
from tests.faults import fire, soak
from tests.lab.machines import lab
from tests.session.needs import NEEDS, Need

Run = Callable[..., pytest.RunResult]
CHECKOUT = Path(__file__).parents[2]
BARE_MACHINE = """
    from tests.session.needs import NEEDS, Need

    for name in ("fio", "perf", "sshd"):
        NEEDS[name] = Need(name, lambda: False, NEEDS[name].remedy)
    NEEDS["root"] = Need("root", lambda: True, "")
"""
TESTS = """
    import pytest
    from tests.session.needs import require

    @pytest.fixture
    def server():
        require("sshd")

    @pytest.mark.needs("root", "fio")
    def test_marked(): raise AssertionError("ran")

    @pytest.mark.parametrize("tool", [pytest.param("fio", marks=pytest.mark.needs("fio", "perf")), "none"])
    def test_parameters(tool): assert tool == "none"

    def test_with_a_fixture(server): raise AssertionError("ran")
"""


@pytest.fixture(params=["", "-p xdist -n 2"], ids=["one process", "workers"])
def run(request: pytest.FixtureRequest, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A session on a machine without fio, perf and sshd."""
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(BARE_MACHINE)

    def run(tests: str, ci: str = "") -> pytest.RunResult:
        monkeypatch.setenv("CI", ci)
        pytester.makepyfile(tests)
        options = ["-p", "tests.session.needs", "--strict-markers", *request.param.split()]
        return pytester.runpytest_subprocess(*options)

    return run


def last_lines(result: pytest.RunResult, count: int) -> list[str]:
    return [line for line in result.outlines if line][-count:]


def test_a_missing_program_skips_its_tests_and_the_last_lines_say_how_to_install_it(run: Run) -> None:
    result = run(TESTS)

    result.assert_outcomes(passed=1, skipped=3)
    assert [line.split() for line in last_lines(result, 4)[:-1]] == [
        ["fio", "2", "tests", "apt-get", "install", "fio"],
        ["perf", "1", "test", "apt-get", "install", "linux-perf"],
        ["sshd", "1", "test", "apt-get", "install", "openssh-server"],
    ]


def test_under_ci_a_missing_program_fails_its_tests_and_says_why(run: Run) -> None:
    result = run(TESTS, ci="true")

    result.assert_outcomes(passed=1, errors=3)
    result.stdout.fnmatch_lines(["*needs sshd (apt-get install openssh-server). CI=true: *"])
    assert last_lines(result, 4)[0].split()[:3] == ["fio", "2", "tests"]


def test_an_unknown_need_is_an_error_of_the_file(run: Run) -> None:
    result = run("import pytest\n@pytest.mark.needs('foi')\ndef test_one(): pass")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(['*needs("foi"): unknown; tests/session/needs.py has fio, *'])


def test_each_need_names_one_command() -> None:
    assert all(need.remedy and "\n" not in need.remedy for need in NEEDS.values())


@pytest.mark.parametrize(
    ("section", "needed"), [("### The lab", lab.NEEDS), ("### The containers", ("docker", "debootstrap", "openssl"))]
)
def test_contributing_names_every_package_of_the_lab_and_of_the_containers(
    section: str, needed: tuple[str, ...]
) -> None:
    text = (CHECKOUT / "CONTRIBUTING.md").read_text().split(f"{section}\n")[1].split("\n### ")[0]
    (command,) = [line.strip() for line in text.splitlines() if line.startswith("    apt-get install ")]

    packages = {NEEDS[name].remedy.removeprefix("apt-get install ") for name in needed}

    assert packages - set(command.split()) == set()


@pytest.mark.parametrize(
    ("main", "arguments", "message"),
    [
        (soak.main, ([],), "needs root"),
        (fire.main, ([],), "needs root"),
        (faults.main, ("matrix",), "needs root"),
        (faults.main, ("martix",), "there is no part martix: choose from boundaries, matrix, document"),
    ],
)
def test_a_command_that_measures_faults_says_at_once_why_it_cannot(
    main: Callable[..., int],
    arguments: tuple[Any, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(NEEDS, "root", Need("root", lambda: False, ""))

    with pytest.raises(SystemExit):
        main(*arguments)
    assert message in capsys.readouterr().err


def test_a_machine_that_does_not_know_localhost_is_told_what_to_add(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "import socket\n\ndef unknown(*names): raise socket.gaierror\n\nsocket.getaddrinfo = unknown\n"
    )

    result = run("def test_any(): raise AssertionError('ran')")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "echo 127.0.0.1 localhost >>/etc/hosts" in result.stderr.str()
    assert "ran" not in result.stdout.str()
