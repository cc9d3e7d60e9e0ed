"""A dry run: present and new values, when each takes effect, and all refusals at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apps.tuning import effects, exports
from apps.tuning.api import EffectSerializer

FACTS = json.loads((Path(__file__).parents[2] / "agents/cases/facts.json").read_text())
POOL = "/proc/sys/vm/nr_hugepages"


def run(settings: dict[str, Any], live: dict[str, Any] | None = None, **facts: Any) -> effects.DryRun:
    return effects.dry_run({**FACTS, **facts}, settings, live)


def test_present_values_come_from_the_facts_or_from_a_query_of_the_host() -> None:
    settings = {"huge_pages": {"use": "on", "pool": 700}}
    known = {"sysctls": {"vm.nr_hugepages": "12"}}

    by_facts = {item.key: item.present for item in run(settings, **known).items}
    by_host = {item.key: item.present for item in run(settings, {"huge_pages": {"keys": {POOL: "13"}}}, **known).items}

    assert (by_facts[POOL], by_host[POOL]) == ("12", "13")


def test_the_api_shows_the_present_value_of_a_setting_under_both_names() -> None:
    queried = {"huge_pages": {"value": {"pool": 13}, "keys": {POOL: "13"}}}

    (shown,) = EffectSerializer(run({"huge_pages": {"use": "on", "pool": 700}}, queried).effects, many=True).data

    assert shown["present"] == shown["found"] == {"pool": 13}


@pytest.mark.parametrize(
    ("key", "known"),
    [
        (POOL, "0"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "madvise"),
        ("/sys/block/sda/queue/scheduler", "mq-deadline"),
        ("/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan", "4096"),
        ("/sys/devices/system/cpu/smt/control", "on"),
        ("/sys/block/sdz/queue/scheduler", None),
        ("/sys/kernel/mm/ksm/run", None),
        ("/proc/sys/vm/nothing_of_ours", None),
    ],
)
def test_a_present_value_that_facts_do_not_have_is_none(key: str, known: str | None) -> None:
    facts = {
        "huge_pages": {"default_kb": 2048, "sizes": [{"kb": 2048, "total": 0}]},
        "transparent_huge_pages": {"enabled": "madvise", "khugepaged": {"pages_to_scan": 4096}},
        "block_devices": [{"name": "sda", "scheduler": "mq-deadline"}],
        "cpus": {"smt": "on"},
    }

    assert effects.fact_of(key, facts) == known


def test_every_refused_field_is_named_not_the_first_only() -> None:
    settings = {"cpu_affinity": {"server": "99", "client": "77"}, "numa": {"policy": "membind", "nodes": "9"}}

    assert [refusal.field for refusal in run(settings).refusals] == [
        "cpu_affinity.server",
        "cpu_affinity.client",
        "numa.nodes",
    ]


def test_without_the_needed_privilege_the_changes_are_still_shown() -> None:
    planned = run({"transparent_huge_pages": {"enabled": "never", "defrag": "bogus"}}, level="user")

    assert [refusal.field for refusal in planned.refusals] == [
        "transparent_huge_pages.defrag",
        "transparent_huge_pages",
    ]
    assert [item.wanted for item in planned.items] == ["never"]
    assert planned.lines == []


def test_two_settings_that_want_one_parameter_are_refused_together() -> None:
    refusals = effects._together(FACTS, [])
    assert refusals == []

    clash = run({"postgresql": {"huge_pages": "on"}, "huge_pages": {"use": "off"}})
    assert clash.refusals and "huge_pages" in clash.refusals[0].field


@pytest.mark.parametrize(
    ("parameter", "when"),
    [("shared_buffers", "at the start of PostgreSQL"), ("work_mem", "with a reload")],
)
def test_a_parameter_says_whether_a_running_server_takes_it(parameter: str, when: str) -> None:
    (item,) = run({"postgresql": {parameter: "1GB"}}).items

    assert item.when == when


def test_an_unknown_setting_is_refused_with_the_known_ones() -> None:
    (refusal,) = run({"turbo": {"on": True}}).refusals

    assert refusal.field == "settings.turbo" and "cpu_affinity" in refusal.accepted


def test_risks_are_those_of_settings_that_have_one() -> None:
    settings = {"transparent_huge_pages": {"enabled": "never"}, "cpu_affinity": {"server": "0"}}

    assert [name for name, _ in run(settings).risks] == ["Transparent huge pages"]


def test_facts_that_are_older_than_a_setting_are_a_reason_to_check_the_host() -> None:
    old = {name: fact for name, fact in FACTS.items() if name != "transparent_huge_pages"}

    (refusal,) = effects.dry_run(old, {"transparent_huge_pages": {"enabled": "never"}}).refusals

    assert refusal.field == "transparent_huge_pages" and "check the host" in refusal.hint


def test_one_time_commands_are_in_the_order_in_which_a_dba_would_type_them() -> None:
    shown = run({"cpu_affinity": {"server": "0", "client": "1"}, "cache": {"state": "warm", "relations": "t"}})

    assert shown.lines == [
        "taskset -c 0 postgres -D $PGDATA",
        "psql -c \"select pg_prewarm('t')\"",
        "taskset -c 1 pgbench ...",
    ]
    assert run({"cache": {"state": "cold"}}).lines == ["sync", "echo 3 > /proc/sys/vm/drop_caches"]
    assert run({"cache": {"state": "cold"}}).needs_root == ["Cache state"]


def test_limits_of_a_control_group_are_set_before_postgresql_starts_in_it() -> None:
    shown = run({"cgroup": {"memory_max": "1GB", "cpu_max": 2}, "cpu_affinity": {"server": "0"}})

    assert shown.lines == [
        "mkdir $CGROUP",
        'echo "1073741824" > $CGROUP/memory.max',
        'echo "200000 100000" > $CGROUP/cpu.max',
        "echo $$ > $CGROUP/cgroup.procs  # in the shell that starts PostgreSQL",
        "taskset -c 0 postgres -D $PGDATA",
    ]
    assert shown.needs_root == ["Control group"]
    assert shown.needs_start == ["taskset of PostgreSQL", "memory.max", "cpu.max"]


def test_shared_buffers_of_the_profile_are_compared_with_its_memory_limit() -> None:
    fits = {"cgroup": {"memory_max": "100MB"}, "postgresql": {"shared_buffers": "32MB"}}

    assert run(fits).refusals == []
    (refusal,) = run({**fits, "postgresql": {"shared_buffers": "96MB"}}).refusals
    assert refusal.field == "cgroup.memory_max" and "shared_buffers is 96MB" in refusal.accepted


def test_every_refused_sysctl_is_named() -> None:
    shown = run({"sysctl": {"vm": {"swappiness": 150, "dirty_bytes": 10, "dirty_ratio": 5}}})

    assert {refusal.field for refusal in shown.refusals} >= {"sysctl.vm.swappiness", "sysctl.vm.dirty_bytes"}


def test_kernel_parameters_are_shown_one_by_one_beside_those_of_the_host() -> None:
    facts = FACTS | {
        "level": "root",
        "boot": {"image": "/boot/vmlinuz", "initrd": "/boot/initrd", "problem": ""},
        "kernel": {"cmdline": "ro mitigations=auto"},
    }

    shown = effects.dry_run(facts, {"kernel_command_line": {"mitigations": "off", "processor": {"max_cstate": 1}}})

    assert [(item.key, item.present, item.wanted) for item in shown.items] == [
        ("mitigations", "auto", "off"),
        ("processor.max_cstate", "not set", "1"),
    ]
    assert shown.needs_root == ["Kernel command line"] and shown.risks[0][1].startswith("restarts the host")
    assert shown.lines == [
        "kexec -a -l /boot/vmlinuz --initrd=/boot/initrd "
        "'--command-line=ro mitigations=off processor.max_cstate=1 panic=10'",
        "systemctl kexec",
    ]
    assert shown.boots and not run({"cache": {"state": "cold"}}).boots
    script = exports.shell("quick", shown)
    assert "then restart the host: mitigations=off processor.max_cstate=1\n" in script and "kexec" not in script
    assert "[bootloader]\ncmdline_mitigations=+mitigations=off\n" in exports.tuned("quick", shown)


def test_another_kernel_is_shown_beside_that_of_the_host() -> None:
    files = {"image": "/boot/vmlinuz-6.12", "initrd": "/boot/initrd-6.12"}
    ways = {"image": "/boot/vmlinuz-6.1", "initrd": "/boot/initrd-6.1", "problem": ""}
    facts = FACTS | {
        "level": "root",
        "boot": {**ways, "kernels": [{"release": "6.12", **files, "grub": {"image": "", "initrd": ""}}]},
        "kernel": {"release": "6.1", "cmdline": "ro"},
    }

    shown = effects.dry_run(facts, {"kernel_command_line": {"kernel": "6.12"}})

    assert [(item.key, item.present, item.wanted) for item in shown.items] == [("kernel", "6.1", "6.12")]
    assert shown.lines == [
        "kexec -a -l /boot/vmlinuz-6.12 --initrd=/boot/initrd-6.12 --command-line=ro",
        "systemctl kexec",
    ]
    assert "# Let the boot loader start this kernel by default, then restart the host: 6.12\n" in exports.shell(
        "q", shown
    )
    assert "# kernel_command_line: # start the kernel 6.12\n" in exports.tuned("q", shown)


def test_facts_of_an_agent_that_did_not_report_kernels_are_refused_with_the_next_step() -> None:
    ways = {"image": "/boot/vmlinuz-6.1", "initrd": "/boot/initrd-6.1", "problem": ""}
    facts = FACTS | {"level": "root", "boot": ways, "kernel": {"release": "6.1", "cmdline": "ro"}}

    (refusal,) = effects.dry_run(facts, {"kernel_command_line": {"kernel": "6.12"}}).refusals

    assert refusal.accepted == "a host with newer facts" and refusal.hint.startswith("check the host")
