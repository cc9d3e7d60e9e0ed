"""Export settings for a host as files to install by hand: a shell script, a tuned profile, sysctl.d, postgresql.conf,
tasks of Ansible.

Settings that a format does not support are comments with the commands to use instead. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agents.settings.base import conf_line
from apps.tuning.effects import SYSCTL, THP, DryRun, PlannedChange, script, starts

BLOCK = re.compile(r"^/sys/block/([^/]+)/queue/(scheduler|read_ahead_kb)$")
CPUFREQ = re.compile(r"^/sys/devices/system/cpu/(?:cpu\d+/cpufreq|cpufreq/policy\d+)/scaling_governor$")
LATENCY = "/dev/cpu_dma_latency"
# tuned's names for two files of a disk's queue. Both count read-ahead in KiB.
DISK = {"scheduler": "elevator", "read_ahead_kb": "readahead"}
VM = {"enabled": "transparent_hugepages", "defrag": "transparent_hugepage.defrag"}


@dataclass(frozen=True)
class Format:
    """A file format. `render` returns the text of the file from a title and a dry run."""

    name: str
    title: str
    suffix: str
    where: str
    render: Callable[[str, DryRun], str]


def shell(title: str, run: DryRun) -> str:
    """Return a shell script with the commands of the dry run."""
    before, after = script(run.plans), starts(run.plans)
    data = [': "${DATA:?the device below it, as in /sys/block}"'] if any("$DATA" in line for line in before) else []
    kernels = [item.wanted for item in _good(run) if item.kind == "kernel"]
    parameters = [f"{item.key}={item.wanted}" for item in _good(run) if item.kind == "boot"]
    boot = [f"# Let the boot loader start this kernel by default, then restart the host: {each}" for each in kernels]
    advice = "# Add to the kernel command line in the boot loader, then restart the host:"
    boot += [f"{advice} {' '.join(parameters)}"] if parameters else []
    begin = ["#!/bin/sh", *_head(title, run), "set -eu", ': "${PGDATA:?the directory of the cluster}"', *data, ""]
    note = ["", "# Each under the account that it applies to:"] if after else []
    return _file([*begin, *boot, *before, *note, *(f"#   {line}" for line in after)])


def sysctl(title: str, run: DryRun) -> str:
    """Return a fragment for /etc/sysctl.d."""
    ours = [item for item in _good(run) if _is_sysctl(item)]
    lines = [f"{sysctl_name(item.key)} = {item.wanted}" for item in ours]
    return _file([*_head(title, run), *lines, *_rest("sysctl.d", run, ours)])


def sysctl_name(key: str) -> str:
    """Return the name of a sysctl: vm.swappiness for /proc/sys/vm/swappiness. Slashes remain if a part contains a
    dot, see sysctl.d(5)."""
    parts = key[len(SYSCTL) :].split("/")
    return ("/" if any("." in part for part in parts) else ".").join(parts)


def postgresql(title: str, run: DryRun) -> str:
    """Return a fragment that postgresql.conf includes."""
    ours = [item for item in _good(run) if item.kind == "conf"]
    lines = [conf_line(item.key, item.wanted) for item in ours]
    return _file([*_head(title, run), *lines, *_rest("postgresql.conf", run, ours), *_started(run)])


def tuned(title: str, run: DryRun) -> str:
    """tuned.conf(5): sections bootloader, sysctl, vm, cpu, disk and sysfs."""
    placed = [(item, place) for item in _good(run) if (place := _section(item))]
    sections: dict[str, list[str]] = {}
    for _, (section, head, option) in placed:
        lines = sections.setdefault(section, list(head))
        lines += [option] if option not in lines else []
    body = [line for section, lines in sections.items() for line in ("", f"[{section}]", *lines)]
    summary = ["", "[main]", f"summary={title}"]
    return _file(
        [*_head(title, run), *summary, *body, *_rest("tuned", run, [item for item, _ in placed]), *_started(run)]
    )


def _section(item: PlannedChange) -> tuple[str, list[str], str] | None:
    """Return (section, its first lines, option=value) of tuned.conf; None if no plugin of tuned supports it."""
    if item.kind == "boot":
        return "bootloader", [], f"cmdline_{re.sub(r'[^a-z0-9]', '_', item.key)}=+{item.key}={item.wanted}"
    if item.kind == "hold" and item.key == LATENCY:
        return "cpu", [], f"force_latency={item.wanted}"
    if item.kind != "write" or item.wanted.startswith("$(") or "$" in item.key:
        return None
    if item.key.startswith(SYSCTL):
        return "sysctl", [], f"{sysctl_name(item.key)}={item.wanted}"
    if item.key.startswith(THP) and item.key[len(THP) :] in VM:
        return "vm", [], f"{VM[item.key[len(THP) :]]}={item.wanted}"
    if CPUFREQ.match(item.key):
        return "cpu", [], f"governor={item.wanted}"
    if match := BLOCK.match(item.key):
        device, name = match.groups()
        return f"disk_{device}", ["type=disk", f"devices={device}"], f"{DISK[name]}={item.wanted}"
    return ("sysfs", [], f"{item.key}={item.wanted}") if item.key.startswith("/sys/") else None


def ansible(title: str, run: DryRun) -> str:
    """Return Ansible tasks to include. Values are marked !unsafe, so that they are not expanded as templates."""
    conf = [item for item in _good(run) if item.kind == "conf"]
    writes = [item for item in _good(run) if item.kind == "write" and not item.wanted.startswith("$(")]
    able = [item for item in writes if "$" not in item.key]
    tasks = [line for item in able for line in (_sysctl_task(item) if _is_sysctl(item) else _file_task(item))]
    begin = ["---", *_head(title, run)]
    return _file([*begin, *tasks, *(_conf_task(conf) if conf else []), *_rest("Ansible", run, [*able, *conf])])


def _sysctl_task(item: PlannedChange) -> list[str]:
    return [
        f"- name: {json.dumps(sysctl_name(item.key))}",
        "  ansible.posix.sysctl:",
        f"    name: {_yaml(sysctl_name(item.key))}",
        f"    value: {_yaml(item.wanted)}",
        "    sysctl_file: /etc/sysctl.d/60-proving-ground.conf",
    ]


def _file_task(item: PlannedChange) -> list[str]:
    """Return the task for a kernel file. It uses a command, because Ansible's file modules replace files. The value
    lasts until the host restarts."""
    return [f"- name: {json.dumps(item.key)}", f"  ansible.builtin.shell: {_yaml(item.line)}"]


def _conf_task(items: list[PlannedChange]) -> list[str]:
    """Return the task for a file that postgresql.conf includes. The team has to set its path."""
    content = "".join(f"{conf_line(item.key, item.wanted)}\n" for item in items)
    return [
        '- name: "PostgreSQL parameters"',
        "  ansible.builtin.copy:",
        '    dest: "{{ postgresql_conf_dir }}/proving-ground.conf"',
        f"    content: {_yaml(content)}",
        '    mode: "0644"',
    ]


def _yaml(text: str) -> str:
    """Return a YAML string; a JSON string is one."""
    return f"!unsafe {json.dumps(text)}"


def _is_sysctl(item: PlannedChange) -> bool:
    return item.kind == "write" and item.key.startswith(SYSCTL) and not item.wanted.startswith("$(")


def _good(run: DryRun) -> list[PlannedChange]:
    return [item for effect in run.effects if not effect.refusals for item in effect.items]


def _head(title: str, run: DryRun) -> list[str]:
    refused = [
        f"# refused: {refusal.field} = {refusal.value!r}; accepted: {refusal.accepted}" for refusal in run.refusals
    ]
    idle = [effect for effect in run.effects if not effect.items and not effect.refusals]
    acts = [f"# {each.setting.name} = {json.dumps(each.wanted)} changes nothing permanently" for each in idle]
    warned = [f"# risk of {name}: {risk}" for name, risk in run.risks]
    return [_one_line(line) for line in (f"# {title}", *refused, *acts, *warned)]


def _rest(what: str, run: DryRun, written: Iterable[PlannedChange]) -> list[str]:
    """The settings that this format does not support, as commented shell commands."""
    known = {id(item) for item in written}
    left = [item for item in _good(run) if id(item) not in known]
    lines = [f"# {item.setting}: {item.line}" for item in left]
    return ["", f"# Not supported by {what}, as shell commands:", *map(_one_line, lines)] if lines else []


def _started(run: DryRun) -> list[str]:
    """Return the prefixes of the command line as systemd directives."""
    unit = {name: value for effect in run.effects if not effect.refusals for name, value in effect.plan.unit.items()}
    lines = [_one_line(f"#   {name}={value}") for name, value in unit.items()]
    return (
        ["", "# The same for a server under systemd, in [Service] of a drop-in of its unit:", *lines] if lines else []
    )


def _one_line(text: str) -> str:
    return " ".join(text.split("\n"))


def _file(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


FORMATS = {
    each.name: each
    for each in (
        Format("shell", "shell script", ".sh", "for review; run as root on the host", shell),
        Format(
            "tuned", "tuned profile", "-tuned.conf", "as /etc/tuned/NAME/tuned.conf, then tuned-adm profile NAME", tuned
        ),
        Format("sysctl", "sysctl.d fragment", "-sysctl.conf", "into /etc/sysctl.d, then sysctl --system", sysctl),
        Format(
            "postgresql", "postgresql.conf fragment", "-postgresql.conf", "copy to conf.d, or include it", postgresql
        ),
        Format(
            "ansible",
            "Ansible tasks",
            "-tasks.yml",
            "use with include_tasks and the variable postgresql_conf_dir",
            ansible,
        ),
    )
}
