"""One virtual machine: boot it, run commands in it, cut its power, delete it."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

from tests.lab.machines import emulator, guest
from tests.lab.machines.image import DISK, DISK_SIZE, PARTITIONED, ensure_image
from tests.lab.machines.lab import KEY, MACHINES, LabError, emulator_pid, locked
from tests.lab.machines.loaders import LOADERS
from tests.lab.machines.topologies import Topology

BOOT_S = {"kvm": 180.0, "tcg": 600.0}
STOP_S = 10.0
SSH = (
    *("ssh", "-F", "/dev/null", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR"),
    *("-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=4", "-o", "StrictHostKeyChecking=accept-new"),
)


class Machine:
    """Its disk exists from the first `up` to `down`; a power cut leaves it as it was at that moment."""

    def __init__(self, topology: Topology) -> None:
        self.topology, self.name = topology, topology.name
        self._state = MACHINES / topology.name

    @property
    def where(self) -> dict[str, str]:
        """How to reach the guest: host, port, user and key."""
        return {"host": "127.0.0.1", "port": str(self._port()), "user": guest.USER, "key": str(KEY)}

    @property
    def accelerator(self) -> str:
        return (self._state / "accelerator").read_text()

    def up(self) -> float:
        """Boot, or find it running: seconds until SSH answered."""
        began = time.monotonic()
        ensure_image()
        with locked("start"):
            if emulator_pid(self._state) is None:
                self._start()
        # Not from `began`: building the image can take longer than a boot may.
        self._wait_for_ssh(time.monotonic() + BOOT_S[self.accelerator])
        if self.topology.loader and not (self._state / emulator.INSTALLED).exists():
            self._install_loader()
            return self.up()
        return time.monotonic() - began

    def _install_loader(self) -> None:
        """Install the boot loader in the machine, which booted without it, and stop the machine."""
        loader = LOADERS[self.topology.loader]
        text = loader.defaults.format(parameters=emulator.kernel_parameters(self.accelerator))
        self.shell(loader.install, stdin=text.encode(), limit_s=600)
        self.shell("sudo systemctl poweroff", check=False)
        emulator.wait_until_ended(self._state, BOOT_S[self.accelerator])
        (self._state / emulator.INSTALLED).touch()

    def _start(self) -> None:
        emulator.check_memory(self.topology)
        if self.topology.loader:
            LOADERS[self.topology.loader].check()
        accel = emulator.accelerator()
        self._state.mkdir(parents=True, exist_ok=True)
        disk = self._state / "disk.qcow2"
        if not disk.exists():
            self._known_hosts.unlink(missing_ok=True)
            image = PARTITIONED if self.topology.loader == "grub" else DISK
            base = ["-b", str(image), "-F", "raw", str(disk), DISK_SIZE]
            subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *base], check=True)
        (self._state / "accelerator").write_text(accel)
        # After a power cut the server still knows the machine by its old port.
        port = emulator.launch(
            lambda port: emulator.arguments(self.topology, self._state, accel, port),
            emulator.free_ports(self._port()),
        )
        (self._state / "port").write_text(str(port))

    def _wait_for_ssh(self, deadline: float) -> None:
        while True:
            done = subprocess.run(
                self._ssh("true", connect_s=10), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
            if done.returncode == 0:
                return
            running = emulator_pid(self._state) is not None
            if not running or time.monotonic() > deadline:
                log = self._state / "serial.log"
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else ""
                what = "does not answer over SSH" if running else "ended while it booted"
                raise LabError(f"{tail}\n{self.name} {what}: {done.stderr.strip()} (log: {log})")
            time.sleep(0.5)

    def down(self) -> None:
        """Stop the machine and delete its disk."""
        emulator.end(self._state, STOP_S)
        shutil.rmtree(self._state, ignore_errors=True)

    def cut_power(self) -> None:
        """SIGKILL to the emulator: data that the guest had not synced is lost."""
        assert emulator_pid(self._state) is not None, f"{self.name} does not run"
        emulator.end(self._state, 0)

    def shell(self, command: str, *, stdin: bytes = b"", check: bool = True, limit_s: float = 120) -> str:
        """What a command of the guest's shell printed."""
        done = subprocess.run(self._ssh(command), input=stdin, capture_output=True, timeout=limit_s, check=False)
        assert not check or done.returncode == 0, (command, done.stdout[-1000:], done.stderr[-2000:])
        return done.stdout.decode(errors="replace")

    def follow(self, command: str) -> subprocess.Popen[bytes]:
        """A command of the guest's shell whose output is read while it runs."""
        argv = self._ssh(command)
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)

    def interactive(self, *command: str) -> int:
        """Exit code of a command, or of a login shell, on this terminal."""
        return subprocess.run(self._ssh(*command), check=False).returncode

    def console(self) -> str:
        """What the guest has written to its serial console since the emulator started."""
        return (self._state / "serial.log").read_text(errors="replace")

    def boot_id(self) -> str:
        return self.shell("cat /proc/sys/kernel/random/boot_id").strip()

    @property
    def _known_hosts(self) -> Path:
        return self._state / "known_hosts"

    def _port(self) -> int | None:
        file = self._state / "port"
        return int(file.read_text()) if file.exists() else None

    def _ssh(self, *command: str, connect_s: int = 30) -> list[str]:
        port = self._port()
        if port is None:
            raise LabError(f"{self.name} does not run; start it: python -m tests.lab.machines up {self.name}")
        options = ["-i", str(KEY), "-p", str(port), "-o", f"ConnectTimeout={connect_s}"]
        return [*SSH, *options, "-o", f"UserKnownHostsFile={self._known_hosts}", f"{guest.USER}@127.0.0.1", *command]
