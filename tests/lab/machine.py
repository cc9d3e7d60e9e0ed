"""A virtual machine of the lab: scripts in $PROVING_LAB boot, reach and end it (see CONTRIBUTING.md)."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path

BOOT_S = 600.0


class Machine:
    """One VM by name. Its disk lives from the first `up` to `down`; a power cut leaves it as it was at that moment."""

    def __init__(self, lab: Path, name: str) -> None:
        self._lab, self.name, self.where = lab, name, dict[str, str]()

    def up(self) -> float:
        """Boot, or find it running: seconds until SSH answered. `where` tells host, port, user and key."""
        began = time.monotonic()
        shown = self._script("up", limit_s=BOOT_S)
        self.where = dict(word.split("=", 1) for word in shown.split() if "=" in word)
        return time.monotonic() - began

    def down(self) -> None:
        self._script("down", limit_s=60)

    def shell(self, command: str, *, stdin: bytes = b"", check: bool = True, limit_s: float = 120) -> str:
        """What a command of the guest's shell printed."""
        argv = [str(self._lab / "ssh"), self.name, command]
        done = subprocess.run(argv, input=stdin, capture_output=True, timeout=limit_s, check=False)
        assert not check or done.returncode == 0, (command, done.stdout[-1000:], done.stderr[-2000:])
        return done.stdout.decode(errors="replace")

    def follow(self, command: str) -> subprocess.Popen[bytes]:
        """A command of the guest's shell whose output is read while it runs."""
        argv = [str(self._lab / "ssh"), self.name, command]
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)

    def cut_power(self) -> None:
        """SIGKILL to the emulator: what the guest had not made durable is gone."""
        pid = self._emulator()
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
            time.sleep(0.05)

    def _emulator(self) -> int:
        """The pid of the process that was started with -name NAME."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                words = _words(entry / "cmdline")
                if any(a == "-name" and b.split(",")[0] == self.name for a, b in pairwise(words)):
                    return int(entry.name)
        raise AssertionError(f"no process was started with -name {self.name}")

    def _script(self, script: str, limit_s: float) -> str:
        argv = [str(self._lab / script), self.name]
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s, check=False
        )
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done.stdout

    def boot_id(self) -> str:
        return self.shell("cat /proc/sys/kernel/random/boot_id").strip()


def _words(cmdline: Path) -> list[str]:
    try:
        return cmdline.read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
