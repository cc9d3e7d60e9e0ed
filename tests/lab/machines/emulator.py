"""QEMU: its arguments for a topology, whether KVM works here, and a start that survives a port in use."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from tests.lab.machines.image import INITRD, KERNEL
from tests.lab.machines.lab import LAB, LabError, emulator_pid, locked
from tests.lab.machines.loaders import LOADERS
from tests.lab.machines.topologies import Topology

QEMU = "qemu-system-x86_64"
PORTS = range(22000, 23000)  # below those that Linux gives to outgoing connections
PORT_IN_USE = "Could not set up host forwarding rule"
KVM_CPU = "host,-arch-capabilities"  # some nested KVMs refuse to set that register
PROBE_S = 20.0
ACCELERATORS = ("auto", "kvm", "tcg")
SPARE_MB = 512
RDTSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")  # rdtsc; shl rdx, 32; or rax, rdx; ret
KILL_S = 60.0
INSTALLED = "installed"  # a file in the state directory of a machine that has a boot loader on its disk


def accelerator() -> str:
    """kvm where a probe guest runs, else tcg, which is ten times slower; PROVING_LAB_ACCEL decides otherwise."""
    requested = os.environ.get("PROVING_LAB_ACCEL", "auto")
    if requested not in ACCELERATORS:
        raise LabError(f"PROVING_LAB_ACCEL is {requested!r}; accepted: {', '.join(ACCELERATORS)}")
    if requested != "auto":
        return requested
    boot, record = Path("/proc/sys/kernel/random/boot_id").read_text().strip(), LAB / "accelerator"
    with locked("accelerator"):
        if not record.exists() or record.read_text().split()[0] != boot:
            record.write_text(f"{boot} {'kvm' if _kvm_works() else 'tcg'}\n")
        return record.read_text().split()[1]


def _kvm_works() -> bool:
    """Boot the kernel without a disk until it complains: some nested KVMs open, and then fail or crawl."""
    if not os.access("/dev/kvm", os.W_OK):
        return False
    with tempfile.TemporaryDirectory(prefix="probe.", dir=LAB) as folder:
        serial = Path(folder, "serial")
        argv = [QEMU, "-nodefaults", "-display", "none", "-no-reboot", "-machine", "q35,accel=kvm", "-cpu", KVM_CPU]
        argv += ["-m", "512M", "-kernel", str(KERNEL), "-append", "console=ttyS0 panic=-1", "-serial", f"file:{serial}"]
        try:
            subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_S, check=False)
        except subprocess.TimeoutExpired:
            return False
        return serial.exists() and b"Kernel panic - not syncing: VFS" in serial.read_bytes()


def check_memory(topology: Topology) -> None:
    lines = Path("/proc/meminfo").read_text().splitlines()
    free_mb = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) // 1024
    if topology.memory_mb + SPARE_MB > free_mb:
        raise LabError(f"{topology.name} needs {topology.memory_mb} MiB of memory; {free_mb} MiB are available")


def arguments(topology: Topology, state: Path, accel: str, port: int) -> list[str]:
    """The command that boots a machine from its disk, its SSH server forwarded from a port of loopback."""
    loader = LOADERS.get(topology.loader)
    root = "/dev/vda1" if topology.loader == "grub" else "/dev/vda"
    append = f"root={root} rw {kernel_parameters(accel)}"
    kernel = ["-kernel", str(KERNEL), "-initrd", str(INITRD), "-append", append]
    if (state / INSTALLED).exists():
        kernel = []
    if accel == "kvm":
        cpu = ["-accel", "kvm", "-cpu", KVM_CPU]
    else:
        # As an AMD processor it would not show Linux the threads of a core.
        vendor = ",vendor=GenuineIntel" if topology.threads > 1 else ""
        cpu = ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", f"max,-la57,-svm{vendor}"]
    return [
        *(QEMU, "-name", f"{topology.name},debug-threads=on", "-nodefaults", "-display", "none"),
        *("-daemonize", "-pidfile", str(state / "pid"), "-machine", "q35", *cpu, *_numa(topology)),
        *kernel,
        # Nothing of the disk stays in this machine's cache: a killed emulator is a power cut.
        *("-drive", f"file={state / 'disk.qcow2'},if=none,id=disk,cache=none,discard=unmap"),
        *("-device", "virtio-blk-pci,drive=disk", *(loader.firmware(state) if loader else [])),
        *("-device", "virtio-rng-pci"),
        *("-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"),
        *("-device", "virtio-net-pci,netdev=net,romfile=", "-serial", f"file:{state / 'serial.log'}"),
    ]


def kernel_parameters(accel: str) -> str:
    """Parameters that a kernel needs on this emulator."""
    parameters = "console=ttyS0 quiet panic=10"
    if accel == "kvm":
        return parameters
    # By default Linux reads the time from the emulated HPET, one CPU at a time. On a busy host, an emulated timer can
    # fail the check at boot: a machine with UEFI then hung, or did not find its disk.
    return f"{parameters} no_timer_check tsc=reliable clocksource=tsc{_tsc_frequency()}"


def _tsc_frequency() -> str:
    """For the kernel of an emulated machine, whose time stamp counter is the host's: its frequency. Linux would measure
    it at boot, and on a busy host be wrong by a factor: the guest's clock then runs several times too fast."""
    return f" tsc_early_khz={measure_tsc_khz()}" if platform.machine() == "x86_64" else ""


