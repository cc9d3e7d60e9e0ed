"""The sysctls that a profile may set: an allow-list with types, units and ranges. Pure.

A range is what makes sense for a database host; where the kernel's own is wider, ours is the stricter one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

MAX = 2**31 - 1
# Two pages of the largest size that Linux is built with (64 kB): the least that the kernel takes everywhere.
TWO_PAGES = 131072


@dataclass(frozen=True)
class Knob:
    """One sysctl. Of `rival`, the kernel keeps either this one or that one: setting one clears the other. `choices` are
    the values it accepts, `choices_in` the sysctl that lists them; `numbers`: how many it takes. `debug` is its
    file in /sys/kernel/debug/sched since Linux 5.13, if it has one."""

    name: str
    about: str
    low: int = 0
    high: int = MAX
    unit: str = ""
    rival: str = ""
    choices: tuple[str, ...] = ()
    choices_in: str = ""
    numbers: int = 1
    debug: str = ""

    @property
    def path(self) -> str:
        return "/proc/sys/" + self.name.replace(".", "/")

    @property
    def schema(self) -> dict[str, Any]:
        shown = {"title": f"{self.name} ({self.unit})" if self.unit else self.name, "description": self.about}
        if self.choices or self.choices_in:
            choice = {"enum": list(self.choices)} if self.choices else {"pattern": "^[a-z0-9_-]{1,40}$"}
            return {"type": "string", **choice, **shown}
        if self.numbers > 1:
            return {"type": "string", "pattern": r"^\d{1,10}( \d{1,10})" + f"{{{self.numbers - 1}}}$", **shown}
        return {"type": "integer", "minimum": self.low, "maximum": self.high, **shown}


def _flag(name: str, about: str) -> Knob:
    return Knob(name, about, 0, 1)


# In the order of writing: the values that a mode needs come before the mode.
KNOBS = (
    Knob("vm.dirty_background_ratio", "Share of available memory that can be dirty before background writes start",
         1, 89, "%", rival="vm.dirty_background_bytes"),
    Knob("vm.dirty_background_bytes", "The same in bytes, instead of the ratio", TWO_PAGES, 2**40, "bytes",
         rival="vm.dirty_background_ratio"),
    Knob("vm.dirty_ratio", "Share of available memory that can be dirty before writers have to wait", 2, 90, "%",
         rival="vm.dirty_bytes"),
    Knob("vm.dirty_bytes", "The same in bytes, instead of the ratio", TWO_PAGES, 2**40, "bytes",
         rival="vm.dirty_ratio"),
    Knob("vm.dirty_expire_centisecs", "Age at which dirty data is written out", 1, 360000, "1/100 s"),
    Knob("vm.dirty_writeback_centisecs", "Interval of checks for dirty data; 0 never", 0, 360000, "1/100 s"),
    Knob("vm.swappiness", "Tendency to swap memory instead of dropping page cache; over 100 from Linux 5.8 on", 0, 200),
    Knob("vm.overcommit_ratio", "Share of memory that can be committed with overcommit_memory 2", 1, 1000, "%",
         rival="vm.overcommit_kbytes"),
    Knob("vm.overcommit_kbytes", "The same in kB, instead of the ratio", 65536, 2**40, "kB",
         rival="vm.overcommit_ratio"),
    Knob("vm.overcommit_memory", "0: heuristic, 1: always, 2: limited by ratio and swap; refused if exceeded",
         0, 2),
    Knob("vm.zone_reclaim_mode", "Bits: 1 free memory of the node first, 2 write dirty pages, 4 swap",
         0, 7),
    Knob("vm.min_free_kbytes", "Memory kept free for the kernel; at most 5 % of the host's", 1024, 2**30, "kB"),
    Knob("vm.watermark_scale_factor", "Distance between the watermarks at which kswapd starts and stops",
         1, 1000, "1/10000 of memory"),
    Knob("vm.vfs_cache_pressure", "Tendency to drop directory and inode caches; 100: like pages",
         1, 1000),
    Knob("vm.compaction_proactiveness", "Effort to keep free memory in large blocks; 0 none", 0, 100),
    Knob("vm.stat_interval", "Interval of updates of memory statistics of each CPU", 1, 3600, "s"),
    Knob("kernel.numa_balancing", "Move tasks and memory together: 0 off, 1 on, 2 promote from slow memory (5.18)",
         0, 2),
    _flag("kernel.sched_autogroup_enabled", "Share CPU time by session, which favours terminals over services"),
    Knob("kernel.sched_migration_cost_ns", "Time since its last run during which a task counts as cache-hot",
         0, 100_000_000, "ns", debug="migration_cost_ns"),
    Knob("kernel.sched_min_granularity_ns", "Minimum run time of a task; removed in Linux 6.6", 100_000, 1_000_000_000,
         "ns", debug="min_granularity_ns"),
    Knob("kernel.sched_wakeup_granularity_ns", "Advantage that a woken task needs to preempt; removed in Linux 6.6",
         0, 1_000_000_000, "ns", debug="wakeup_granularity_ns"),
    Knob("kernel.sched_latency_ns", "Period in which every task runs once; removed in Linux 6.6",
         100_000, 1_000_000_000, "ns", debug="latency_ns"),
    Knob("net.core.somaxconn", "Longest queue of connections that wait for accept", 16, 65535),
    Knob("net.core.rmem_max", "Largest receive buffer that a program can request", 4096, 2**30, "bytes"),
    Knob("net.core.wmem_max", "Largest send buffer that a program can request", 4608, 2**30, "bytes"),
    Knob("net.core.rmem_default", "Receive buffer of sockets other than TCP", 4096, 2**30, "bytes"),
    Knob("net.core.wmem_default", "Send buffer of sockets other than TCP", 4608, 2**30, "bytes"),
    Knob("net.core.netdev_max_backlog", "Packets that can be queued for a CPU", 100, 1_000_000),
    Knob("net.core.netdev_budget", "Packets processed in one round of polling", 1, 100_000),
    Knob("net.core.busy_poll", "Time that poll and select poll the device; 0 off", 0, 1000, "us"),
    Knob("net.core.busy_read", "Time that reads poll the device; 0 off", 0, 1000, "us"),
    Knob("net.core.default_qdisc", "Queueing discipline of new devices",
         choices=("pfifo_fast", "fq", "fq_codel", "cake", "sfq", "pfifo")),
    Knob("net.ipv4.tcp_rmem", "Receive buffer of TCP: minimum, default, maximum", 4096, MAX, "3 x bytes", numbers=3),
    Knob("net.ipv4.tcp_wmem", "Send buffer of TCP: minimum, default, maximum", 4096, MAX, "3 x bytes", numbers=3),
    Knob("net.ipv4.tcp_congestion_control", "Congestion control of new connections, of those available in this kernel",
         choices_in="net.ipv4.tcp_available_congestion_control"),
    Knob("net.ipv4.tcp_keepalive_time", "Idle time before the first probe", 1, 32767, "s"),
    Knob("net.ipv4.tcp_keepalive_intvl", "Time between probes", 1, 32767, "s"),
    Knob("net.ipv4.tcp_keepalive_probes", "Unanswered probes that end a connection", 1, 127),
    Knob("net.ipv4.tcp_max_syn_backlog", "Maximum of half-open connections", 16, 1_000_000),
    Knob("net.ipv4.tcp_fin_timeout", "Time until an orphaned connection is closed", 1, 3600, "s"),
    Knob("net.ipv4.tcp_tw_reuse", "Reuse ports in TIME-WAIT: 0 no, 1 yes, 2 on loopback", 0, 2),
    _flag("net.ipv4.tcp_slow_start_after_idle", "Restart with a small window after an idle period"),
    _flag("net.ipv4.tcp_autocorking", "Combine small writes into one packet"),
    Knob("net.ipv4.tcp_notsent_lowat", "Unsent bytes at which a socket counts as full", 4096, MAX, "bytes"),
)  # fmt: skip
BY_NAME = {knob.name: knob for knob in KNOBS}


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    """{"vm.swappiness": 10} -> {"vm": {"swappiness": 10}}."""
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        *parents, last = name.split(".")
        here = tree
        for parent in parents:
            here = here.setdefault(parent, {})
        here[last] = value
    return tree


def flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"vm": {"swappiness": 10}} -> {"vm.swappiness": 10}."""
    values: dict[str, Any] = {}
    for name, value in tree.items():
        values.update(flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value})
    return values


def schema() -> dict[str, Any]:
    return _object(nested({knob.name: knob for knob in KNOBS}), "Kernel parameters (sysctl)")


def _object(tree: dict[str, Any], title: str) -> dict[str, Any]:
    inner = {name: _object(each, name) if isinstance(each, dict) else each.schema for name, each in tree.items()}
    return {"type": "object", "title": title, "properties": inner, "additionalProperties": False}


def number(text: Optional[str]) -> Optional[int]:
    return int(text) if text is not None and text.isdigit() else None
