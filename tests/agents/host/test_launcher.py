"""The launcher: root runs only an agent that a trusted key signed, and none that is older or that others can change."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents import launcher
from agents.wire import protocol
from agents.wire.protocol import FrameReader
from tests.servers import launched, remote
from tests.servers.launched import Installed, Signer

pytestmark = [pytest.mark.fast, pytest.mark.needs("root", "ssh-keygen")]
UNTRUSTED = "it must refuse before it runs anything"


@pytest.fixture
def root() -> Iterator[Path]:
    with remote.short_dir() as path:
        yield path


@pytest.fixture
def signer(root: Path) -> Signer:
    return Signer(root)


@pytest.fixture
def installed(root: Path, signer: Signer) -> Installed:
    there = launched.install(root)
    there.trust(signer.line)
    return there


def agent(root: Path, mark: str = "first") -> bytes:
    """A program that writes `mark` into a file when it runs."""
    return f"import pathlib\npathlib.Path('{root}/ran').write_text('{mark}')\n".encode()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def ran(root: Path) -> str:
    return (root / "ran").read_text() if (root / "ran").exists() else ""


def test_a_signed_agent_is_installed_and_started(root: Path, installed: Installed, signer: Signer) -> None:
    program = agent(root)

    installation = installed.run("install", stdin=signer.parcel(program, 5))
    started = installed.run("run", sha256(program), "version")

    assert (installation.returncode, started.returncode, ran(root)) == (0, 0, "first"), (
        installation.stderr + started.stderr
    )


def test_an_agent_that_was_never_sent_is_requested(installed: Installed) -> None:
    assert installed.run("run", "ab" * 32, "rpc").returncode == launcher.SEND


def test_an_upgrade_replaces_the_installed_agent(root: Path, installed: Installed, signer: Signer) -> None:
    installed.run("install", stdin=signer.parcel(agent(root), 5))
    newer = agent(root, "second")

    installation = installed.run("install", stdin=signer.parcel(newer, 6))

    assert installation.returncode == 0, installation.stderr
    assert installed.run("run", sha256(newer), "version").returncode == 0
    assert ran(root) == "second"


def test_a_changed_byte_is_not_installed(root: Path, installed: Installed, signer: Signer) -> None:
    sent = bytearray(signer.parcel(agent(root), 5))
    sent[-3] ^= 1

    refused = installed.run("install", stdin=bytes(sent))

    assert refused.returncode == 1
    assert b"another agent" in refused.stderr
    assert list(installed.store.glob("*.pyz")) == []


def test_bytes_that_were_appended_later_are_not_run(root: Path, installed: Installed, signer: Signer) -> None:
    program = agent(root)
    installed.run("install", stdin=signer.parcel(program, 5))
    with (installed.store / f"{sha256(program)}.pyz").open("ab") as file:
        file.write(b"pathlib.Path('/nowhere').stat()\n")

    assert installed.run("run", sha256(program), "version").returncode == launcher.SEND
    assert ran(root) == "", UNTRUSTED


def test_an_older_signed_agent_is_neither_installed_nor_run(root: Path, installed: Installed, signer: Signer) -> None:
    old, new = agent(root, "old"), agent(root, "new")
    installed.run("install", stdin=signer.parcel(old, 5))
    installed.run("install", stdin=signer.parcel(new, 6))

    again, run = installed.run("install", stdin=signer.parcel(old, 5)), installed.run("run", sha256(old), "rpc")

    assert (again.returncode, run.returncode) == (1, launcher.SEND)
    assert b"serial 5 is older than 6" in again.stderr
    assert ran(root) == "", UNTRUSTED


def test_only_root_lets_an_older_agent_continue_its_run(root: Path, installed: Installed, signer: Signer) -> None:
    old = agent(root, "old")
    installed.run("install", stdin=signer.parcel(old, 5))
    installed.run("install", stdin=signer.parcel(agent(root, "new"), 6))

    by_sudo = installed.run("run", sha256(old), "run", SUDO_UID="1000")
    before = ran(root)
    by_systemd = installed.run("run", sha256(old), "run")

    assert (by_sudo.returncode, before) == (launcher.SEND, "")
    assert (by_systemd.returncode, ran(root)) == (0, "old")


def test_an_agent_of_a_revoked_key_is_not_started(root: Path, installed: Installed, signer: Signer) -> None:
    program = agent(root)
    installed.run("install", stdin=signer.parcel(program, 5))
    (installed.config / "revoked").write_text(f"{signer.public_key}\n")

    again, run = installed.run("install", stdin=signer.parcel(program, 6)), installed.run("run", sha256(program), "rpc")

    assert (again.returncode, run.returncode) == (1, launcher.SEND)
    assert b"revoked" in again.stderr
    assert ran(root) == "", UNTRUSTED


def test_an_agent_signed_with_another_key_is_refused(root: Path, installed: Installed) -> None:
    stranger = Signer(root, "stranger")

    assert installed.run("install", stdin=stranger.parcel(agent(root), 9)).returncode == 1


def test_a_signature_for_another_purpose_is_refused(root: Path, installed: Installed, signer: Signer) -> None:
    assert installed.run("install", stdin=signer.parcel(agent(root), 9, namespace="git")).returncode == 1


@pytest.mark.parametrize("serial", ["", "-1", "7 8", "1" * 19])
def test_a_signed_statement_of_another_form_is_refused(
    root: Path, installed: Installed, signer: Signer, serial: str
) -> None:
    statement = f"proving-agent 1 {serial} {sha256(agent(root))}\n"
    argv = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(root / "key"), "-n", launcher.NAMESPACE, "-"]
    signature = subprocess.run(argv, input=statement.encode(), capture_output=True, check=True).stdout

    refused = installed.run("install", stdin=launched.parcel(statement.encode(), signature, agent(root)))

    assert refused.returncode == 1


@pytest.mark.parametrize("sent", [b"", b"1 2\n", b"-1 0 5\nabcd", b"0 0 99999999\n", b"9" * 100, b"a b c\n"])
def test_a_malformed_parcel_is_refused(installed: Installed, sent: bytes) -> None:
    assert installed.run("install", stdin=sent).returncode == 1
    assert list(installed.store.glob("*.pyz")) == []


@pytest.mark.parametrize("place", ["etc", "etc/signers", "store"])
def test_files_that_another_account_can_change_are_not_trusted(
    root: Path, installed: Installed, signer: Signer, place: str
) -> None:
    installed.run("install", stdin=signer.parcel(agent(root), 5))
    os.chown(root / place, 65534, 65534)

    refused = installed.run("run", sha256(agent(root)), "version")

    assert refused.returncode == 1
    assert b"must belong to root" in refused.stderr
    assert ran(root) == "", UNTRUSTED


def test_an_ordinary_user_cannot_use_the_launcher(root: Path, installed: Installed) -> None:
    root.chmod(0o755)

    refused = subprocess.run([installed.program, "install"], user=65534, group=65534, capture_output=True, check=False)

    assert refused.returncode == 1
    assert b"sudo" in refused.stderr


def test_the_environment_of_the_caller_reaches_no_agent(root: Path, installed: Installed, signer: Signer) -> None:
    program = f"import os, pathlib\npathlib.Path('{root}/ran').write_text(' '.join(sorted(os.environ)))\n".encode()
    installed.run("install", stdin=signer.parcel(program, 5))

    installed.run("run", sha256(program), "version", LD_PRELOAD="x", PYTHONPATH="y", PROVING_AGENT_POLICY="/dev/null")

    assert not {"LD_PRELOAD", "PYTHONPATH"} & set(ran(root).split())


def greet(installed: Installed, program: Path, spool: Path) -> dict[str, object]:
    """What the real agent answers to hello, or its last words."""
    ask = protocol.encode({"id": 1, "verb": "hello", "args": {}})
    done = installed.run("run", sha256(program.read_bytes()), "rpc", "--spool", str(spool), stdin=ask)
    answers = list(FrameReader().feed(done.stdout))
    return dict(answers[0]) if answers else {"words": done.stderr.decode()}


def test_the_real_agent_answers_for_the_spool_that_the_host_names_and_for_no_other(
    root: Path, installed: Installed, signer: Signer, program: Path
) -> None:
    installed.run("install", stdin=signer.parcel(program.read_bytes(), 5))
    installed.narrow(spool=str(root / "spool"))

    ours, other = greet(installed, program, root / "spool"), greet(installed, program, root / "elsewhere")

    assert ours["ok"], ours
    assert f"the spool of this host is {root}/spool" in str(other["words"])
    assert not (root / "elsewhere").exists()


def test_a_policy_that_cannot_be_understood_allows_nothing(
    root: Path, installed: Installed, signer: Signer, program: Path
) -> None:
    installed.run("install", stdin=signer.parcel(program.read_bytes(), 5))
    installed.narrow(forbid=["rebooot"], spool=str(root / "spool"))

    assert "cannot be read" in str(greet(installed, program, root / "spool")["words"])


def test_root_uses_no_spool_that_another_account_can_change(root: Path, program: Path) -> None:
    """Without the check, `nobody` could create the directory in advance, with its own journals."""
    spool = root / "spool"
    (spool / "jobs").mkdir(parents=True)
    os.chown(spool, 65534, 65534)
    spool.chmod(0o755)

    argv = [sys.executable, "-I", str(program), "status", "--spool", str(spool)]
    refused = subprocess.run([*argv[:3], "guard", *argv[4:]], capture_output=True, text=True, check=False)

    assert refused.returncode != 0
    assert "another account than root can change the spool" in refused.stderr
    assert spool.stat().st_mode & 0o777 == 0o755
