"""Whether this host can boot with another command line or kernel: with kexec, or with an entry of its boot loader."""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterator, Optional

from ..host import cmdline
from ..host.loaders import grub
from ..host.system import System
from . import systemd_boot
from .storage import mounts

KEXEC_LOADED, KEXEC_DISABLED = "/sys/kernel/kexec_loaded", "/proc/sys/kernel/kexec_load_disabled"
# Names of images and of initial RAM disks, by distribution.
IMAGES = ("vmlinuz-{}", "Image-{}", "vmlinux-{}")
INITRDS = ("initrd.img-{}", "initramfs-{}.img", "initrd-{}")
GRUB_DIRECTORIES = ("/boot/grub", "/boot/grub2")
WRITABLE = ("ext2", "ext3", "ext4", "xfs")  # file systems in which GRUB can write to a file
MODULES = "/lib/modules"
Mount = dict[str, Any]
LAYERS = ("dm", "md", "../md")  # in /sys, of LVM, encryption and RAID, and of a partition of RAID


def boot(system: System) -> dict[str, Any]:
    """{"kexec": path of the program, "image", "initrd": those of the running kernel, "problem": why the host cannot
    boot with kexec, "grub": {"directory", "uuid" of its file system, "image", "initrd": their paths there, "problem"},
    "systemd_boot": see systemd_boot.py}, each text "" for none, and "kernels": those that are installed, [{"release",
    "image", "initrd", "grub": {"image", "initrd": as above}, "systemd_boot": the same}]."""
    release = system.text("/proc/sys/kernel/osrelease")
    paths = {"kexec": system.which("kexec"), "image": _file(system, IMAGES, release)}
    paths["initrd"] = _file(system, INITRDS, release)
    own = _problem(system)
    problem, with_entry = own or _problem_of_files_in_boot(paths), systemd_boot.read(system, own)
    points = mounts(system)
    directory = next((each for each in GRUB_DIRECTORIES if system.exists(f"{each}/grub.cfg")), "")
    mount = _mount(points, directory)
    inside = functools.partial(_inside, points, mount)
    grub_facts = _grub(system, problem, mount, directory, {name: inside(paths[name]) for name in ("image", "initrd")})
    kernels = list(_kernels(system, inside, systemd_boot.kernels(system, with_entry["directory"])))
    facts = {"grub": grub_facts, "systemd_boot": with_entry, "kernels": kernels}
    return {**paths, "problem": problem or _problem_of_kexec(system, paths), **facts}


def _kernels(
    system: System, inside: Callable[[str], str], entries: dict[str, dict[str, str]]
) -> Iterator[dict[str, Any]]:
    """Installed kernels that have an image, an initial RAM disk and modules. `entries`: those of systemd-boot."""
    none = {"image": "", "initrd": ""}
    for release in system.names(MODULES):
        files = {"image": _file(system, IMAGES, release), "initrd": _file(system, INITRDS, release)}
        files = files if all(files.values()) else none
        if files["image"] or release in entries:
            # A link could lead to another file system.
            places = {name: "" if system.link(path) else inside(path) for name, path in files.items()}
            yield {"release": release, **files, "grub": places, "systemd_boot": entries.get(release, none)}


def _file(system: System, names: tuple[str, ...], release: str) -> str:
    paths = (f"/boot/{name.format(release)}" for name in names)
    return next(filter(system.exists, paths), "") if release else ""


def _problem(system: System) -> str:
    """Why the host cannot boot in any way, and what to do; "" if it can."""
    if not system.exists("/run/systemd/system") or system.text("/run/systemd/container"):
        return "systemd is not PID 1 of the machine: use a host outside of containers"
    return ""


def _problem_of_files_in_boot(paths: dict[str, str]) -> str:
    """Why neither kexec nor GRUB can be used."""
    for name in ("image", "initrd"):
        if not paths[name]:
            return f"/boot has no {name} of the running kernel: restart the host if its kernel was upgraded"
    return ""


def _problem_of_kexec(system: System, paths: dict[str, str]) -> str:
    if not system.exists(KEXEC_LOADED):
        return "this kernel was built without kexec"
    if system.text(KEXEC_DISABLED) == "1":
        return "kernel.kexec_load_disabled is 1: remove it from sysctl.d and restart the host"
    return "" if paths["kexec"] else "the program kexec is missing: install kexec-tools"


def _grub(
    system: System, problem: str, mount: Optional[Mount], directory: str, files: dict[str, str]
) -> dict[str, str]:
    facts = {"directory": directory, "uuid": _uuid(system, mount["number"]) if mount else "", **files}
    return {**facts, "problem": problem or _problem_of_grub(system, facts, mount)}


def _inside(points: list[Mount], mount: Optional[Mount], path: str) -> str:
    """The path in the file system of a mount, "" if it is in another one."""
    return path[len(mount["mounted_on"].rstrip("/")) :] if mount and _mount(points, path) == mount else ""


def _mount(points: list[Mount], path: str) -> Optional[Mount]:
    """The mount on which a path is."""
    over = [each for each in points if f"{path}/".startswith(f"{each['mounted_on'].rstrip('/')}/")]
    return max(over, key=lambda each: len(each["mounted_on"]), default=None) if path else None


def _uuid(system: System, number: str) -> str:
    """The UUID of the file system on a block device, "" if udev has not recorded any."""
    name, links = system.link(f"/sys/dev/block/{number}").rpartition("/")[2], "/dev/disk/by-uuid"
    named = (each for each in system.names(links) if system.link(f"{links}/{each}").rpartition("/")[2] == name)
    return next(named, "") if name else ""


def _problem_of_grub(system: System, facts: dict[str, str], mount: Optional[Mount]) -> str:
    directory = facts["directory"]
    if not directory or not mount:
        return f"no grub.cfg is in {' or '.join(GRUB_DIRECTORIES)}"
    if f"${{config_directory}}/{grub.CUSTOM}" not in system.text(f"{directory}/grub.cfg"):
        return f"grub.cfg does not read {grub.CUSTOM}: make /etc/grub.d/41_custom executable and generate grub.cfg"
    custom = f"{directory}/{grub.CUSTOM}"
    if system.exists(custom) and not system.text(custom).startswith(grub.OURS):
        return f"{custom} exists: move its entries to /etc/grub.d/40_custom and generate grub.cfg"
    if mount["type"] not in WRITABLE or mount["root"] != "/":
        return f"GRUB cannot write to {directory} on {mount['type']}: it needs {', '.join(WRITABLE)}"
    layer = f"/sys/dev/block/{mount['number']}"
    if any(system.exists(f"{layer}/{each}") for each in LAYERS):
        return f"{directory} is on LVM, RAID or an encrypted device, to which GRUB cannot write"
    return _problem_of_files(system, facts)


def _problem_of_files(system: System, facts: dict[str, str]) -> str:
    line, path = system.text(cmdline.FILE), f"{facts['directory']}/{grub.ENVIRONMENT}"
    if not (facts["uuid"] and facts["image"] and facts["initrd"]):
        return f"{facts['directory']} and the running kernel are not in the same file system with a UUID"
    if cmdline.values(line).get(grub.IMAGE, "").rpartition(")")[2] != facts["image"]:
        return f"GRUB did not start {facts['image']}: /proc/cmdline has no such {grub.IMAGE}; restart the host"
    if any(quote in line for quote in grub.QUOTES):
        return "the command line has quotes or backslashes, which GRUB's entry cannot repeat"
    wrong = "it is a link" if system.link(path) else grub.check_block(system.text(path).encode())
    return f"{path} cannot be used: {wrong}; create it with grub-editenv" if wrong else ""