def measure_tsc_khz(seconds: float = 0.1) -> int:
    """Ticks of this machine's time stamp counter in a millisecond."""
    with mmap.mmap(-1, len(RDTSC), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as code:
        code.write(RDTSC)
        place = ctypes.c_char.from_buffer(code)
        read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(place))
        began, first = _tick(read)
        time.sleep(seconds)
        ended, last = _tick(read)
        del place  # otherwise the memory cannot be released
    return round((last - first) * 1_000_000 / (ended - began))


def _tick(read: Callable[[], int]) -> tuple[int, int]:
    """Nanoseconds and the counter at the same moment: of several readings, the least interrupted."""
    readings = [(time.monotonic_ns(), read(), time.monotonic_ns()) for _ in range(50)]
    before, count, after = min(readings, key=lambda reading: reading[2] - reading[0])
    return (before + after) // 2, count


def _numa(topology: Topology) -> Iterator[str]:
    sockets = sum(bool(node.cpus) for node in topology.nodes)
    yield from ("-m", f"{topology.memory_mb}M")
    cores = topology.cpus // sockets // topology.threads
    yield from ("-smp", f"{topology.cpus},sockets={sockets},cores={cores},threads={topology.threads}")
    for number, node in enumerate(topology.nodes):
        options = [f"node,nodeid={number}"]
        if node.memory_mb:
            yield from ("-object", f"memory-backend-ram,id=mem{number},size={node.memory_mb}M")
            options.append(f"memdev=mem{number}")
        if node.cpus:
            cpus = topology.cpus_of(number)
            options.append(f"cpus={cpus[0]}-{cpus[-1]}")
        yield from ("-numa", ",".join(options))
    for source, row in enumerate(topology.distances):
        for target in range(source + 1, len(row)):
            yield from ("-numa", f"dist,src={source},dst={target},val={row[target]}")


def free_ports(first: int | None = None) -> Iterator[int]:
    """`first`, then ports of loopback that nothing is bound to at this moment."""
    if first:
        yield first
    for port in PORTS:
        with socket.socket() as probe:
            # As QEMU does: ports of connections that have just ended are free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port


def launch(command: Callable[[int], list[str]], ports: Iterator[int]) -> int:
    """Start QEMU on the first port that it can bind: only its own bind cannot be overtaken."""
    for port in ports:
        done = subprocess.run(command(port), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return port
        if PORT_IN_USE not in done.stderr:
            raise LabError(f"QEMU did not start: {done.stderr.strip()}")
    raise LabError(f"no free port from {PORTS[0]} to {PORTS[-1]} on 127.0.0.1")


def wait_until_ended(state: Path, limit_s: float) -> None:
    """Wait for a machine that is shutting down by itself."""
    deadline = time.monotonic() + limit_s
    while emulator_pid(state) is not None:
        if time.monotonic() > deadline:
            raise LabError("the machine does not shut down")
        time.sleep(0.5)


def end(state: Path, limit_s: float) -> None:
    """End the machine of this state directory: SIGTERM, and SIGKILL after `limit_s`; 0 kills at once."""
    began = time.monotonic()
    while (pid := emulator_pid(state)) is not None:
        late = time.monotonic() - began >= limit_s
        if time.monotonic() - began > limit_s + KILL_S:
            raise LabError(f"QEMU {pid} does not end")
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
        time.sleep(0.05)
