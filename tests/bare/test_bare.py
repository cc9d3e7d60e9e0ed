"""Parts of `make test-bare` that need no root file system of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bare import outcome, roots
from tests.bare.command import run
from tests.bare.outcome import Outcome
from tests.bare.variants import CHECKOUT, PATH, enter

MACHINE_WITHOUT_FIO = """
    from tests.session.needs import NEEDS, Need

    NEEDS["fio"] = Need("fio", lambda: False, NEEDS["fio"].remedy)
"""
TESTS = """
    import os
    import pytest

    @pytest.mark.needs("fio")
    def test_with_fio(): raise AssertionError("ran")

    def test_without(): assert os.environ["BROKEN"] == "no"
"""
WAIT_FOR_CTRL_C = "trap 'echo restored; exit 0' INT; echo started; while :; do sleep 0.1; done"
RUN = "import pathlib, sys; from tests.bare import command; command.run(sys.argv[2:], pathlib.Path(sys.argv[1]))"
WITH_THIS_USR = 'mount --bind /usr "$0/usr" && exec "$@"'
WITH_A_MOUNT = 'mount --bind "$1" "$2" && exec "$0" -c "$3" "$2"'
REMOVE = "import pathlib, sys; from tests.bare import roots; roots.remove(pathlib.Path(sys.argv[1]).parent)"


@pytest.fixture
def outcome_of_tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Runs two tests on a machine without fio."""
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    pytester.makeconftest(MACHINE_WITHOUT_FIO)
    pytester.makepyfile(TESTS)

    def run(*, is_ci: bool, broken: str = "no") -> Outcome:
        monkeypatch.setenv("CI", "true" if is_ci else "")
        monkeypatch.setenv("BROKEN", broken)
        shown = pytester.runpytest_subprocess("-p", "tests.session.needs", "-p", "no:xdist", "-ra")
        return outcome.read(int(shown.ret), 1.0, shown.stdout.str())

    return run


@pytest.mark.parametrize("is_ci", [False, True])
def test_an_outcome_has_the_summary_and_what_is_missing(outcome_of_tests: Callable[..., Outcome], is_ci: bool) -> None:
    seen = outcome_of_tests(is_ci=is_ci)

    assert seen.summary.startswith("1 passed, 1 error in " if is_ci else "1 passed, 1 skipped in ")
    assert [line.split() for line in seen.missing] == [["fio", "1", "test", "apt-get", "install", "fio"]]
    assert seen.is_expected(is_ci=is_ci)
    assert not seen.is_expected(is_ci=not is_ci)


def test_under_ci_another_failure_beside_a_missing_program_is_not_as_expected(
    outcome_of_tests: Callable[..., Outcome],
) -> None:
    seen = outcome_of_tests(is_ci=True, broken="yes")

    assert [line.split(" - ")[0].split("::")[1] for line in seen.failed] == ["test_without"]
    assert not seen.is_expected(is_ci=True)


def test_tests_that_never_ran_are_not_as_expected() -> None:
    seen = outcome.read(0, 1.0, "error: pip could not install the packages\n")

    assert not seen.is_expected(is_ci=False)


@pytest.mark.thorough
@pytest.mark.needs("root", "user namespaces")
def test_a_command_has_its_own_root_and_processes_and_may_make_user_namespaces(tmp_path: Path) -> None:
    root, log = tmp_path / "root", tmp_path / "log"
    for name in ("usr", "dev", "sys", "proc", "etc"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    command = enter(root, "root", "sh", "-c", "echo /*; unshare --user true; echo $?; set -- /proc/[0-9]*; echo $#")

    code = run(["unshare", "--mount", "sh", "-c", WITH_THIS_USR, root, *command], log, env={"PATH": PATH})

    assert code == 0
    assert log.read_text().splitlines() == ["/bin /dev /etc /lib /lib64 /proc /sbin /sys /usr", "0", "2"]
    assert roots.mounts_below(root) == []


@pytest.mark.thorough
@pytest.mark.needs("user namespaces")
def test_what_is_mounted_below_a_removed_directory_is_kept(tmp_path: Path) -> None:
    """Both are on one file system, so that `rm --one-file-system` would follow the mount."""
    kept, point = tmp_path / "kept", tmp_path / "removed" / "mount point"
    point.mkdir(parents=True)
    kept.mkdir()
    (kept / "file").write_text("of somebody else")

    namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    subprocess.run(
        [*namespace, "sh", "-c", WITH_A_MOUNT, sys.executable, kept, point, REMOVE], cwd=CHECKOUT, check=True
    )

    assert (kept / "file").exists()
    assert not point.parent.exists()


@pytest.mark.thorough
def test_ctrl_c_lets_a_command_end_by_itself_and_waits_for_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = subprocess.Popen([sys.executable, "-c", RUN, log, "sh", "-c", WAIT_FOR_CTRL_C], cwd=CHECKOUT)
    deadline = time.monotonic() + 30
    while not (log.exists() and log.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.1)

    process.send_signal(signal.SIGINT)

    assert process.wait(30) == -signal.SIGINT
    assert log.read_text().split() == ["started", "restored"]
