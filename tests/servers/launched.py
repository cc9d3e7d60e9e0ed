"""The launcher with a configuration, a store and keys of a test's own, as an admin installs it on a host."""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents import build, launcher


@dataclass(frozen=True)
class Installed:
    """`program`, `config` and `store` replace /usr/local/sbin/proving-agent, /etc/proving-agent and
    /var/lib/proving-agent."""

    program: Path
    config: Path
    store: Path

    def trust(self, *lines: str) -> None:
        """Only these keys, as lines of ssh-keygen's ALLOWED SIGNERS."""
        (self.config / "signers").write_text("".join(f"{line.strip()}\n" for line in lines))

    def narrow(self, **policy: Any) -> None:
        (self.config / "policy.json").write_text(json.dumps(policy))

    def run(self, *arguments: str, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
        argv = [str(self.program), *arguments]
        return subprocess.run(argv, input=stdin, capture_output=True, timeout=60, env=environment, check=False)


def install(root: Path) -> Installed:
    """Everything below `root`, which only root can change."""
    installed = Installed(root / "proving-agent", root / "etc", root / "store")
    source = build.launcher_source()
    for constant, place in ((launcher.CONFIG, installed.config), (launcher.STORE, installed.store)):
        assert source.count(f'"{constant}"') == 1
        source = source.replace(f'"{constant}"', f'"{place}"')
    installed.program.write_text(source)
    installed.program.chmod(0o755)
    installed.config.mkdir(mode=0o755)
    return installed


class Signer:
    """A key of ssh-keygen(1), which signs as a server does."""

    def __init__(self, root: Path, name: str = "key") -> None:
        self._key = root / name
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(self._key)]
        subprocess.run(argv, check=True)

    @property
    def public_key(self) -> str:
        return self._key.with_suffix(".pub").read_text().strip()

    @property
    def line(self) -> str:
        return f'{launcher.SIGNER} namespaces="{launcher.NAMESPACE}" {self.public_key}'

    def parcel(self, agent: bytes, serial: int, namespace: str = launcher.NAMESPACE) -> bytes:
        """What `proving-agent install` reads."""
        statement = f"proving-agent 1 {serial} {hashlib.sha256(agent).hexdigest()}\n".encode()
        argv = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(self._key), "-n", namespace, "-"]
        signature = subprocess.run(argv, input=statement, capture_output=True, check=True).stdout
        return parcel(statement, signature, agent)


def parcel(statement: bytes, signature: bytes, agent: bytes) -> bytes:
    return b"%d %d %d\n" % (len(statement), len(signature), len(agent)) + statement + signature + agent
