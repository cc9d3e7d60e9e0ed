"""Whether systemd-boot can start an entry of the agent once, and where it finds the running kernel."""

from __future__ import annotations

import posixpath
import re

from ..host.loaders import systemd_boot as loader
from ..host.loaders.systemd_boot import AFTER_OURS, ENTRIES, NAME, OLDEST, OURS, parsed, text_of
from ..host.system import System
from .storage import mounts

PLACES = ("/boot", "/efi", "/boot/efi")
# An entry with other keys cannot be repeated: they name another kind of image, or more that belongs to the kernel.
REPEATED = {"title", "version", "machine-id", "sort-key", "linux", "initrd", "options", "architecture"}
Keys = dict[str, list[str]]
_VERSION = re.compile(r"systemd-boot (\d+)")
_ENTRY = re.compile(r"[\w.+-]+\.conf$(?!\n)")


def read(system: System, problem: str) -> dict[str, str]:
    """{"directory": where the partition with the entry of the running kernel is mounted, "image", "initrd": paths
    there, of several initial RAM disks with spaces between, "problem"}, each "" for none. `problem`: of the host."""
    name = text_of(system, "LoaderEntrySelected")
    is_entry = bool(_ENTRY.match(name))
    # Before the mounts are read: this mounts what systemd mounts at the first access.
    directory = next((each for each in PLACES if is_entry and system.exists(f"{each}/{ENTRIES}/{name}")), "")
    keys = parsed(system.text(f"{directory}/{ENTRIES}/{name}")) if directory else {}
    facts = {"directory": directory, **_files(keys)}
    problem = problem or _problem_of_loader(system, name) or _problem_of_entry(system, facts, keys, name)
    return {**facts, "problem": problem or _problem_of_partition(system, directory)}


def kernels(system: System, directory: str) -> dict[str, dict[str, str]]:
    """{release: {"image", "initrd"}} of kernels with an entry of this version that the agent can repeat."""
    folder = f"{directory}/{ENTRIES}"
    names = [name for name in system.names(folder) if name.endswith(".conf")] if directory else []
    entries = [parsed(system.text(f"{folder}/{name}")) for name in names if name != NAME]
    usable = [keys for keys in entries if "version" in keys and not set(keys) - REPEATED]
    files = {keys["version"][0]: _files(keys) for keys in usable}
    return {release: each for release, each in files.items() if not _missing(system, directory, each)}


def _files(keys: Keys) -> dict[str, str]:
    image = _path(keys["linux"][-1]) if keys.get("linux") else ""
    return {"image": image, "initrd": " ".join(map(_path, keys.get("initrd", [])))}


def _path(path: str) -> str:
    return "/" + path.replace("\\", "/").lstrip("/")


def _missing(system: System, directory: str, files: dict[str, str]) -> str:
    """The first of the files that is not there; "" if all are."""
    if not (files["image"] and files["initrd"]):
        return "the image or initial RAM disk"
    named = [files["image"], *files["initrd"].split()]
    return next((each for each in named if not system.exists(directory + each)), "")


def _problem_of_loader(system: System, name: str) -> str:
    if not system.exists(loader.EFI):
        return "the host was not started by UEFI firmware"
    if not any(each["mounted_on"] == loader.VARIABLES and "ro" not in each["options"] for each in mounts(system)):
        return f"{loader.VARIABLES} is not mounted, or read-only: mount efivarfs there"
    info = text_of(system, "LoaderInfo")
    version = _VERSION.match(info)
    if not version:
        return f"systemd-boot did not start the host; its boot loader is {info or 'unknown'}"
    if int(version.group(1)) < OLDEST:
        return f"{info} could start the agent's entry by default: update it to {OLDEST} or later with bootctl"
    if not _ENTRY.match(name):
        return f"{name or 'an unknown entry'} is not a file in {ENTRIES}; unified kernel images are not supported"
    return ""


def _problem_of_entry(system: System, facts: dict[str, str], keys: Keys, name: str) -> str:
    directory, release = facts["directory"], system.text("/proc/sys/kernel/osrelease")
    if not directory:
        return f"{ENTRIES}/{name} is not below {', '.join(PLACES)}: mount its partition there, or restart the host"
    others = set(keys) - REPEATED
    if others:
        return f"the entry {name} has {', '.join(sorted(others))}, which the agent's entry cannot repeat"
    missing = _missing(system, directory, facts)
    if missing:
        return f"{missing} of the entry {name} is not in {directory}"
    if not system.exists(f"/lib/modules/{release}"):
        return f"/lib/modules has no {release}: restart the host if its kernel was upgraded"
    return _problem_of_names(system, f"{directory}/{ENTRIES}")


def _problem_of_names(system: System, folder: str) -> str:
    last = [name for name in system.names(folder) if name != NAME and AFTER_OURS.match(name)]
    if last:
        return f"{folder}/{last[0]} would come after the agent's entry in the order of names: rename it"
    own = f"{folder}/{NAME}"
    is_others = system.exists(own) and not system.text(own).startswith(OURS)
    return f"{own} exists: rename it" if is_others else ""


def _problem_of_partition(system: System, directory: str) -> str:
    mount = next((each for each in mounts(system) if each["mounted_on"] == directory), None)
    if not mount or mount["type"] != "vfat" or mount["root"] != "/":
        return f"{directory} is not a mounted partition with vfat"
    if "ro" in mount["options"]:
        return f"{directory} is mounted read-only"
    partition = text_of(system, "LoaderDevicePartUUID").lower()
    loaded = _disk(system, f"/dev/disk/by-partuuid/{partition}") if partition else ""
    if not loaded or _disk(system, f"/sys/dev/block/{mount['number']}") != loaded:
        return f"{directory} is not on the disk from which systemd-boot started"
    return ""


def _disk(system: System, link: str) -> str:
    """The device in /sys of the disk of a partition to which a link leads; "" for none."""
    name = posixpath.basename(system.link(link))
    return posixpath.dirname(system.link(f"/sys/class/block/{name}")) if name else ""
