"""Whether this host can boot its running kernel with another command line."""

from __future__ import annotations

from typing import Any

from ..host.system import System

KEXEC_LOADED, KEXEC_DISABLED = "/sys/kernel/kexec_loaded", "/proc/sys/kernel/kexec_load_disabled"
# Names of images and of initial RAM disks, by distribution.
IMAGES = ("vmlinuz-{}", "Image-{}", "vmlinux-{}")
INITRDS = ("initrd.img-{}", "initramfs-{}.img", "initrd-{}")


def boot(system: System) -> dict[str, str]:
    """{"kexec": path of the program, "image", "initrd": those of the running kernel, "problem"}, each "" for none."""
    release = system.text("/proc/sys/kernel/osrelease")
    paths = {"kexec": system.which("kexec"), "image": _file(system, IMAGES, release)}
    paths["initrd"] = _file(system, INITRDS, release)
    return {**paths, "problem": _problem(system, paths)}


def _file(system: System, names: tuple[str, ...], release: str) -> str:
    paths = (f"/boot/{name.format(release)}" for name in names)
    return next(filter(system.exists, paths), "") if release else ""


def _problem(system: System, paths: dict[str, Any]) -> str:
    """Why the host cannot boot with kexec, and what to do; "" if it can."""
    if not system.exists("/run/systemd/system") or system.text("/run/systemd/container"):
        return "systemd is not PID 1 of the machine: use a host outside of containers"
    if not system.exists(KEXEC_LOADED):
        return "this kernel was built without kexec"
    if system.text(KEXEC_DISABLED) == "1":
        return "kernel.kexec_load_disabled is 1: remove it from sysctl.d and restart the host"
    if not paths["kexec"]:
        return "the program kexec is missing: install kexec-tools"
    for name in ("image", "initrd"):
        if not paths[name]:
            return f"/boot has no {name} of the running kernel: restart the host if its kernel was upgraded"
    return ""
