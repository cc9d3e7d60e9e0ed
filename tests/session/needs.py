"""What a test needs that a bare machine lacks: `@pytest.mark.needs("fio", "root")`, and `require("sshd")` in a fixture.

A missing program skips the test and is listed, with the command that installs it, in the last lines of the output.
With CI=true in the environment a missing program fails the test instead.
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

POSTGRESQL_15 = Path("/usr/lib/postgresql/15/bin")
MACHINE_ID = Path("/etc/machine-id")
DEBIAN_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


@dataclass(frozen=True)
class Need:
    """A program or privilege, how to find it, and the one command that provides it."""

    name: str
    is_there: Callable[[], bool]
    remedy: str

    @functools.cached_property
    def is_missing(self) -> bool:
        return not self.is_there()

    @property
    def reason(self) -> str:
        """The same text for every test, so that pytest reports the tests together."""
        return f"needs {self.name} ({self.remedy})"


def program(name: str, package: str) -> Need:
    """A program of a Debian package. Those of administrators count, although an ordinary user's PATH lacks them."""
    return Need(name, lambda: find_program(name) is not None, f"apt-get install {package}")


def find_program(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"]))


def find_browser() -> str | None:
    """Chromium's headless shell, which takes a fifth less CPU time than the whole browser; else the whole browser."""
    return find_program("chromium-headless-shell") or find_program("chromium")


def _may_make_namespaces() -> bool:
    command = ["unshare", "--user", "--map-root-user", "true"]
    return subprocess.run(command, stderr=subprocess.DEVNULL, timeout=10, check=False).returncode == 0


def _has_network_namespaces() -> bool:
    """Whether `ip` and `nft` can create a network namespace with a firewall."""
    if os.geteuid() or not all(map(find_program, ("ip", "nft", "setpriv"))):
        return False
    command = ["unshare", "--net", "--mount", "nft", "add", "table", "inet", "probe"]
    return subprocess.run(command, stderr=subprocess.DEVNULL, timeout=10, check=False).returncode == 0


def _has_compose() -> bool:
    """Whether Compose 2 is available, or can be unpacked from Debian's packages (tests/compose/plugins.py)."""
    if find_program("docker") is None:
        return True  # the need "docker" says so
    command = ["docker", "compose", "version"]
    if subprocess.run(command, capture_output=True, timeout=10, check=False).returncode == 0:
        return True
    return find_program("apt-get") is not None and DEBIAN_KEYRING.is_file()


def _has_tmpfs() -> bool:
    """/dev/shm is a file system of its own: a file there cannot be a link of one elsewhere."""
    shared = Path("/dev/shm")
    return shared.is_dir() and shared.stat().st_dev != Path(tempfile.gettempdir()).stat().st_dev


NEEDS = {
    need.name: need
    for need in (
        program("fio", "fio"),
        program("sysbench", "sysbench"),
        program("numactl", "numactl"),
        program("strace", "strace"),
        program("perf", "linux-perf"),
        program("bpftrace", "bpftrace"),
        program("sshd", "openssh-server"),
        program("ssh-keygen", "openssh-client"),
        program("openssl", "openssl"),
        program("grub-editenv", "grub-common"),
        Need("chromium", lambda: find_browser() is not None, "apt-get install chromium-headless-shell"),
        program("debootstrap", "debootstrap"),
        program("qemu-img", "qemu-utils"),
        program("mkfs.ext4", "e2fsprogs"),
        Need("qemu", lambda: find_program("qemu-system-x86_64") is not None, "apt-get install qemu-system-x86"),
        Need("docker", lambda: bool(find_program("docker") and find_program("dockerd")), "apt-get install docker.io"),
        program("docker-registry", "docker-registry"),
        Need("compose", _has_compose, "apt-get install docker-compose-v2 docker-buildx"),
        Need("postgresql-15", POSTGRESQL_15.is_dir, "apt-get install postgresql-15"),
        Need("machine-id", MACHINE_ID.exists, f"tr -d - </proc/sys/kernel/random/uuid >{MACHINE_ID}"),
        Need("tmpfs", _has_tmpfs, "mount -t tmpfs tmpfs /dev/shm"),
        Need("kubernetes-validate", lambda: find_spec("kubernetes_validate") is not None, "make .venv-all"),
        Need("pip-audit", lambda: find_spec("pip_audit") is not None, "make .venv-all"),
        Need("x86-64", lambda: platform.machine() == "x86_64", "run it on an x86-64 machine"),
        Need("root", lambda: os.geteuid() == 0, "run it as root: sudo make test"),
        Need("network namespaces", _has_network_namespaces, "apt-get install iproute2 nftables, as root"),
        Need("user namespaces", _may_make_namespaces, "sysctl -w kernel.unprivileged_userns_clone=1"),
    )
}


def require(*names: str) -> None:
    """Skip the running test if one of these is missing; with CI=true, fail it."""
    missing = [need for need in map(find, names) if need.is_missing]
    if not missing:
        return
    reasons = "; ".join(need.reason for need in missing)
    if in_ci():
        pytest.fail(f"{reasons}. CI=true: a test that cannot run fails.", pytrace=False)
    pytest.skip(reasons)


def demand_root(parser: argparse.ArgumentParser) -> None:
    """For a command that measures as root: say so at once, as a usage error."""
    if NEEDS["root"].is_missing:
        parser.error("needs root: it changes settings of this machine and restores them")


def find(name: str) -> Need:
    """The need of this name. LookupError with the known names if there is none."""
    try:
        return NEEDS[name]
    except KeyError:
        raise LookupError(f'needs("{name}"): unknown; tests/session/needs.py has {", ".join(NEEDS)}') from None


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("true", "1")


def names_of(node: pytest.Item) -> list[str]:
    """What the marks of a test, its class, its module and its parameters name."""
    return [name for mark in node.iter_markers("needs") for name in mark.args]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "needs(*names): what tests/session/needs.py finds, else the test is skipped and listed"
    )
    try:
        socket.getaddrinfo("localhost", None)
    except OSError as error:
        remedy = "echo 127.0.0.1 localhost >>/etc/hosts"
        raise pytest.UsageError(f"this machine does not know the name localhost ({error}): {remedy}") from error


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """A test with an unknown need is an error of its file."""
    report = yield
    try:
        for node in report.result or ():
            if isinstance(node, pytest.Item):
                for name in names_of(node):
                    find(name)
    except LookupError as error:
        report.outcome, report.longrepr, report.result = "failed", f"{node.nodeid}: {error}", []
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    require(*names_of(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """The last lines: for each missing need, the number of tests and the command."""
    yield
    outcome = "error" if in_ci() else "skipped"
    texts = [report.longreprtext for kind in (outcome, "failed") for report in terminalreporter.getreports(kind)]
    counts = [(need, sum(need.reason in text for text in texts)) for need in NEEDS.values()]
    lines = [f"  {need.name:<19} {_tests(count):>10}   {need.remedy}" for need, count in counts if count]
    if lines:
        terminalreporter.section(f"{'failed' if in_ci() else 'skipped'}: this machine lacks")
        for line in lines:
            terminalreporter.line(line)


def _tests(count: int) -> str:
    return "1 test" if count == 1 else f"{count} tests"
